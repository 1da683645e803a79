// The result page of a search: one HTML file without references to others.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/json.h"
#include "common/quantiles.h"
#include "common/statistics.h"
#include "plots/experiment_records.h"
#include "plots/table.h"
#include "trials/record.h"

namespace plots {

struct PageOptions {
  // The run to show; empty: the first problem, and its reference method.
  std::string problem;
  std::string method;
  int repeat = 1;
  // Numbers that a run learned, with their meaning; empty: none.
  std::function<Table(const std::filesystem::path& run_folder)> learned;
  // Words of the command line to use; empty: the file best.sh of the experiment
  // folder, if there is one.
  std::string command;
};

// In files: the job as it is.
inline constexpr const char* kYours = "yours";

// A configuration that was measured again after the search.
struct MeasuredAgain {
  std::string config;            // its label, or kYours
  std::vector<double> rounds_s;  // mean step time of each; NaN: it failed
  std::vector<trials::Outcome> failures;  // of those, in order
  double step_s = 0.0;                    // of the steps of all rounds
  double speed_up = trials::kUnknown;     // over kYours; NaN: it did not run
};

// A run in the form that the page shows.
struct PageRun {
  ExperimentRecords experiment;
  const ProblemRecords* problem = nullptr;
  const MethodRecords* method = nullptr;
  std::filesystem::path folder;
  trials::RunInfo info;
  std::vector<trials::Trial> trials;
  // Predicted throughput of each trial before it ran: the mean and the limits
  // of its 95% interval; NaN where unknown.
  std::vector<common::Quartiles> predictions;
  // The repeated measurements of a finished search.
  std::vector<MeasuredAgain> again;
  // best.json of a finished search: what repeated measurements of the best
  // configurations concluded; null without them.
  common::Json finals;
  // The index of the configuration that finals recommend, else of the
  // incumbent; -1: none completed.
  int best = -1;
  int first = -1;  // the configuration that speed-ups refer to; -1: none

  [[nodiscard]] const trials::Trial& Best() const { return trials[best]; }
  [[nodiscard]] const trials::Trial& First() const { return trials[first]; }
};

// The ratio of two trials with its 95% interval by the noise of both
// measurements.
[[nodiscard]] common::Estimate SpeedUpOf(const trials::Trial& trial,
                                         const trials::Trial& reference);

// Reads a run. The reference of speed-ups is the present configuration, else
// the first trial that completed. Errors: throws InputError for a folder that
// has no records, and for an unknown problem, method or repeat.
[[nodiscard]] PageRun LoadPageRun(
    const std::filesystem::path& experiment_folder, const PageOptions& options);

// Writes <experiment folder>/page.html through a rename, so that a browser
// never sees a part of it, and returns its path. The page reloads itself while
// the run is not finished; text from records is escaped. Without gnuplot it has
// tables only. Errors: as LoadPageRun.
std::filesystem::path WritePage(const std::filesystem::path& experiment_folder,
                                const PageOptions& options = {});

}  // namespace plots
