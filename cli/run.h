// Runs of an experiment and what is printed about its records, for several
// verbs.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/verb_options.h"
#include "harness/dispatcher.h"
#include "harness/experiment.h"
#include "harness/records/inputs.h"
#include "plots/report.h"

namespace cli {

struct RunVerbOptions {
  int jobs = 0;  // runs at a time; 0: one per core
  bool no_report = false;
  bool wait = false;  // with Slurm: until the end
};

// A job for each run that is not finished according to `recorded`
// (one for each run): a process of this program (`run-one`) with its log in the
// run's folder. Ids are indices into the runs.
[[nodiscard]] std::vector<harness::Job> MissingJobs(
    const VerbOptions& options, const harness::Experiment& experiment,
    const std::vector<harness::RecordedRun>& recorded);

// Completes all runs of the experiment, then writes the report. Returns the
// exit code of `oppa run`: 128 + the signal if one stopped it.
// Errors: throws InputError, before anything is written, for a manifest or
// records that cannot be used.
[[nodiscard]] int RunExperiment(const VerbOptions& options,
                                const RunVerbOptions& run_options);

// Submits the runs to Slurm, except those that are in its queue; with --wait,
// shows their progress until the end. Returns the exit code.
int SubmitRuns(const VerbOptions& options, const RunVerbOptions& run_options,
               const harness::Experiment& experiment,
               const std::vector<harness::Job>& missing);

void PrintNotes(const std::vector<std::string>& notes);

// Prints why the records are not a complete result, on standard error. Returns
// the exit code.
[[nodiscard]] int PrintFailures(const std::vector<std::string>& failures);

// Writes the tables and figures of an experiment and prints the summary.
// Returns the exit code.
[[nodiscard]] int PrintReport(const std::filesystem::path& folder,
                              const plots::ReportOptions& options);

}  // namespace cli
