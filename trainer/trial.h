// A trial: all ranks of this process, step by step.

#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/json.h"
#include "trainer/arena.h"
#include "trainer/communicator.h"
#include "trainer/context.h"
#include "trainer/device_cpu.h"
#include "trainer/job.h"
#include "trainer/module.h"
#include "trainer/rank.h"

namespace trainer {

// CPU ranks as threads of this process.
[[nodiscard]] std::unique_ptr<Backend> MakeCpuBackend(
    const LaunchOptions& options, CpuPrecision precision);

// What one rank measured. Bytes are those of the whole trial, also if it ran
// out of memory.
struct RankResult {
  int rank = 0;
  std::int64_t parameters = 0;
  std::int64_t peak_bytes = 0;
  std::array<std::int64_t, kRegions> region_peak_bytes{};
  std::array<std::int64_t, kRegions> at_peak_bytes{};
  std::map<std::string, TrafficByOperation> traffic;
  std::vector<Span> timeline;
};

// `rank`: null if it could not be made.
[[nodiscard]] RankResult Measure(int world_rank, Rank* rank);

struct TrialResult {
  EndReason reason = EndReason::kNone;  // kNone: all steps
  std::string message;
  std::vector<double> losses;        // of complete steps
  std::vector<double> step_times_s;  // the same, between barriers
  std::vector<RankResult> ranks;     // of this process, in order
  // A rank did not end: its thread still runs, and the process must end with
  // _exit.
  bool stuck = false;
};

// Called by the first rank of the process after each step, in order.
using StepDone = std::function<void(int step, double step_time_s, double loss)>;

// Runs the ranks first_rank ... of this process to the end. Abort of the
// backend's fabric ends it early. When a trial has ended, ranks that do not
// notice within `patience_s` are left behind (see TrialResult::stuck).
[[nodiscard]] TrialResult RunTrial(const Job& job, Backend& backend,
                                   const LaunchOptions& options,
                                   const StepDone& step_done = {},
                                   double patience_s = 2.0);

// The same as JSON (`--report`), see docs/trainer.md.
[[nodiscard]] common::Json ToJson(const Job& job, const TrialResult& result);

}  // namespace trainer
