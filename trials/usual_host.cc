#include "trials/usual_host.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "trials/cluster.h"
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

// Whether a word of a product says that it is not what the host has: another
// form of card, a model of its own, or another size of memory.
bool MakesAnother(const std::string& word, const UsualHost& host) {
  static const std::set<std::string, std::less<>> forms = {
      "pcie", "nvl",   "sxm",    "sxm2", "sxm3", "sxm4", "sxm5", "laptop",
      "mig",  "super", "mobile", "ti",   "d",    "3e",   "ada"};
  const bool known =
      std::ranges::any_of(host.names, [&](const std::string& name) {
        return std::ranges::any_of(Words(name), [&](const std::string& each) {
          return each == word || (each == "sxm" && word.starts_with(each));
        });
      });
  const std::size_t digits =
      std::min(word.find_first_not_of("0123456789"), word.size());
  const std::string unit = word.substr(digits);
  if (!known && digits > 0 && (unit == "gb" || unit == "g")) {
    constexpr double kLeastShare = 0.85;  // of its name, by ECC and in GiB
    constexpr double kMostShare = 1.05;
    const double share = FindGpu(host.gpu).memory_bytes / common::kGibi /
                         std::stod(word.substr(0, digits));
    return share < kLeastShare || share > kMostShare;
  }
  return !known && forms.contains(word);
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

std::optional<NearestHost> NearestHostOf(const std::string& product) {
  const std::vector<std::string> words = Words(product);
  std::optional<NearestHost> found;
  std::size_t most = 0;
  for (const UsualHost& usual : UsualHosts()) {
    for (const std::string& name : usual.names) {
      const std::vector<std::string> parts = Words(name);
      if (parts.size() > most &&
          std::ranges::all_of(parts, [&](const std::string& part) {
            return common::Contains(words, part);
          })) {
        most = parts.size();
        found = {usual, {}};
      }
    }
  }
  if (found) {
    std::ranges::copy_if(words, std::back_inserter(found->differs),
                         [&](const std::string& word) {
                           return MakesAnother(word, found->host);
                         });
  }
  return found;
}

std::optional<UsualHost> UsualHostOf(const std::string& product) {
  const std::optional<NearestHost> nearest = NearestHostOf(product);
  return nearest && nearest->differs.empty() ? std::optional(nearest->host)
                                             : std::nullopt;
}

}  // namespace trials
