// Facts that a published table does not contain.

#ifndef STUDIES_VALIDATION_TABLE_SETTINGS_H_
#define STUDIES_VALIDATION_TABLE_SETTINGS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "studies/validation/facts.h"

namespace studies {

// experiments/validation/<name>.toml:
//
//   title = "..."                     for display
//   kind = "measured"                 its columns; see table_kind.h
//   table = "measured/vtrain.csv"     in the folder OPPA_DATA; "" if the
//                                     command line names the table
//   scenarios = "measured/..."        optional: a row of facts per scenario
//   [facts]                           of every row: cluster, framework, ...
//   [facts_of.1b]                     of rows that name "1b"
//
// docs/validation.md lists the names of facts.
struct TableSettings {
  std::string name;
  std::string title;
  std::string kind;
  std::string table;
  std::string scenarios;
  common::TomlTable facts;
  common::TomlTable facts_of;
};

// Errors: throws InputError with file:line:column.
[[nodiscard]] TableSettings ReadTableSettings(
    const std::filesystem::path& path);

// All of them, by name.
[[nodiscard]] std::vector<TableSettings> AllTableSettings();

}  // namespace studies

#endif  // STUDIES_VALIDATION_TABLE_SETTINGS_H_
