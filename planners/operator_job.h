// The job of a planner over operators, from the options of its method.

#pragma once

#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "planners/operators/analytic_operators.h"
#include "planners/operators/plan_cost.h"
#include "planners/planner.h"
#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace planners {

// Profiled operators or, if no profiles are named, those of the sizes of
// Problem::workload. Layers and batch that are 0 are those of the workload.
struct OperatorJobOptions {
  std::string profiles;  // CSV files, see OperatorTable and LinkTable
  std::string links;
  std::string profiled_model;  // its name in them
  int layers = 0;
  int batch = 0;
  double tflops = AnalyticJob().tflops;
  double memory_gb_per_s = AnalyticJob().memory_gb_per_s;
  double link_gb_per_s = AnalyticJob().link_gb_per_s;
  double between_hosts_gb_per_s = AnalyticJob().between_hosts_gb_per_s;
};

// The rows of these options, followed by the planner's own.
[[nodiscard]] std::vector<methods::Option> OperatorJobRows(
    OperatorJobOptions& options, const std::vector<methods::Option>& own);

// The job of the options.
// Errors: throws InputError where there is no workload from which a size could
// be read.
struct OperatorJobSizes {
  int layers = 0;
  int batch = 0;
  AnalyticJob analytic;
};
[[nodiscard]] OperatorJobSizes JobOf(const OperatorJobOptions& options,
                                     const trials::Workload* workload);

// The performance model of the options' operators on the problem's GPUs.
// Errors: throws InputError for files that cannot be read.
[[nodiscard]] OperatorModel ModelOf(const methods::Problem& problem,
                                    const OperatorJobOptions& options,
                                    const OperatorJobSizes& sizes);

// The model for all candidates of the problem. Without profiles, operators are
// computed for the tp and the microbatches of all candidates, too.
[[nodiscard]] OperatorModel ModelOfCandidates(
    const methods::Problem& problem, const OperatorJobOptions& options);

// The sequences of a GPU's microbatch.
[[nodiscard]] int MicroBatchOf(const trials::ParallelConfig& config, int batch);

// An estimate from ms and MB of 2^20 bytes, as in the profiles of Aceso: both
// NaN if either is not finite.
[[nodiscard]] Estimate EstimateOf(double iteration_ms, double memory_mb);

}  // namespace planners
