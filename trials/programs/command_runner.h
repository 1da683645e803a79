// A backend that runs any training program.

#pragma once

#include <filesystem>
#include <mutex>
#include <optional>

#include "trials/cluster.h"
#include "trials/programs/command_options.h"
#include "trials/programs/trial_pace.h"
#include "trials/trial_runner.h"

namespace trials {

// Starts the program once for each trial, as a ContainedProcess, and reads its
// reports (trial_report.h) from its standard output and from the file that
// OPPA_REPORT names. Times are wall-clock times: the set-up ends when the first
// step begins, the duration ends when all processes have exited, and neither
// exceeds the time limit. With `options.log`, lines of both outputs that match
// its patterns count as reports (log_scanner.h).
//
// A trial is kCompleted when it has reported max_steps steps, kOutOfMemory
// according to its report or its output, kTimedOut at a time limit or when it
// is silent, and kFailed otherwise: another exit, a signal, an invalid report,
// a traceback after which nothing is printed for 15 s or two steps (60 s until
// a trial has shown that one without a traceback trains). Reports that are
// broken by other output are skipped; the message of a trial that lacks steps
// quotes the first one.
//
// Silent is a trial without a report for silence_s, for 20 of its longest
// steps, or before its first step for ten times what an earlier one needed for
// it; the two last ones are at least 60 s.
//
// The first trial begins after EndLeftovers (leftovers.h).
//
// Errors: Run throws std::runtime_error when the program cannot be started,
// InputError as DescribeNodes, and TrialInterrupted, also for nodes that are
// lost (rank_launch.h).
class CommandRunner final : public TrialRunner {
 public:
  CommandRunner(CommandOptions options, Cluster cluster);

  // Keeps the output of each trial in a file there, named by the
  // configuration. Without this call it is not kept.
  void KeepLogs(const std::filesystem::path& folder);

  // Runs the program with the user's own settings: an adapter adds what trials
  // need, and no configuration. The configuration of a request only names logs.
  void RunAsGiven(bool as_given) { as_given_ = as_given; }

  [[nodiscard]] Measurement Run(const TrialRequest& request) override;

  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  [[nodiscard]] TrialPace Pace();

  CommandOptions options_;
  Cluster cluster_;
  std::filesystem::path log_folder_;
  TrialPace pace_;
  std::mutex pacing_;
  bool ended_leftovers_ = false;
  bool as_given_ = false;
};

}  // namespace trials
