// Astra's cost model: time and memory of a strategy from its operators.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace planners {

// The time of a pipeline for `microbatches`: all stages once, then the slowest
// stage for every further microbatch. A stage's time includes its transfer. The
// interleaved schedule fills and drains a pipeline of `chunks` times shorter
// stages. In the unit of the stages.
// Source: Astra Eq. 22; chunks: Narayanan et al. (2021), Sec. 2.2.
[[nodiscard]] double PipelineTime(std::span<const double> stages,
                                  int microbatches, int chunks = 1);

// A matrix product [m, k] x [k, n] on one GPU.
struct MatrixProduct {
  double m = 0.0;
  double n = 0.0;
  double k = 0.0;
};

// The share of the peak that a matrix product reaches, in (0, 1].
using ProductEfficiency = std::function<double(const MatrixProduct&)>;

// best g / (g + 512) with g = (m n k)^(1/3). For best = 0.77, the default of
// the method, the median error over 183 published products on an A100 PCIe is
// 3%, and the mean 5% (SimuMax's table); for a B200, best is 0.52.
[[nodiscard]] ProductEfficiency AnalyticEfficiency(double best);

// The machine as data sheets describe it.
struct AstraMachine {
  int gpus_per_node = 8;
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  double flops_per_s = 312e12;            // phi_comp, dense, in 16 bits
  double intra_node_bytes_per_s = 300e9;  // phi_comm, per GPU
  double inter_node_bytes_per_s = 25e9;   // per GPU
  double link_efficiency = 0.8;           // eta_comm of large messages
  double half_efficient_bytes = 1e6;      // a message that reaches half of it
  bool flash_attention = true;            // the only value in Astra's Table 3
  double host_bytes_per_s = 25e9;         // of a GPU to its host: PCIe 4 x16
  // Elements that the optimizer on the host updates, for one GPU: eight GPUs
  // share 200 GB/s of host memory, of which an element takes 28 bytes.
  double host_elements_per_s = 0.9e9;
};

// One block and one microbatch on a GPU.
struct AstraBlock {
  double forward_s = 0.0;
  double core_s = 0.0;        // of it, scores and weighted sum of attention
  double collective_s = 0.0;  // tensor-parallel, of one pass
  double experts_s = 0.0;     // all-to-alls, of one pass
};

// What Table 3 has in addition to a plan. Trials cannot run it.
struct AstraExtras {
  // Blocks of a group of which only the input is kept (recompute-method
  // uniform, then all blocks are recomputed); > 0.
  int group = 1;
  // The optimizer and its states are on the host (offload-optimizer), and their
  // transfers are hidden by the backward and forward passes unless
  // no-overlap-offload-optimizer.
  bool offload_optimizer = false;
  bool overlap_offload = true;
};

// What a stage computes.
struct AstraShare {
  int stage = 0;   // of pp
  int blocks = 0;  // of the model
  // Blocks that are recomputed fully (recompute-method block); all of them
  // where the configuration says so.
  int recomputed = 0;
  AstraExtras extras = {};
};

// One microbatch on a GPU of a stage.
struct AstraStage {
  double compute_s = 0.0;      // forward, backward, recomputation
  double communicate_s = 0.0;  // tensor- and expert-parallel collectives
  double transfer_s = 0.0;     // h of Eq. 22
  double memory_bytes = 0.0;   // peak in a step
  double reduction_s = 0.0;    // see AstraCost; of a step
  double offload_s = 0.0;      // transfers and host optimizer, not hidden
};

struct AstraCost {
  std::vector<AstraStage> stages;
  double reduction_s = 0.0;  // of gradients and parameters, not hidden
  double step_time_s = 0.0;
  double peak_memory_bytes = 0.0;  // of the fullest stage
};

// A strategy is a configuration of Megatron-LM. Each computation takes theta /
// (phi eta), theta FLOPs on a GPU with a peak of phi at the efficiency eta, and
// each communication the same with bytes (Eqs. 25-26); a stage is the sum over
// its operators (Eqs. 27-28), and a step is Eq. 22 plus the reduction of the
// slowest stage.
//
// - Computation: the matrix products of blocks and head; backward has twice the
//   FLOPs of forward. Other operators count as part of the efficiency.
// - Two all-reduces of a block's output per pass for tensor parallelism (or as
//   many bytes as all-gathers and reduce-scatters for sequence parallelism);
//   four all-to-alls of a block for expert parallelism.
// - Gradients are fp32; the last backward hides their reduction, and with the
//   distributed optimizer (ZeRO >= 1) the first forward hides the all-gather of
//   parameters: both overlaps are always on in its Table 3. ZeRO 3, which is
//   not in that table, gathers parameters twice per microbatch.
// - Memory: 2 bytes per weight, 4 per gradient, 12 of optimizer states; the
//   activations of blocks by Korthikanti et al. (2022), Sec. 4, for the
//   microbatches in flight; logits. Astra's own formula is not published.
//
// - Recomputation of the first blocks of a stage, or of groups of all blocks,
//   of which only the inputs are kept (AstraShare).
// - An optimizer on the host: its states take no memory of the GPU; gradients
//   leave and parameters return over the link to the host.
//
// Source: Astra Sec. 3.3 and 3.5; Table 3.
class AstraModel {
 public:
  AstraModel(const trials::Workload& workload, const AstraMachine& machine,
             ProductEfficiency efficiency);

  [[nodiscard]] AstraCost Cost(const trials::ParallelConfig& config) const;

  // The parts of Cost, for stages that differ. A block depends on the
  // microbatch, tp, cp and ep only; transfers are left out of a stage.
  [[nodiscard]] AstraBlock BlockOf(const trials::ParallelConfig& config) const;
  [[nodiscard]] AstraStage StageOf(const trials::ParallelConfig& config,
                                   const AstraBlock& block,
                                   const AstraShare& share) const;
  // One microbatch from a stage to the next one.
  [[nodiscard]] double TransferTime(const trials::ParallelConfig& config,
                                    bool between_hosts) const;

 private:
  [[nodiscard]] double ProductTime(const MatrixProduct& product,
                                   double count = 1.0) const;
  [[nodiscard]] double LinkTime(double bytes, bool between_hosts) const;
  [[nodiscard]] double Tokens(const trials::ParallelConfig& config) const;
  [[nodiscard]] double ParametersOf(const trials::ParallelConfig& config,
                                    const AstraShare& share) const;
  [[nodiscard]] double MemoryOf(const trials::ParallelConfig& config,
                                const AstraShare& share) const;
  [[nodiscard]] double OffloadTime(const trials::ParallelConfig& config,
                                   const AstraShare& share,
                                   double compute_s) const;
  [[nodiscard]] double ReductionTime(const trials::ParallelConfig& config,
                                     double parameters, double compute_s) const;

  trials::Workload workload_;
  AstraMachine machine_;
  ProductEfficiency efficiency_;
};

}  // namespace planners
