// The job of a planner over operators, from the options of its method.

#ifndef METHODS_PLANNERS_OPERATOR_JOB_H_
#define METHODS_PLANNERS_OPERATOR_JOB_H_

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/error.h"
#include "methods/method.h"
#include "methods/options.h"
#include "methods/planners/operators/analytic_operators.h"
#include "methods/planners/operators/plan_cost.h"
#include "trials/parallel_config.h"
#include "trials/predictions.h"
#include "trials/workload.h"

namespace methods {

// Profiled operators or, if no profiles are named, those of the sizes of the
// model. Sizes that are 0 are those of Problem::workload.
struct OperatorJobOptions {
  std::string profiles;  // CSV files, see OperatorTable and LinkTable
  std::string links;
  std::string profiled_model;  // its name in them
  int layers = 0;
  int batch = 0;
  int hidden = 0;  // this and the following: without profiles
  int heads = 0;
  int feed_forward = 0;
  int sequence_length = 0;
  int vocabulary = 0;
  double tflops = methods::AnalyticJob().tflops;
  double memory_gb_per_s = methods::AnalyticJob().memory_gb_per_s;
  double link_gb_per_s = methods::AnalyticJob().link_gb_per_s;
  double between_hosts_gb_per_s = 12.0;
  double memory_share = 0.9;  // of the capacity that a plan may use
};

[[nodiscard]] std::vector<Option> OperatorJobRows(OperatorJobOptions& options);

// The job of the options, with the sizes of the workload where they are 0.
// Errors: throws InputError naming the option where there is no workload.
struct OperatorJobSizes {
  int layers = 0;
  int batch = 0;
  methods::AnalyticJob analytic;
};
[[nodiscard]] OperatorJobSizes JobOf(const OperatorJobOptions& options,
                                     const trials::Workload* workload);

// The performance model of the options' operators on the problem's GPUs.
// Errors: throws InputError for files that cannot be read.
[[nodiscard]] methods::OperatorModel ModelOf(const Problem& problem,
                                             const OperatorJobOptions& options,
                                             const OperatorJobSizes& sizes);

// The same. Without profiles, operators are computed for the tp and the
// microbatches of all candidates, too.
[[nodiscard]] methods::OperatorModel ModelOfCandidates(
    const Problem& problem, const OperatorJobOptions& options);

// The sequences of a GPU's microbatch.
[[nodiscard]] int MicroBatchOf(const trials::ParallelConfig& config, int batch);

// The estimate of a configuration by a planner's model; not finite: unknown.
struct OperatorEstimate {
  double iteration_ms = std::numeric_limits<double>::quiet_NaN();
  // Of 2^20 bytes, as in the profiles of Aceso.
  double memory_mb = std::numeric_limits<double>::quiet_NaN();
};

// Estimates all candidates, in s and bytes, both NaN if either is unknown.
// `estimator_of` makes the estimator for one number of GPUs (PartsOf).
using Estimator =
    std::function<OperatorEstimate(const trials::ParallelConfig&)>;
[[nodiscard]] trials::Predictions EstimateCandidates(
    const Problem& problem,
    const std::function<Estimator(const Problem& part)>& estimator_of);

}  // namespace methods

#endif  // METHODS_PLANNERS_OPERATOR_JOB_H_
