#include "trials/usual_host.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

// The words of a name, in lower case: {"a100", "80gb", "pcie"} of
// "A100 80GB-PCIe".
std::vector<std::string> Words(const std::string& name) {
  std::string text = common::Lower(name);
  std::ranges::replace(text, '-', ' ');
  const std::vector<std::string_view> words = common::Split(text, ' ');
  return {words.begin(), words.end()};
}

}  // namespace

std::vector<UsualHost> UsualHosts() {
  const common::TomlTable table = common::TomlTable::ParseFile(
      ExperimentsFolder() / "machines" / "machines.toml");
  std::vector<UsualHost> all;
  for (const std::string& gpu : table.Keys()) {
    const common::TomlTable entry = table.GetTable(gpu);
    UsualHost usual{gpu, entry.GetStrings("aliases"),
                    entry.RequireString("cluster")};
    usual.names.insert(usual.names.begin(), gpu);
    all.push_back(std::move(usual));
  }
  return all;
}

std::optional<UsualHost> UsualHostOf(const std::string& product) {
  const std::vector<std::string> words = Words(product);
  std::optional<UsualHost> found;
  std::size_t most = 0;
  for (const UsualHost& usual : UsualHosts()) {
    for (const std::string& name : usual.names) {
      const std::vector<std::string> parts = Words(name);
      if (parts.size() > most &&
          std::ranges::all_of(parts, [&](const std::string& part) {
            return common::Contains(words, part);
          })) {
        most = parts.size();
        found = usual;
      }
    }
  }
  return found;
}

}  // namespace trials
