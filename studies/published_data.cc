#include "studies/published_data.h"

#include <filesystem>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/hash.h"
#include "trials/data_folder.h"

namespace studies {
namespace {

namespace fs = std::filesystem;

// The texts of manifests and of tables to validate, by their names.
std::map<std::string, std::string> UsersOfData() {
  std::map<std::string, std::string> texts;
  for (const fs::path& folder : {trials::ExperimentsFolder(),
                                 trials::ExperimentsFolder() / "validation"}) {
    for (const fs::path& path : common::ListFolder(folder)) {
      if (path.extension() == ".toml") {
        texts[path.stem().string()] += common::ReadFile(path);
      }
    }
  }
  return texts;
}

// "here", "in OPPA_DATA", "missing", "differs".
std::string StateOf(const std::string& name, const std::string& check) {
  try {
    const fs::path path = trials::ResolveTablePath(name, ".");
    if (fmt::format("{:016x}", common::Hash(common::ReadFile(path))) != check) {
      return "differs: " + path.string();
    }
    return path == trials::ExperimentsFolder() / name ? "here" : "in OPPA_DATA";
  } catch (const common::InputError&) {
    return "missing";
  }
}

}  // namespace

PublishedData FindPublishedData() {
  const common::CsvTable list = common::CsvTable::Read(
      trials::ExperimentsFolder() / "tables/published.csv");
  const std::map<std::string, std::string> texts = UsersOfData();
  PublishedData data;
  int missing = 0;
  for (const common::CsvTable::Row& row : list.rows()) {
    const auto cell = [&](std::string_view column) {
      return std::string(list.Cell(row, column));
    };
    const std::string name = cell("table");
    std::vector<std::string> users;
    for (const auto& [user, text] : texts) {
      if (text.find('"' + name + '"') != std::string::npos) {
        users.push_back(user);
      }
    }
    if (const std::string also = cell("used_by"); !also.empty()) {
      users.push_back(also);
    }
    const std::string state = StateOf(name, cell("check"));
    missing += state == "missing" ? 1 : 0;
    data.any_differs = data.any_differs || state.starts_with("differs");
    data.table.Add({{"table", name},
                    {"state", state},
                    {"used by", fmt::format("{}", fmt::join(users, ", "))},
                    {"bytes", plots::Figures(cell("bytes"))},
                    {"check", cell("check")},
                    {"licence", cell("licence")},
                    {"published", cell("published")}});
  }
  data.conclusion = fmt::format(
      "{} of {} tables are missing{}. A check value is the 64-bit FNV-1a hash "
      "of the file. Tables marked `here` come with this project; for the "
      "others, convert what their publishers distribute to the format of "
      "docs/replay_tables.md, and set {} to the folder that contains them. "
      "Experiments that need a missing table say so; the others run.\n",
      missing, list.rows().size(),
      data.any_differs ? ", and some differ from those that results in docs/ "
                         "were made with"
                       : "",
      trials::kDataVariable);
  return data;
}

}  // namespace studies
