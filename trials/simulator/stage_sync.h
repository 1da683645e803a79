// Synchronization of a stage's gradients and parameters after the pipeline.

#ifndef TRIALS_SIMULATOR_STAGE_SYNC_H_
#define TRIALS_SIMULATOR_STAGE_SYNC_H_

#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/problem.h"
#include "trials/simulator/stage_cost.h"

namespace trials {

// The same for every rank of a stage.
struct StageSync {
  SyncTime reduce;
  GatherPlan gather;
};

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

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_SYNC_H_
