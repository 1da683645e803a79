#include "studies/validation/table_settings.h"

#include <algorithm>

#include "trials/data_folder.h"

namespace studies {

namespace fs = std::filesystem;

TableSettings ReadTableSettings(const fs::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  TableSettings settings;
  settings.name = path.stem().string();
  settings.title = table.GetString("title", settings.name);
  settings.kind = table.RequireString("kind");
  settings.table = table.GetString("table", "");
  settings.scenarios = table.GetString("scenarios", "");
  settings.facts = table.GetTable("facts");
  settings.facts_of = table.GetTable("facts_of");
  for (const std::string& name : settings.facts_of.Keys()) {
    Facts(settings.name).Add(settings.facts_of.RequireTable(name));
  }
  Facts(settings.name).Add(settings.facts);
  table.RejectUnknownKeys();
  return settings;
}

std::vector<TableSettings> AllTableSettings() {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::directory_iterator(trials::ExperimentsFolder() / "validation")) {
    if (entry.path().extension() == ".toml") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<TableSettings> all;
  all.reserve(files.size());
  for (const fs::path& file : files) {
    all.push_back(ReadTableSettings(file));
  }
  return all;
}

}  // namespace studies
