// The results of an experiment, as numbers.

#ifndef PLOTS_SUMMARY_H_
#define PLOTS_SUMMARY_H_

#include <string>
#include <vector>

#include "common/quantiles.h"
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

// One method on one problem, over its runs. Unknown numbers are NaN.
struct MethodSummary {
  std::string problem;
  std::string method;
  std::string label;
  int repeats = 0;   // requested
  int runs = 0;      // with records
  int finished = 0;  // of those
  common::Quartiles
      throughput;  // of the incumbent as measured, steps/s; 0 if none
  // The median of the same when half of the time budget was spent.
  double throughput_halfway = trials::kUnknown;
  common::Quartiles ratio;  // its noise-free throughput over the optimum
  // Medians of the same after 10 and 20 trials; a run that ended earlier keeps
  // its last.
  double ratio_after_10 = trials::kUnknown;
  double ratio_after_20 = trials::kUnknown;
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

// The mean over problems of the per-problem medians (and quartiles); numbers of
// runs are sums. Methods are compared on the problems for which every method
// that has any runs has some; `problems` says how many there are.
struct MeanSummary {
  int problems = 0;
  std::vector<MethodSummary> methods;
};

struct Summary {
  std::vector<ProblemSummary> problems;
  MeanSummary mean;  // empty unless there are at least two problems
};

[[nodiscard]] Summary Summarize(const ExperimentRecords& records);

}  // namespace plots

#endif  // PLOTS_SUMMARY_H_
