// The end of a step, after the pipeline.

#ifndef TRIALS_SIMULATOR_STEP_H_
#define TRIALS_SIMULATOR_STEP_H_

#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/problem.h"
#include "trials/simulator/stage_cost.h"
#include "trials/simulator/stage_sync.h"
#include "trials/simulator/step_report.h"

namespace trials {

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

#endif  // TRIALS_SIMULATOR_STEP_H_
