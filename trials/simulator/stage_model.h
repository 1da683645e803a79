// A step up to the end of the pipeline: every stage's time and memory.

#ifndef TRIALS_SIMULATOR_STAGE_MODEL_H_
#define TRIALS_SIMULATOR_STAGE_MODEL_H_

#include <vector>

#include "trials/parallel_config.h"
#include "trials/simulator/gradient_sync.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/memory.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/plan.h"
#include "trials/simulator/step_report.h"
#include "trials/workload.h"

namespace trials {

// One stage of the pipeline, all its ranks being alike.
struct StageRecord {
  StepParts parts;               // up to the end of the last backward
  StageTimeline timeline;        // the same as times
  double first_forward_s = 0.0;  // of the first chunk: hides late parameters
  StageMemory memory;
  std::vector<SyncModule> modules;  // in the order of backward
  // Experts of which a rank holds a part only (ep > 1); else they are tensors
  // of the modules.
  std::vector<SyncModule> expert_modules;
  double optimizer_s = 0.0;         // of the GPU, without ZeRO
  double expert_optimizer_s = 0.0;  // the same for expert_modules
  int tensors = 0;                  // of parameters
};

// Sequences of one microbatch.
[[nodiscard]] double MicroBatchSize(const Workload& workload,
                                    const ParallelConfig& config);

// What a plan is modelled from. Shapes: gpus and layers are [pp].
struct StageInputs {
  const Workload& workload;
  const Framework& framework;
  const Plan& plan;
  const PlanLinks& links;
  std::vector<const GpuModel*> gpus;
  std::vector<const LayerCosts*> layers;
};

// Builds the actions of each virtual stage from its layers (embedding on the
// first, head on the last), runs the pipeline and adds up the parts.
//
//   forward  = max(GPU, CPU) of the chunk's layers + TP collectives + head
//              + ring of keys and values + all-to-alls of experts
//   backward = the same, + what is recomputed
//
// where the excess of CPU time (dispatching kernels) over GPU time counts as
// overhead. ZeRO 3 gathers parameters and scatters gradients in every action.
//
// Source: docs/simulator.md, "A step". Depends on every field of the plan but
// the buckets, and on the ZeRO fields for stage 3 only.
[[nodiscard]] std::vector<StageRecord> ModelStages(const StageInputs& inputs);

// Elements of the embedding table on one rank of a stage with this tp when
// first and last stage both hold it (tied weights and a pipeline), else 0.
[[nodiscard]] double SharedTableElements(const Workload& workload,
                                         int stages,
                                         int tp);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_MODEL_H_
