// The time and memory of every stage up to the end of the pipeline.

#pragma once

#include <vector>

#include "trials/simulator/action_time.h"
#include "trials/simulator/gradient_sync.h"
#include "trials/simulator/memory.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/step_report.h"

namespace trials {

// One stage of the pipeline. All its ranks are alike.
struct StageCost {
  TimeBreakdown time;            // up to the end of the last backward
  double begin_s = 0.0;          // start of the first action
  double end_s = 0.0;            // end of the last action
  double first_forward_s = 0.0;  // of the first chunk: hides late parameters
  StageMemory memory;
  std::vector<SyncModule> modules;  // in the order of backward
  // Experts on ep > 1 ranks; otherwise they are tensors of the modules.
  std::vector<SyncModule> expert_modules;
  double optimizer_s = 0.0;         // of the GPU, without ZeRO
  double expert_optimizer_s = 0.0;  // the same for expert_modules
  int tensors = 0;                  // of parameters
  // All-reduce of a tied embedding table between first and last stage; 0 on
  // other stages.
  double shared_table_s = 0.0;
  double tensor_share = 0.0;  // of tensor parallelism in a backward action
  StageLinks links;
  int gpu_type = 0;
};

// The actions of the virtual stages [pp * model_chunks].
struct ActionTimes {
  PipelineShape shape;
  std::vector<TimeBreakdown> forward;
  std::vector<TimeBreakdown> backward;  // weights included
  PipelineTimes times;
};
[[nodiscard]] ActionTimes ActionsOf(const std::vector<StageContext>& stages,
                                    const PlanLinks& links);

// Computes the actions of each virtual stage from its layers (embedding on the
// first, head on the last), runs the pipeline and adds up the time.
// Shapes: stages [pp], of one plan.
//
// Source: docs/simulator.md, "A step".
[[nodiscard]] std::vector<StageCost> ComputeStageCosts(
    const std::vector<StageContext>& stages, const PlanLinks& links);

// At most the time of a step. A stage begins when the stages before it have
// passed on a microbatch, and they end after it,
//
//   max_s (sum_{r < s} forward_r + microbatches * actions_s
//          + sum_{r < s} backward_r),
//
// with the first chunks of the stages r; a split backward pass has no such end.
[[nodiscard]] double LeastStepTime(const std::vector<StageContext>& stages);

// The configuration with the default of every knob on which stage costs do not
// depend: the buckets, and ZeRO except stage 3. Costs are computed from, and
// memoized by, these knobs.
[[nodiscard]] ParallelConfig StageCostKnobs(ParallelConfig config);

}  // namespace trials
