#include "methods/planners/nnscaler/constraints.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace methods {

bool Allows(const PlanConstraints& constraints, const OperatorModel& model,
            int op, const OperatorChoice& choice) {
  const std::string& name = model.table().names()[model.NameOf(op)];
  return std::all_of(
      constraints.partitions.begin(), constraints.partitions.end(),
      [&](const PartitionConstraint& constraint) {
        return constraint.name != name ||
               ((constraint.by_sequences || choice.dp_log2 == 0) &&
                (constraint.by_features || choice.tp_log2 == 0));
      });
}

int MostStages(const PlanConstraints& constraints, int microbatches, int gpus) {
  const double bubble = constraints.most_bubble;
  // A bubble that equals the bound up to rounding is allowed; a bound of 1
  // allows infinitely many stages.
  const double most =
      std::floor(1.0 + 1e-9 + bubble / (1.0 - bubble) * microbatches);
  return static_cast<int>(std::min<double>(gpus, most));
}

bool IsBalanced(const PlanConstraints& constraints, double share) {
  constexpr double kRounding = 1e-9;
  return share >= constraints.least_balance * (1.0 - kRounding) &&
         share * constraints.least_balance <= 1.0 + kRounding;
}

}  // namespace methods
