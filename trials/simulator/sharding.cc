#include "trials/simulator/sharding.h"

#include <algorithm>
#include <cmath>

#include "trials/simulator/collectives.h"

namespace trials {
namespace {

bool Applies(const ShardLinks& links, const ParallelConfig& config) {
  return config.zero_stage == 3 &&
         (links.within.size > 1 || links.across.size > 1);
}

// The exposed time of communication if up to `hidden_s` of it may overlap.
double Exposed(double total_s, double hidden_s, double compute_s,
               double slowdown) {
  const double behind_s = std::min(hidden_s, compute_s);
  return total_s - behind_s + slowdown * behind_s;
}

// Scatters gradients within a copy, and reduces each shard across the copies.
double ScatterTime(const ShardLinks& links, double bytes) {
  return ReduceScatterTime(links.within, bytes) +
         AllReduceTime(links.across, bytes / links.within.size);
}

// Messages of a bucket each.
class ByBuckets {
 public:
  ByBuckets(const ShardedChunk& chunk, const ShardLinks& links,
            const ParallelConfig& config, const Framework& framework)
      : links_(links),
        framework_(framework),
        elements_(chunk.blocks * chunk.block_parameters + chunk.end_parameters),
        messages_(std::max(
            std::ceil(elements_ * chunk.element_bytes /
                      framework.ZeroBucketBytes(config.zero_bucket_mb)),
            static_cast<double>(chunk.blocks))) {}

  // All of the chunk's elements, of `element_bytes` each.
  [[nodiscard]] double Gather(double element_bytes) const {
    const double bytes = elements_ * element_bytes / messages_;
    return messages_ * (AllGatherTime(links_.within, bytes) +
                        framework_.gradients.bucket_overhead_s);
  }
  [[nodiscard]] double Scatter(double element_bytes) const {
    const double bytes = elements_ * element_bytes / messages_;
    return messages_ * (ScatterTime(links_, bytes) +
                        framework_.gradients.bucket_overhead_s);
  }

 private:
  const ShardLinks& links_;
  const Framework& framework_;
  double elements_;
  double messages_;
};

// The B - 1 blocks whose communication can overlap with the computation of
// another block.
double Behind(const ShardedChunk& chunk, double block_s, double compute_s,
              double slowdown) {
  const double others = std::max(0, chunk.blocks - 1);
  return Exposed(others * block_s, others * block_s,
                 others * compute_s / std::max(1, chunk.blocks), slowdown);
}

}  // namespace

double GatherParametersTime(const ShardedChunk& chunk, const ShardLinks& links,
                            const ParallelConfig& config,
                            const Framework& framework, double compute_s) {
  if (!Applies(links, config)) {
    return 0.0;
  }
  const double slowdown = framework.Slowdown(links.within.slowdown);
  if (!framework.sharding.fsdp) {
    const double gather_s =
        ByBuckets(chunk, links, config, framework).Gather(chunk.element_bytes);
    return Exposed(gather_s, config.overlap_zero_allgather ? gather_s : 0.0,
                   compute_s, slowdown);
  }
  const auto gather = [&](double elements) {
    return elements == 0.0
               ? 0.0
               : AllGatherTime(links.within, elements * chunk.element_bytes) +
                     framework.gradients.bucket_overhead_s;
  };
  const double block_s = gather(chunk.block_parameters);
  return gather(chunk.end_parameters) + (chunk.blocks > 0 ? block_s : 0.0) +
         Behind(chunk, block_s, compute_s, slowdown);
}

double GatherAndScatterTime(const ShardedChunk& chunk, const ShardLinks& links,
                            const ParallelConfig& config,
                            const Framework& framework, double compute_s) {
  if (!Applies(links, config)) {
    return 0.0;
  }
  const double slowdown = framework.Slowdown(links.within.slowdown);
  const double gradient_bytes = framework.GradientBytes(chunk.element_bytes);
  if (!framework.sharding.fsdp) {
    const ByBuckets buckets(chunk, links, config, framework);
    const double gather_s = buckets.Gather(chunk.element_bytes);
    const double scatter_s = buckets.Scatter(gradient_bytes);
    return Exposed(gather_s + scatter_s,
                   (config.overlap_zero_allgather ? gather_s : 0.0) +
                       (config.overlap_zero_comm ? scatter_s : 0.0),
                   compute_s, slowdown);
  }
  // The mean over the microbatches, of which one scatters with no_sync.
  const double share =
      framework.sharding.no_sync ? 1.0 / config.microbatches : 1.0;
  const auto scatter = [&](double elements) {
    const double bytes = elements * gradient_bytes;
    return elements == 0.0 ? 0.0
                           : share * (ScatterTime(links, bytes) +
                                      framework.gradients.bucket_overhead_s);
  };
  const double gather_s = AllGatherTime(links.within, chunk.block_parameters *
                                                          chunk.element_bytes) +
                          framework.gradients.bucket_overhead_s;
  const double scatter_s = scatter(chunk.block_parameters);
  return (chunk.blocks > 0 ? gather_s + scatter_s : 0.0) +
         Behind(chunk, gather_s + scatter_s, compute_s, slowdown) +
         scatter(chunk.end_parameters);
}

}  // namespace trials
