// Peak memory of the CPU ranks of oppa-train, by region.

#ifndef TRIALS_SIMULATOR_TRAINER_MEMORY_H_
#define TRIALS_SIMULATOR_TRAINER_MEMORY_H_

#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/step_report.h"
#include "trials/simulator/trainer_ledger.h"
#include "trials/workload.h"

namespace trials {

// Enters into a ledger what a rank of a stage allocates and frees in a step:
// states and buckets of ZeRO, then every operator of its actions in their
// order, and what it exchanges with other stages. Nothing is fitted, but the
// loads of experts are assumed (`framework`). The first-fit allocator may need
// more, because it cannot use every hole.
//
// Source: docs/trainer.md, "Memory".
[[nodiscard]] TrainerLedger TrainerMemory(const Workload& workload,
                                          const ParallelConfig& config,
                                          int stage,
                                          const Framework& framework);

// The memory at the peak in the terms of the simulator.
[[nodiscard]] MemoryBreakdown ToBreakdown(const TrainerLedger& ledger);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_TRAINER_MEMORY_H_
