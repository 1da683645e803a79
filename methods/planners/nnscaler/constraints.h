// Constraints on plans, as nnScaler's users and its planner state them.

#ifndef METHODS_PLANNERS_NNSCALER_CONSTRAINTS_H_
#define METHODS_PLANNERS_NNSCALER_CONSTRAINTS_H_

#include <string>
#include <vector>

#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"

namespace methods {

// The partitions that an operator may have, by its name in the profiles.
struct PartitionConstraint {
  std::string name;
  bool by_sequences = true;  // dp > 1
  bool by_features = true;   // tp > 1
};

// The defaults are those of its published planner; no constraint is
// {1.0, 0.0, all GPUs, {}}.
struct PlanConstraints {
  // Of the stages s of a pipeline with B microbatches: the bubble is
  // (s - 1) / (s - 1 + B).
  double most_bubble = 0.4;
  // The time of a stage's operators per GPU is at least this share of the mean
  // over the plan, and at most the mean over this share.
  double least_balance = 0.5;
  int most_gpus_of_stage = 8;
  std::vector<PartitionConstraint> partitions;
};

// Whether the operator may have these sizes.
[[nodiscard]] bool Allows(const PlanConstraints& constraints,
                          const OperatorModel& model, int op,
                          const OperatorChoice& choice);

// The most stages with so many microbatches and GPUs.
[[nodiscard]] int MostStages(const PlanConstraints& constraints,
                             int microbatches, int gpus);

// Whether `share`, the time of a stage per GPU over its mean, is balanced.
[[nodiscard]] bool IsBalanced(const PlanConstraints& constraints, double share);

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_CONSTRAINTS_H_
