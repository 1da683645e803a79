// The Pareto front of step time and cost, where candidates use several numbers
// of GPUs whose price is known.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "plots/experiment_records.h"
#include "plots/figure.h"
#include "plots/table.h"
#include "trials/objective.h"

namespace plots {

// A configuration as measured, or, without a method, without noise.
struct CostPoint {
  trials::TimeAndCost cost;
  int gpus = 0;
  std::string config;
  std::string method;      // its label; "": none
  bool completed = false;  // ran all its steps
};

// Whether there is such a front.
[[nodiscard]] bool HasParetoFront(const trials::ProblemInfo& problem);

// Every trial with a throughput, of all methods and repeats.
[[nodiscard]] std::vector<CostPoint> TrialCosts(const ProblemRecords& problem);

// The fronts of the trials that completed and of all configurations (empty:
// unknown), the fastest first.
[[nodiscard]] std::vector<CostPoint> FrontOfTrials(
    const std::vector<CostPoint>& trials);
[[nodiscard]] std::vector<CostPoint> FrontOfAll(
    const trials::ProblemInfo& problem);

// The cost of a step against its time: all trials, both fronts.
[[nodiscard]] Panel ParetoPanel(const ProblemRecords& problem);

// Both fronts of each problem that has them, one row per configuration.
[[nodiscard]] Table ParetoTable(std::span<const ProblemRecords> problems);

}  // namespace plots
