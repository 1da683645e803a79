#include "trials/tables/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/toml_table.h"
#include "trials/adapters/config_edit.h"
#include "trials/data_folder.h"
#include "trials/tables/facts.h"
#include "trials/tables/measured_rows.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using common::CsvTable;
using common::TomlTable;

constexpr const char* kFolder = "histories";
constexpr const char* kSettings = "ds_config.json";
constexpr const char* kMetrics = "metrics.json";

using Cells = std::map<std::string, std::string>;  // by column

// The columns and rows of a table; a row has the cells that it names.
CsvTable MakeTable(const std::string& path,
                   const std::vector<std::pair<unsigned, Cells>>& rows,
                   unsigned header_line) {
  std::set<std::string> names;
  for (const auto& [line, cells] : rows) {
    for (const auto& [column, cell] : cells) {
      names.insert(column);
    }
  }
  std::vector<CsvTable::Row> made;
  for (const auto& [line, cells] : rows) {
    CsvTable::Row& row = made.emplace_back();
    row.line = line;
    for (const std::string& name : names) {
      const auto found = cells.find(name);
      row.cells.push_back(found == cells.end() ? "" : found->second);
    }
  }
  return {path, header_line, {names.begin(), names.end()}, std::move(made)};
}

CsvTable ReadFolder(const fs::path& folder) {
  std::vector<std::pair<unsigned, Cells>> rows;
  std::set<fs::path> experiments;
  for (const auto& entry : fs::directory_iterator(folder)) {
    experiments.insert(entry.path());
  }
  for (const fs::path& experiment : experiments) {
    Cells cells;
    for (const char* file : {kSettings, kMetrics}) {
      if (common::IsFile(experiment / file)) {
        const auto keys = ConfigKeys(ConfigFormat::kJson,
                                     common::ReadFile(experiment / file));
        cells.insert(keys.begin(), keys.end());
      }
    }
    if (cells.contains("throughput")) {
      rows.emplace_back(static_cast<unsigned>(rows.size() + 1),
                        std::move(cells));
    }
  }
  return MakeTable(folder.string(), rows, 0);
}

// What a file of experiments/histories makes of a table.
class Translation {
 public:
  explicit Translation(const TomlTable& file)
      : title(file.RequireString("title")),
        needs_(file.GetStrings("needs")),
        prefixes_(file.GetStrings("prefixes")),
        columns_(TextsOf(file.GetTable("columns"))) {
    for (const char* kind : {"skip", "cells"}) {
      for (const TomlTable& rule : file.GetTables(kind)) {
        rules_.push_back({rule.RequireString("column"),
                          rule.RequireString("is"),
                          TextsOf(rule.GetTable("set"))});
      }
    }
    for (const TomlTable& rule : file.GetTables("compute")) {
      computed_.push_back({rule.RequireString("column"),
                           rule.GetString("from", ""),
                           Rule::Parse(rule.RequireString("value"), "history",
                                       rule.Where("value"))});
    }
    file.RejectUnknownKeys();
  }

  [[nodiscard]] bool Fits(const CsvTable& table) const {
    return std::ranges::all_of(needs_, [&table](const std::string& column) {
      return table.Find(column).has_value();
    });
  }

  // "": the column has no effect.
  [[nodiscard]] std::string NameOf(const std::string& column) const {
    if (const auto found = columns_.find(column); found != columns_.end()) {
      return found->second;
    }
    const auto prefix =
        std::ranges::find_if(prefixes_, [&column](const std::string& each) {
          return column.starts_with(each);
        });
    return prefix == prefixes_.end() ? column : column.substr(prefix->size());
  }

  // The cells of a row; nothing for one that is left out.
  [[nodiscard]] std::optional<Cells> Read(const TableRow& row,
                                          const Rule::Context& context) const {
    const auto applies = [&row](const CellRule& rule) {
      return row.Cell(rule.column) == rule.is;
    };
    if (std::ranges::any_of(rules_, [&](const CellRule& rule) {
          return rule.set.empty() && applies(rule);
        })) {
      return std::nullopt;
    }
    Cells cells;
    for (const std::string& column : row.table.header()) {
      if (const std::string name = NameOf(column); !name.empty()) {
        cells[name] = row.Cell(column);
      }
    }
    for (const CellRule& rule : rules_) {
      if (applies(rule)) {
        for (const auto& [column, cell] : rule.set) {
          cells[column] = cell;
        }
      }
    }
    for (const auto& [column, from, rule] : computed_) {
      if (from.empty() || !cells[from].empty()) {
        cells[column] = Compute(rule, row, cells, context);
      }
    }
    return cells;
  }

  std::string title;

 private:
  // In rows whose cell is this text, these columns have other cells; without
  // any, the rows are left out.
  struct CellRule {
    std::string column;
    std::string is;
    Cells set;
  };
  struct Computed {
    std::string column;
    std::string from;
    Rule value;
  };

  static Cells TextsOf(const TomlTable& table) {
    Cells texts;
    for (const std::string& key : table.Keys()) {
      texts[key] = table.RequireText(key);
    }
    return texts;
  }

  static std::string Compute(const Rule& rule, const TableRow& row,
                             const Cells& cells, const Rule::Context& context) {
    Facts facts(row);
    for (const auto& [column, cell] : cells) {
      facts.Add(column, cell);
    }
    const double value = rule.Value(ConfigOf(facts), context);
    if (value != std::trunc(value) || !(value > 0.0)) {
      facts.Fail(fmt::format("{} is {:g}, no integer above 0",
                             rule.expression(), value));
    }
    return fmt::format("{:.0f}", value);
  }

  std::vector<std::string> needs_;
  std::vector<std::string> prefixes_;
  Cells columns_;
  std::vector<CellRule> rules_;
  std::vector<Computed> computed_;
};

}  // namespace

bool IsHistoryFolder(const fs::path& path) {
  std::error_code error;
  return std::ranges::any_of(
      fs::directory_iterator(path, error), [](const auto& entry) {
        return common::IsFile(entry.path() / kSettings) &&
               common::IsFile(entry.path() / kMetrics);
      });
}

CsvTable ReadHistory(const fs::path& path, const Rule::Context& context,
                     std::vector<std::string>& notes) {
  CsvTable table =
      IsHistoryFolder(path) ? ReadFolder(path) : CsvTable::Read(path);
  for (const std::string& name : DataFileNames(kFolder)) {
    const Translation translation(
        TomlTable::ParseFile(FindDataFile(kFolder, name)));
    if (!translation.Fits(table)) {
      continue;
    }
    std::vector<std::pair<unsigned, Cells>> rows;
    for (const CsvTable::Row& row : table.rows()) {
      if (auto cells = translation.Read({table, row}, context)) {
        rows.emplace_back(row.line, *std::move(cells));
      }
    }
    std::vector<std::string> names;
    for (const std::string& column : table.header()) {
      const std::string read_as = translation.NameOf(column);
      if (!read_as.empty() && read_as != column) {
        names.push_back(fmt::format("{} is {}", column, read_as));
      }
    }
    notes.push_back(fmt::format("{}: read as {}: {} of {} rows; {}",
                                path.string(), translation.title, rows.size(),
                                table.rows().size(), fmt::join(names, ", ")));
    return MakeTable(table.path(), rows, table.header_line());
  }
  return table;
}

}  // namespace trials
