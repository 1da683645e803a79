// What a training step achieves: tokens, FLOP, money.

#ifndef JOBS_EFFICIENCY_H_
#define JOBS_EFFICIENCY_H_

#include "trials/cluster.h"
#include "trials/workload.h"

namespace jobs {

// FLOP of the model per token, forward and backward, without recomputation,
//
//   6 (N - E) + 12 l h q t,
//
// with N parameters that a token uses (of experts, those it is sent to), E
// parameters of embeddings that are only looked up, l layers, h heads of size q
// and t tokens of a sequence (of local attention, its window).
// Source: Chowdhery et al. (2022), "PaLM", App. B; torchtitan computes the
// same.
[[nodiscard]] double FlopPerToken(const trials::Workload& workload);

// The throughput of one GPU at this step time.
[[nodiscard]] double TokensPerSecondPerGpu(const trials::Workload& workload,
                                           int gpus, double step_time_s);

// Model FLOP utilization: the FLOP of the model over those of the GPUs' dense
// tensor cores in this precision.
[[nodiscard]] double ModelFlopUtilization(const trials::Workload& workload,
                                          const trials::Cluster& cluster,
                                          double step_time_s);

}  // namespace jobs

#endif  // JOBS_EFFICIENCY_H_
