// The stages of pipelines under constraints, each solved once.

#ifndef METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_
#define METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "methods/planners/alpa/alpa.h"
#include "methods/planners/nnscaler/constraints.h"
#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"

namespace methods {

// The stages of one model with one microbatch size and recomputation. They do
// not depend on the replicas of the pipeline, and stages with the same layers
// are one.
class StageTable {
 public:
  // The model and the constraints must outlive it.
  StageTable(const OperatorModel& model, const PlanConstraints& constraints,
             int micro_batch, bool recompute);

  // Places where stages may begin, numbered from 0; Operator(layers()) is the
  // end.
  [[nodiscard]] int layers() const {
    return static_cast<int>(cuts_.size()) - 1;
  }
  [[nodiscard]] int Operator(int layer) const { return cuts_[layer]; }

  // Whether the work of these layers is balanced in a pipeline of all GPUs.
  [[nodiscard]] bool IsBalancedStage(int begin, int end, int gpus,
                                     int all_gpus) const;

  // Parameters, gradients and optimizer states, spread over the GPUs: a lower
  // bound of the memory of a stage.
  [[nodiscard]] double StatesMb(int begin, int end, int gpus) const;

  const SolvedStage& StageOf(int begin, int end, int gpus);

  [[nodiscard]] int solved() const { return static_cast<int>(stages_.size()); }

 private:
  [[nodiscard]] double Sum(const std::vector<double>& sums, int begin,
                           int end) const;

  const OperatorModel& model_;
  const PlanConstraints& constraints_;
  int micro_batch_;
  bool recompute_;
  std::vector<int> cuts_;  // operators, the end included
  // Of the first operators, on one GPU.
  std::vector<double> forward_us_;
  std::vector<double> weights_mb_;
  std::map<std::array<int, 4>, SolvedStage> stages_;
};

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_
