#include "trials/tables/table_settings.h"

#include "common/ranges.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr const char* kKind = "validation";

}  // namespace

TableSettings ReadTableSettings(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  TableSettings settings;
  settings.name = path.stem().string();
  settings.file = path;
  settings.title = table.GetString("title", settings.name);
  settings.kind = table.RequireString("kind");
  settings.table = table.GetString("table", "");
  settings.scenarios = table.GetString("scenarios", "");
  settings.source = table.GetString("source", settings.name);
  settings.label = table.GetString("label", settings.source);
  if (table.Has("fitted")) {
    settings.fitted = table.GetStrings("fitted");
  }
  settings.fast_intra_gbs = table.GetDouble("fast_intra_gbs", 0.0);
  settings.facts = table.GetTable("facts");
  settings.facts_of = table.GetTable("facts_of");
  settings.corrections = table.GetTable("corrections");
  settings.corrections_of = table.GetTable("corrections_of");
  Facts(settings.name).Add(settings.corrections);
  for (const auto* tables : {&settings.facts_of, &settings.corrections_of}) {
    for (const std::string& name : tables->Keys()) {
      Facts(settings.name).Add(tables->RequireTable(name));
    }
  }
  Facts(settings.name).Add(settings.facts);
  settings.documents = table.GetTables("document");
  for (const common::TomlTable& row : settings.documents) {
    for (const char* key : {"label", "rows"}) {
      static_cast<void>(row.RequireString(key));
    }
  }
  table.RejectUnknownKeys();
  return settings;
}

TableSettings FindTableSettings(const std::string& name) {
  return ReadTableSettings(FindDataFile(kKind, name));
}

bool Describes(const TableSettings& settings, const std::string& stem,
               const std::string& scenario) {
  return stem.find(settings.name) != std::string::npos ||
         scenario.starts_with(settings.name + "-");
}

std::vector<TableSettings> AllTableSettings() {
  return common::Map(DataFileNames(kKind), FindTableSettings);
}

}  // namespace trials
