// Facts that a published table does not contain.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/toml_table.h"
#include "trials/tables/facts.h"

namespace trials {

// experiments/validation/<name>.toml:
//
//   title = "..."                     for display
//   kind = "measured"                 its columns; see table_kind.h
//   table = "measured/vtrain.csv"     in the folder OPPA_DATA; "" if the
//                                     command line names the table
//   scenarios = "measured/..."        optional: a row of facts per scenario
//   source = "vtrain"                 its publication; default: the name
//   label = "vTrain"                  of the source in documents; default: the
//                                     source
//   fitted = ["1b", "8b"]             tokens of the rows that constants may be
//                                     fitted to; default: every other model
//   fast_intra_gbs = 440              rows with allreduce_intra_gbs of at least
//                                     this ran in the fast state
//   [facts_of.fast]                   of these rows
//   [facts]                           of every row: cluster, framework, ...
//   [facts_of.1b]                     of rows that name "1b"
//   [corrections]                     facts that replace those of the rows
//   [corrections_of.1b]               the same, of rows that name "1b"
//   [[document]]                      a row of the table of errors in the
//                                     documents: label = "vTrain, 64 A100", and
//                                     rows = "scope=several hosts", conditions
//                                     (studies/documents/texts.h)
//
// docs/validation.md lists the names of facts.
struct TableSettings {
  std::string name;
  std::string title;
  std::string kind;
  std::string table;
  std::string scenarios;
  std::string source;
  std::string label;
  std::optional<std::vector<std::string>> fitted;
  double fast_intra_gbs = 0.0;
  common::TomlTable facts;
  common::TomlTable facts_of;
  common::TomlTable corrections;
  common::TomlTable corrections_of;
  std::vector<common::TomlTable> documents;
  std::filesystem::path file;
};

// Errors: throws InputError with file:line:column.
[[nodiscard]] TableSettings ReadTableSettings(
    const std::filesystem::path& path);

// The settings with this name in experiments/validation/.
// Errors: throws InputError for an unknown name, listing the known ones.
[[nodiscard]] TableSettings FindTableSettings(const std::string& name);

// Whether the settings describe a table, judged by names: the stem of its file
// contains the name of the settings, or the scenario starts with it.
[[nodiscard]] bool Describes(const TableSettings& settings,
                             const std::string& stem,
                             const std::string& scenario);

// All settings in experiments/validation/, by name.
[[nodiscard]] std::vector<TableSettings> AllTableSettings();

}  // namespace trials
