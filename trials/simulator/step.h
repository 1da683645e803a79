// The end of a step: what follows the pipeline on each stage.

#pragma once

#include <cstddef>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/gradient_sync.h"
#include "trials/simulator/stage_cost.h"
#include "trials/simulator/step_report.h"

namespace trials {

// Synchronization of gradients and parameters, the same for every rank of a
// stage.
struct StageSync {
  SyncTime reduce;
  GatherPlan gather;
};

// What follows the pipeline on a stage, in this order.
struct AfterPipeline {
  double wait_s = 0.0;    // for the other stage with a tied embedding table
  double reduce_s = 0.0;  // gradients, exposed
  double optimizer_s = 0.0;
  double gather_s = 0.0;    // parameters, exposed
  double overhead_s = 0.0;  // buckets, the step's fixed cost
};
[[nodiscard]] AfterPipeline AfterPipelineOf(
    const Problem& problem, const ParallelConfig& shared,
    const std::vector<StageCost>& stages, const StageSync& sync,
    std::size_t stage);
// The step of a stage.
[[nodiscard]] TimeBreakdown TimeOf(const StageCost& stage,
                                   const AfterPipeline& after);

// By bucket, DDP exists only without ZeRO and without a pipeline. With a
// pipeline gradients are complete only after the last microbatch, so nothing
// overlaps. ZeRO 3 communicates within the actions.
// Shapes: stages and the result [pp].
[[nodiscard]] std::vector<StageSync> SynchronizeStages(
    const Problem& problem, const ParallelConfig& shared,
    const std::vector<StageCost>& stages);

// The configuration with the default of every knob on which SynchronizeStages
// does not depend: most of them, unless communication overlaps with backward.
// It is computed from, and memoized by, these knobs.
[[nodiscard]] ParallelConfig StageSyncKnobs(const Framework& framework,
                                            ParallelConfig config);

// Adds what follows the pipeline to each stage: the all-reduce of a tied
// embedding table, the synchronization, the optimizer. The stage that ends last
// determines the step, and the stage that fills its GPU most determines the
// peak.
// Shapes: stages, syncs [pp]. `shared`: the knobs of the whole plan.
[[nodiscard]] StepReport FinishStep(const Problem& problem,
                                    const ParallelConfig& shared,
                                    const std::vector<StageCost>& stages,
                                    const std::vector<StageSync>& syncs);

}  // namespace trials
