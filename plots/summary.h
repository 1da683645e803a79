// The results of an experiment.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "common/quantiles.h"
#include "common/statistics.h"
#include "plots/experiment_records.h"
#include "trials/record.h"

namespace plots {

// The cost at which the noise-free throughput of the incumbent first reached a
// fraction of the exhaustive optimum. Median over runs; a run that never
// reaches it counts as infinity, so the median is infinite unless more than
// half do.
struct Reach {
  double time_s = trials::kUnknown;
  double trials = trials::kUnknown;
  int runs = 0;  // that reached it
};

// The points of a search at which its result is judged: after this many trials,
// or at the end of its budget (0).
inline constexpr std::array<int, 6> kCheckpoints = {1, 3, 5, 10, 20, 0};
inline constexpr std::size_t kEnd = kCheckpoints.size() - 1;

// "10", "end".
[[nodiscard]] std::string CheckpointName(std::size_t checkpoint);

// The share of the optimum of one run: the noise-free throughput of its
// incumbent over that of the best of all configurations, in [0, 1]. A run that
// ended before a checkpoint keeps its last share.
struct RunShare {
  int repeat = 0;
  bool finished = false;
  std::array<double, kCheckpoints.size()> at{};
};

// A statistic over runs: mean and median, with 95% bootstrap intervals over
// repeats within the problems (common::Bootstrap); NaN where unknown. The
// interval of the median and the quartiles are those at the end of the budget.
struct Share {
  common::Estimate mean;
  common::Estimate median;
  double q1 = trials::kUnknown;
  double q3 = trials::kUnknown;
};

// One method on one problem, over its runs. Unknown numbers are NaN.
struct MethodSummary {
  std::string problem;
  std::string method;
  std::string label;
  std::string family;  // see trials::ExperimentInfo::Method; "": none
  int repeats = 0;     // requested
  int runs = 0;        // with records
  int finished = 0;    // of those
  common::Quartiles
      throughput;  // of the incumbent as measured, steps/s; 0 if none
  // The median of the same when half of the time budget was spent.
  double throughput_halfway = trials::kUnknown;
  std::vector<RunShare> run_shares;  // empty where the optimum is not known
  std::array<Share, kCheckpoints.size()> shares{};
  Reach reach_95;  // NaN where the optimum is not known
  Reach reach_99;
  // Medians over runs: counts, and the mean wall-clock time per suggestion.
  double trials = trials::kUnknown;
  double terminated_early = trials::kUnknown;
  double out_of_memory = trials::kUnknown;
  double thinking_s = trials::kUnknown;
  // The best incumbent over repeats, by its noise-free throughput or, where
  // that is unknown, by the measured one.
  double best_steps_per_s = trials::kUnknown;
  bool best_is_exact = false;
  std::string best_config;  // "": there is none
};

struct ProblemSummary {
  trials::ProblemInfo info;
  std::vector<MethodSummary> methods;  // in the order of the manifest
};

// Means over problems of the numbers of each problem, so that every problem has
// the same weight: of its mean over repeats, and of its median over repeats.
// Numbers of runs are sums. Methods are compared on the problems for which
// every method that has any runs has some.
struct MeanSummary {
  std::string name;  // "(mean)", "(mean development)", "(mean held-out)"
  std::string half;  // "", "development", "held-out"
  std::vector<std::size_t> problems;  // of Summary::problems, ascending
  std::vector<MethodSummary> methods;
};

struct Summary {
  std::vector<ProblemSummary> problems;
  // Over all problems, and over either half where both were run. Empty unless
  // there are at least two problems.
  std::vector<MeanSummary> means;
};

[[nodiscard]] Summary Summarize(const ExperimentRecords& records);

// The shares of all runs; empty where the optimum is not known.
[[nodiscard]] std::vector<RunShare> RunSharesOf(
    const std::vector<Run>& runs, const trials::ProblemInfo& problem);

// The objective, which all problems of an experiment share.
[[nodiscard]] inline trials::Valuation ValuationOf(const Summary& summary) {
  return summary.problems.empty() ? trials::Valuation{}
                                  : summary.problems.front().info.valuation();
}

// Whether the experiment runs any problem that is held out.
[[nodiscard]] bool RunsHeldOut(const trials::ExperimentInfo& info);

// A row per problem and method, then the means as problem "(mean)". SI units,
// unknown numbers empty, infinity "inf"; columns in docs/figures.md.
[[nodiscard]] std::string ToCsv(const Summary& summary);

// "simulated cluster", "replayed measurements", ...: how tables and figures
// name a backend.
[[nodiscard]] std::string BackendName(const std::string& backend);

}  // namespace plots
