// The work of a training step, and what it says of its time.

#pragma once

#include "trials/cluster.h"
#include "trials/measurement.h"
#include "trials/workload.h"

namespace trials {

// FLOP of the model per token, forward and backward, without recomputation,
//
//   6 (N - E) + 12 l h q t + 12 s,
//
// with N parameters that a token uses (of experts, those it is sent to), E
// parameters of embeddings that are only looked up, l layers, h heads of size q
// and t tokens of a sequence (of a packed one, those of a document; of local
// attention, its window), and s numbers in the states of scans; 4 instead of 6
// for frozen weights.
// Source: Chowdhery et al. (2022), "PaLM", App. B; torchtitan computes the
// same.
[[nodiscard]] double FlopPerToken(const Workload& workload);
// The same with half of the attention of causal models: a kernel may skip what
// its mask hides.
[[nodiscard]] double LeastFlopPerToken(const Workload& workload);

// Model FLOP utilization: the FLOP of the model over those of the GPUs' dense
// tensor cores in this precision.
[[nodiscard]] double ModelFlopUtilization(const Workload& workload,
                                          const Cluster& cluster,
                                          double step_time_s);
// The same of LeastFlopPerToken, of tensor cores for fp32, too: more than 1 is
// impossible.
[[nodiscard]] double LeastFlopUtilization(const Workload& workload,
                                          const Cluster& cluster,
                                          double step_time_s);

// The throughput of one GPU at this step time.
[[nodiscard]] double TokensPerSecondPerGpu(const Workload& workload,
                                           const Cluster& cluster,
                                           double step_time_s);

// What physics allows of a step of this job: LeastFlopPerToken at the peak rate
// of all GPUs, weights of four bits over all ranks, and the memory of a GPU, 5%
// more for the driver. No limit
// where the model or the GPU is unknown.
[[nodiscard]] MeasurementLimits LimitsOf(const Workload& workload,
                                         const Cluster& cluster);

}  // namespace trials
