// claims, data.

#include "studies/claims.h"

#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "plots/table.h"
#include "studies/published_data.h"
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
              "claim holds. Claims without records name the command that "
              "makes them.",
          .options = {Bind("FILE",
                           "the claims (default: studies/claims.toml of the "
                           "experiments)",
                           verb->manifest),
                      ResultsOption(*verb)},
          .examples = {"oppa claims --results results"},
          .run = [verb](const Words&) {
            return studies::Write(
                verb->results / "claims",
                studies::JudgeClaims(
                    verb->manifest.empty()
                        ? trials::ExperimentsFolder() / "studies/claims.toml"
                        : verb->manifest,
                    verb->results),
                {.out = std::cout, .notes = std::cerr});
          }};
}

Verb DefineData() {
  const auto verb = std::make_shared<VerbOptions>();
  return {.group = kStudies,
          .name = "data",
          .summary = "list the published tables and which are missing",
          .options = {Bind("--csv", "print CSV", verb->csv)},
          .examples = {"oppa data"},
          .run = [verb](const Words&) {
            const studies::PublishedData data = studies::FindPublishedData();
            std::cout << (verb->csv
                              ? ToCsv(data.table)
                              : ToText(data.table) + '\n' + data.conclusion);
            return data.any_differs ? 1 : 0;
          }};
}

}  // namespace

Verbs ClaimVerbs() { return {DefineClaims(), DefineData()}; }

}  // namespace cli
