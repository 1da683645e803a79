// The stages of pipelines under constraints, each solved once.

#ifndef METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_
#define METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "methods/planners/nnscaler/constraints.h"
#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"

namespace methods {

// The choices of a stage, and their estimates.
struct ConstrainedStage {
  double ms = std::numeric_limits<double>::infinity();
  double last_mb =
      std::numeric_limits<double>::infinity();  // as the last stage
  double more_mb = 0.0;                         // for each stage behind it
  std::vector<methods::OperatorChoice> choices;

  [[nodiscard]] double MemoryMb(int stages_behind) const {
    return last_mb + stages_behind * more_mb;
  }
};

// The stages of one model with one microbatch size and recomputation. They do
// not depend on the replicas of the pipeline, and stages with the same layers
// are one.
class StageTable {
 public:
  // The model and the constraints must outlive it.
  StageTable(const methods::OperatorModel& model,
             const PlanConstraints& constraints, int micro_batch,
             bool recompute);

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

  const ConstrainedStage& StageOf(int begin, int end, int gpus);

  [[nodiscard]] int solved() const { return static_cast<int>(stages_.size()); }

 private:
  [[nodiscard]] ConstrainedStage Solved(int begin, int end, int gpus) const;
  [[nodiscard]] double Sum(const std::vector<double>& sums, int begin,
                           int end) const;

  const methods::OperatorModel& model_;
  const PlanConstraints& constraints_;
  int micro_batch_;
  bool recompute_;
  std::vector<int> cuts_;  // operators, the end included
  // Of the first operators, on one GPU.
  std::vector<double> forward_us_;
  std::vector<double> weights_mb_;
  std::map<std::array<int, 4>, ConstrainedStage> stages_;
};

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_STAGE_TABLE_H_
