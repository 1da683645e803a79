// The input that the trials of a run depend on, by name.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment.h"
#include "trials/record.h"

namespace harness {

// The keys of the manifest and the files that the trials of a run depend on,
// with their values or a hash. The limits of the search and the limits of a
// trial on a real clock (backend.timeout_s, ...) are not among them, so they
// can change between two parts of a search.
[[nodiscard]] std::vector<trials::RunInput> InputsOf(const Manifest& manifest,
                                                     const ProblemSpec& problem,
                                                     const MethodSpec& method,
                                                     const Testbed& testbed);

// A hash of the input of a run and of its limits, which tells records apart.
[[nodiscard]] std::string RunHash(const std::vector<trials::RunInput>& inputs,
                                  const trials::SearchBounds& bounds);

[[nodiscard]] trials::SearchBounds BoundsOf(const Budget& budget);

// "workload.batch_size: was 64, is 128", one line for each difference.
[[nodiscard]] std::vector<std::string> Changes(
    const std::vector<trials::RunInput>& before,
    const std::vector<trials::RunInput>& now);

// Whether a search that ended for this reason under the limits `before` goes on
// under the limits `now`.
[[nodiscard]] bool Grows(trials::FinishReason reason,
                         const trials::SearchBounds& before,
                         const trials::SearchBounds& now);

// The provenance of a run that is not finished.
[[nodiscard]] trials::RunInfo DescribeRun(const Experiment& experiment,
                                          const RunSpec& run,
                                          const std::string& command);

// What run.json of a run contains now; as it is here without a run.json.
struct RecordedRun {
  bool finished = false;
  std::string commit;
};

// Prepares the records of all runs for being continued with the present input:
// a finished run whose limits grew is unfinished again, and with
// `accept_changed`, other changes are recorded in run.json. Without runs that
// need it, only the folder is created. Returns what is recorded of each run
// then, and reads each run.json once.
// Errors: throws InputError that names the run, each change and the remedies,
// if the input changed and that is not accepted, or if the folder cannot be
// created; and as RequireWhole.
std::vector<RecordedRun> PrepareRecords(const Experiment& experiment,
                                        bool accept_changed);

// The check of PrepareRecords, which changes nothing.
std::vector<RecordedRun> CheckRecords(const Experiment& experiment);

// As PrepareRecords, for the run in a folder, whose present description is
// `now`; changes are not accepted. The accepted changes on record are copied to
// `now`.
void PrepareRun(const std::filesystem::path& run_folder, trials::RunInfo& now);

// True if the run is complete according to its records.
[[nodiscard]] bool IsFinished(const std::filesystem::path& run_folder);

// Makes a finished run unfinished, so that trials can be added.
void Reopen(const std::filesystem::path& run_folder);

}  // namespace harness
