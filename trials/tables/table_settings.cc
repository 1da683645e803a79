#include "trials/tables/table_settings.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"
#include "trials/data_folder.h"

namespace trials {

namespace fs = std::filesystem;

TableSettings ReadTableSettings(const fs::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  TableSettings settings;
  settings.name = path.stem().string();
  settings.file = path;
  settings.title = table.GetString("title", settings.name);
  settings.kind = table.RequireString("kind");
  settings.table = table.GetString("table", "");
  settings.scenarios = table.GetString("scenarios", "");
  settings.source = table.GetString("source", settings.name);
  if (table.Has("fitted")) {
    settings.fitted = table.GetStrings("fitted");
  }
  settings.facts = table.GetTable("facts");
  settings.facts_of = table.GetTable("facts_of");
  settings.corrections = table.GetTable("corrections");
  Facts(settings.name).Add(settings.corrections);
  for (const std::string& name : settings.facts_of.Keys()) {
    Facts(settings.name).Add(settings.facts_of.RequireTable(name));
  }
  Facts(settings.name).Add(settings.facts);
  table.RejectUnknownKeys();
  return settings;
}

TableSettings FindTableSettings(const std::string& name) {
  std::vector<std::string> known;
  for (TableSettings& settings : AllTableSettings()) {
    if (settings.name == name) {
      return std::move(settings);
    }
    known.push_back(settings.name);
  }
  throw common::InputError(fmt::format("unknown table '{}'{}; known: {}", name,
                                       common::DidYouMean(name, known),
                                       fmt::join(known, ", ")));
}

bool Describes(const TableSettings& settings, const std::string& stem,
               const std::string& scenario) {
  return stem.find(settings.name) != std::string::npos ||
         scenario.starts_with(settings.name + "-");
}

std::vector<TableSettings> AllTableSettings() {
  std::vector<fs::path> files;
  for (const auto& entry :
       fs::directory_iterator(ExperimentsFolder() / "validation")) {
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

}  // namespace trials
