#include "trials/simulator/sharding.h"

#include <algorithm>
#include <cmath>

#include "trials/simulator/collectives.h"

namespace trials {
namespace {

// The exposed time of communication if up to `hidden_s` of it may overlap.
double Exposed(double total_s, double hidden_s, double compute_s,
               double slowdown) {
  const double behind_s = std::min(hidden_s, compute_s);
  return total_s - behind_s + slowdown * behind_s;
}

// The messages of one pass: all-gathers of parameters, and reductions of
// gradients, which scatter them within a copy and reduce each shard across the
// copies. Each has the framework's overhead.
struct Messages {
  const ShardLinks& links;
  const Framework& framework;
  double parameter_bytes;  // of an element
  double gradient_bytes;   // 0 forward

  [[nodiscard]] double Gather(double elements) const {
    return AllGatherTime(links.within, elements * parameter_bytes) +
           framework.gradients.bucket_overhead_s;
  }
  [[nodiscard]] double Scatter(double elements) const {
    const double bytes = elements * gradient_bytes;
    return bytes == 0.0
               ? 0.0
               : ReduceScatterTime(links.within, bytes) +
                     AllReduceTime(links.across, bytes / links.within.size) +
                     framework.gradients.bucket_overhead_s;
  }
};

double ByBuckets(const Messages& messages, const ShardedChunk& chunk,
                 const ParallelConfig& config, double compute_s,
                 double slowdown) {
  const double elements =
      chunk.blocks * chunk.block_parameters + chunk.end_parameters;
  const double count = std::max(
      std::ceil(elements * chunk.element_bytes /
                messages.framework.ZeroBucketBytes(config.zero_bucket_mb)),
      static_cast<double>(chunk.blocks));
  const double gather_s = count * messages.Gather(elements / count);
  const double trained =
      chunk.trained_share * chunk.blocks * chunk.block_parameters +
      chunk.trained_ends * chunk.end_parameters;
  const double scatter_s =
      trained > 0.0 ? count * messages.Scatter(trained / count) : 0.0;
  return Exposed(gather_s + scatter_s,
                 (config.overlap_zero_allgather ? gather_s : 0.0) +
                     (config.overlap_zero_comm ? scatter_s : 0.0),
                 compute_s, slowdown);
}

double ByBlocks(Pass pass, const Messages& messages, const ShardedChunk& chunk,
                double scattered_share, double compute_s, double slowdown) {
  const bool gathers_ends =
      pass == Pass::kForward && chunk.end_parameters > 0.0;
  const double block_s =
      messages.Gather(chunk.gathered_share * chunk.block_parameters) +
      scattered_share *
          messages.Scatter(chunk.trained_share * chunk.block_parameters);
  // The others can overlap with the computation of another block.
  const double others = std::max(0, chunk.blocks - 1);
  return (gathers_ends ? messages.Gather(chunk.end_parameters) : 0.0) +
         (chunk.blocks > 0 ? block_s : 0.0) +
         Exposed(others * block_s, others * block_s,
                 others * compute_s / std::max(1, chunk.blocks), slowdown) +
         (chunk.trained_ends > 0.0
              ? scattered_share *
                    messages.Scatter(chunk.trained_ends * chunk.end_parameters)
              : 0.0);
}

}  // namespace

ShardingBehavior BehaviorOf(const Framework& framework,
                            const ParallelConfig& shared) {
  const Framework::Sharding& sharding = framework.sharding;
  const int zero = shared.zero_stage;
  ShardingBehavior behavior;
  behavior.by_module = sharding.fsdp && zero > 0;
  behavior.fp32_shards = behavior.by_module && zero >= 2;
  behavior.masters_only = behavior.by_module && zero == 3;
  behavior.keeps_gathered = behavior.masters_only && shared.pp > 1;
  behavior.gathers_again = behavior.by_module && zero == 2 && shared.pp == 1;
  behavior.scatters =
      zero == 2 || (zero > 0 && framework.gradients.scatter_gradients);
  behavior.scatters_once =
      behavior.fp32_shards && (sharding.no_sync || shared.pp > 1);
  behavior.holds_whole_gradients =
      behavior.scatters_once && shared.microbatches > 1;
  behavior.in_groups = zero >= (sharding.zero_group_ranks > 0 ? 1 : 2);
  return behavior;
}

double ShardingTime(Pass pass, const ShardedChunk& chunk,
                    const ShardLinks& links, const ParallelConfig& config,
                    const Framework& framework, double compute_s) {
  if (config.zero_stage < 3 ||
      (links.within.size == 1 && links.across.size == 1)) {
    return 0.0;
  }
  const double slowdown = framework.Slowdown(links.within.slowdown);
  const Messages messages{links, framework, chunk.element_bytes,
                          pass == Pass::kForward
                              ? 0.0
                              : framework.GradientBytes(chunk.element_bytes)};
  const ShardingBehavior behavior = BehaviorOf(framework, config);
  // The mean over the microbatches.
  const double scattered_share =
      behavior.scatters_once ? 1.0 / config.microbatches : 1.0;
  return behavior.by_module
             ? ByBlocks(pass, messages, chunk, scattered_share, compute_s,
                        slowdown)
             : ByBuckets(messages, chunk, config, compute_s, slowdown);
}

}  // namespace trials
