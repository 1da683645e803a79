// A step up to the end of the pipeline: every stage's time and memory.

#ifndef TRIALS_SIMULATOR_STAGE_MODEL_H_
#define TRIALS_SIMULATOR_STAGE_MODEL_H_

#include <vector>

#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/simulator/gradient_sync.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/memory.h"
#include "trials/simulator/pipeline.h"
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
  double optimizer_s = 0.0;         // of the GPU, without ZeRO
  int tensors = 0;                  // of parameters
};

// Sequences of one microbatch.
[[nodiscard]] double MicroBatchSize(const Workload& workload,
                                    const ParallelConfig& config);

// Builds the actions of each virtual stage from its layers (embedding on the
// first, head on the last), runs the pipeline and adds up the parts.
//
//   forward  = max(GPU, CPU) of the chunk's layers + TP all-reduces + head
//   backward = the same, + recomputation under checkpointing
//
// where the excess of CPU time (dispatching kernels) over GPU time counts as
// overhead. ZeRO 3 gathers parameters and scatters gradients in every action.
//
// Source: docs/simulator.md, "A step". Depends on every field of the
// configuration but the buckets, and on the ZeRO fields for stage 3 only.
[[nodiscard]] std::vector<StageRecord> ModelStages(
    const Workload& workload,
    const Cluster& cluster,
    const Framework& framework,
    const GpuModel& gpu,
    const LayerCosts& layers,
    const ParallelConfig& config);

// Elements of the embedding table on one rank when first and last stage both
// hold it (tied weights and a pipeline), else 0.
[[nodiscard]] double SharedTableElements(const Workload& workload,
                                         const ParallelConfig& config);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_MODEL_H_
