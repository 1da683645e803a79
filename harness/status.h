// The progress of an experiment, read from its records only, and its display by
// `oppa run`.

#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/experiment.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace harness {

enum class RunState {
  kMissing,  // no records
  kRunning,  // a process is writing the records
  kStopped,  // interrupted; `oppa run` resumes it
  kDone,
  kDamaged,  // the records cannot be read
  kPending,  // in Slurm's queue
  kFailed,   // as a job of Slurm
  kLost,     // submitted, but unknown to Slurm
};

[[nodiscard]] std::string_view ToString(RunState state);

struct RunStatus {
  RunSpec run;
  RunState state = RunState::kMissing;
  int trials = 0;
  double elapsed_s = 0.0;  // search time
  double incumbent_steps_per_s = trials::kUnknown;
  // Its value in the unit of the objective (trials::Valuation).
  double incumbent_value = trials::kUnknown;
  std::string_view unit = trials::Valuation().unit();
  double fraction = 0.0;    // of the budget, in [0, 1]
  double thinking_s = 0.0;  // suggestion time
  // After the last trial or, in a run that has not finished, before it.
  std::optional<trials::Remaining> remaining = std::nullopt;
  std::string message;  // why it ended, or what is wrong with the records
  // As a job of Slurm; empty otherwise.
  std::string node;
  std::string time_left;
  std::string log;
};

// Reads the records of one run. `list`: that of the experiment.
[[nodiscard]] RunStatus ReadRunStatus(
    const Experiment& experiment, const RunSpec& run,
    const trials::RecordList& list = trials::RecordList());

// All runs of an experiment, in the order of RunMatrix.
[[nodiscard]] std::vector<RunStatus> ReadStatus(const Experiment& experiment);

// Seconds until all runs are done with `workers` at a time: the rest of each
// run's budget at the pace of the suggestion time on record for its method (a
// run on a virtual clock spends little else). Methods without records count as
// the mean of the others. NaN without any records.
[[nodiscard]] double SecondsLeft(const std::vector<RunStatus>& runs,
                                 int workers);

// "1 h 05 min", "3 min 20 s", "12 s"; "?" for NaN.
[[nodiscard]] std::string FormatDuration(double seconds);

// A table with a row per method (over all problems) and a line of totals with
// the time left, which is that of SecondsLeft unless it is given.
[[nodiscard]] std::string FormatStatus(const Manifest& manifest,
                                       const std::vector<RunStatus>& runs,
                                       std::optional<double> left_s = {});

// A line per run.
[[nodiscard]] std::string FormatRuns(const std::vector<RunStatus>& runs);

[[nodiscard]] std::string StatusJson(const Manifest& manifest,
                                     const std::vector<RunStatus>& runs);

// On a terminal: a table with a row per method that is redrawn. Otherwise (a
// file, CI): about twenty lines, one for each twentieth of the runs that has
// ended, and others at growing distances while none ends; and one for each
// failure. All values come from the records.
class Progress {
 public:
  // The experiment must outlive the object.
  Progress(const Experiment& experiment, bool terminal, std::FILE* out);

  // The job of a run has ended; `problem` is the reason of a failure, "" if
  // there was none.
  void RunEnded(int run, const std::string& problem);

  // Call this often; it writes only when an update is due. `now_s`: any steady
  // clock.
  void Update(double now_s);

  // Removes the table from the terminal.
  void Clear();

 private:
  void Refresh();
  void PrintLine();
  // At the pace since the first Update, if budgets of each method take as long
  // as those of it before; NaN before every method has made progress.
  [[nodiscard]] double SecondsLeft() const;
  [[nodiscard]] std::size_t Done() const;
  [[nodiscard]] std::string RunsDone() const;  // "3 of 8 runs done"
  [[nodiscard]] std::string TimeLeft() const;  // ", about 12 s left", or ""

  const Experiment& experiment_;
  bool terminal_;
  std::FILE* out_;
  std::vector<RunStatus> runs_;
  int painted_lines_ = 0;
  double next_update_s_;
  double begin_s_ = 0.0;
  double now_s_ = 0.0;
  std::map<const MethodSpec*, double> spent_before_;  // budgets
  std::size_t next_line_ = 1;  // runs done, at which a line is due
};

}  // namespace harness
