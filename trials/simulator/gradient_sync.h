// Data parallelism and ZeRO: the time that synchronizing gradients and
// parameters adds to a step.

#pragma once

#include <vector>

#include "trials/simulator/framework.h"
#include "trials/simulator/topology.h"

namespace trials {

// Parameter tensors of one module on one rank and the time of its backward, in
// the order of backward; `count` such modules follow one another.
struct SyncModule {
  std::vector<double> tensor_bytes;  // gradients, in the order they are ready
  double backward_s = 0.0;
  int count = 1;
};

struct SyncOptions {
  // Every rank gets its own shard (ZeRO 2). False: all gradients.
  bool scatter = false;
  double bucket_bytes = 0.0;  // <= 0: one operation per tensor
  bool overlap = false;       // buckets are sent while backward runs
  // Buckets have a stream of their own, also where backward has ended.
  bool own_stream = false;
  // A bucket is sent when a tensor arrives that does not fit (ZeRO), not when
  // its last tensor is ready (DDP).
  bool lazy = false;
  double pack_s_per_byte = 0.0;    // copies into the bucket
  double unpack_s_per_byte = 0.0;  // and back
  // The part of backward's time that its own collectives spend on the same
  // link.
  double link_share = 0.0;
  // Ranks with the same shard, which is then all-reduced among them.
  GroupLink across;
};

// The time that is added after the end of backward.
struct SyncTime {
  double exposed_s = 0.0;   // communication, and the slowdown it causes
  double overhead_s = 0.0;  // per-bucket work on the GPU and CPU
};

// Reduces the gradients of `modules` in buckets as PyTorch's DDP and
// Colossal-AI's ZeRO do: a tensor that does not fit closes the bucket; a tensor
// is never split. With overlap bucket i is packed in time
// p_i by the stream of backward, and starts when this is done and bucket i - 1
// is,
//
//   end_i = max(ready_i + p_i, end_{i-1}) + t(bytes_i) + u_i,
//   exposed = sum p_i + max(0, end_last - backward) + slowdown * hidden,
//
// where u_i copies the bucket back. t grows by 1 / (1 - link_share) until
// backward ends. Without overlap everything follows backward; a stream of its
// own still sends a bucket while the next one is packed, at the cost of
// overlap_bucket_s on the CPU for each.
//
// Source: Colossal-AI, zero/low_level/low_level_optim.py (_run_reduction,
// _add_to_bucket); Li et al. (2020), PyTorch Distributed, Sec. 3.2.
[[nodiscard]] SyncTime ReduceGradients(const std::vector<SyncModule>& modules,
                                       const GroupLink& link,
                                       const SyncOptions& options,
                                       const Framework& framework);

// All-gather of the updated parameters (ZeRO 1 and 2) bucket by bucket, or
// their broadcasts by the owners of whole tensors
// (Framework::sharding.broadcast_parameters).
struct GatherPlan {
  double total_s = 0.0;
  double overhead_s = 0.0;
  // The part that overlaps with the next forward, and the message that forward
  // needs first.
  double overlapped_s = 0.0;
  double first_s = 0.0;
  double overlapped_overhead_s = 0.0;
  double slowdown = 0.0;  // of computation behind it
};

// Gathers parameters in buckets of `bucket_bytes`. A bucket is copied out of
// the list of shards in unpack_s_per_byte. Where it overlaps, every tensor is a
// message of its own, received in place (Framework::sharding.gather_by_tensor).
// `parameter_share` is the size of a parameter over that of its gradient.
//
// Source: Colossal-AI, zero/low_level/low_level_optim.py (step).
[[nodiscard]] GatherPlan PlanGather(const std::vector<SyncModule>& modules,
                                    const GroupLink& link, double bucket_bytes,
                                    const Framework& framework,
                                    double parameter_share = 1.0,
                                    double unpack_s_per_byte = 0.0);

// The exposed time of an all-gather. With overlap it runs during the next
// forward, which starts when the first bucket has arrived and hides the rest in
// `slack_s` of waiting and computation.
[[nodiscard]] SyncTime ExposeGather(const GatherPlan& plan, bool overlap,
                                    double slack_s);

}  // namespace trials
