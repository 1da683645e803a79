// claims, data.

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "common/csv_table.h"
#include "common/files.h"
#include "common/hash.h"
#include "plots/table.h"
#include "studies/verbs.h"
#include "trials/data_folder.h"

namespace cli {
namespace {

Verb DefineClaims() {
  const auto verb = std::make_shared<VerbOptions>();
  return {.group = kStudies,
          .name = "claims",
          .summary = "judge the claims of the papers by the records",
          .description =
              "Writes claims/claims.{csv,md} to the results: what each paper "
              "claims and where, the published value, ours, and whether the "
              "claim holds.",
          .options = {Bind("FILE",
                           "the claims (default: studies/claims.csv of the "
                           "experiments)",
                           verb->manifest),
                      ResultsOption(*verb)},
          .examples = {"oppa claims --results results"},
          .run = [verb](const Words&) {
            return studies::Write(
                verb->results / "claims",
                studies::JudgeClaims(
                    verb->manifest.empty()
                        ? trials::ExperimentsFolder() / "studies/claims.csv"
                        : verb->manifest,
                    verb->results),
                {.out = std::cout, .notes = std::cerr});
          }};
}

// "here" (it comes with the project), "in OPPA_DATA", "missing", "differs".
std::string StateOf(const std::string& table, std::string_view check) {
  try {
    const std::filesystem::path path = trials::ResolveTablePath(table, ".");
    if (fmt::format("{:016x}", common::Hash(common::ReadFile(path))) != check) {
      return "differs: " + path.string();
    }
    return path == trials::ExperimentsFolder() / table ? "here"
                                                       : "in OPPA_DATA";
  } catch (const common::InputError&) {
    return "missing";
  }
}

int PublishedTables(bool csv) {
  const common::CsvTable list = common::CsvTable::Read(
      trials::ExperimentsFolder() / "tables/published.csv");
  plots::Table table;
  bool any_differs = false;
  for (const common::CsvTable::Row& row : list.rows()) {
    plots::Row shown;
    for (const std::string& column : list.header()) {
      shown.emplace_back(column, list.Cell(row, column));
    }
    const std::string state = StateOf(row.cells[0], list.Cell(row, "check"));
    any_differs = any_differs || state.starts_with("differs");
    shown.insert(shown.begin() + 1, {"state", state});
    table.Add(std::move(shown));
  }
  std::cout
      << (csv ? ToCsv(table)
              : ToText(table) +
                    "\nTables `here` come with this project. For a missing "
                    "one, convert what its publisher distributes\n"
                    "(docs/replay_tables.md), and set OPPA_DATA to the "
                    "folder that has it. Without it, only the\n"
                    "experiments that use it do not run.\n");
  return any_differs ? 1 : 0;
}

Verb DefineData() {
  const auto verb = std::make_shared<VerbOptions>();
  return {.group = kStudies,
          .name = "data",
          .summary = "list the published tables and which are missing",
          .description =
              "A check value is the 64-bit FNV-1a hash of the file. "
              "The exit code is 1 if a table has another one.",
          .options = {Bind("--csv", "print CSV", verb->csv)},
          .examples = {"oppa data"},
          .run = [verb](const Words&) { return PublishedTables(verb->csv); }};
}

}  // namespace

Verbs ClaimVerbs() { return {DefineClaims(), DefineData()}; }

}  // namespace cli
