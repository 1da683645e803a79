// Data parallelism and ZeRO: the time that synchronizing gradients and
// parameters adds to a step.

#ifndef TRIALS_SIMULATOR_GRADIENT_SYNC_H_
#define TRIALS_SIMULATOR_GRADIENT_SYNC_H_

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

enum class SyncKind {
  kAllReduce,      // ZeRO 0 and 1: every rank gets all gradients
  kReduceScatter,  // ZeRO 2: every rank gets its own shard
};

struct SyncOptions {
  SyncKind kind = SyncKind::kAllReduce;
  double bucket_bytes = 0.0;  // <= 0: one operation per tensor
  bool overlap = false;       // buckets are sent while backward runs
  // Ranks with the same shard, which is then all-reduced among them.
  GroupLink across;
};

// The time that is added after the end of backward.
struct SyncTime {
  double exposed_s = 0.0;   // communication, and the slowdown it causes
  double overhead_s = 0.0;  // per-bucket work on the GPU and CPU
};

// Packs tensors into buckets as PyTorch's DDP and Colossal-AI's ZeRO do: a
// tensor that does not fit closes the bucket; a tensor is never split.
// Returns the bytes of each bucket.
[[nodiscard]] std::vector<double> PackBuckets(
    const std::vector<double>& tensor_bytes, double bucket_bytes);

// Reduces the gradients of `modules`. With overlap bucket i starts when its
// last tensor is ready and bucket i - 1 is done,
//
//   end_i = max(ready_i, end_{i-1}) + t(bytes_i),
//   exposed = max(0, end_last - backward) + slowdown * hidden,
//
// without overlap all communication follows backward.
[[nodiscard]] SyncTime ReduceGradients(const std::vector<SyncModule>& modules,
                                       const GroupLink& link,
                                       const SyncOptions& options,
                                       const Framework& framework);

// All-gather of the updated parameters (ZeRO 1 and 2) bucket by bucket, or
// their broadcasts by the owners of whole tensors
// (Framework::broadcast_parameters).
struct GatherPlan {
  double total_s = 0.0;
  double first_s = 0.0;  // the bucket that the next forward needs first
  double overhead_s = 0.0;
};
// `parameter_share` is the size of a parameter over that of its gradient.

[[nodiscard]] GatherPlan PlanGather(const std::vector<SyncModule>& modules,
                                    const GroupLink& link,
                                    double bucket_bytes,
                                    const Framework& framework,
                                    double parameter_share = 1.0);

// The exposed time of an all-gather. With overlap it runs during the next
// forward, which starts when the first bucket has arrived and hides the rest in
// `slack_s` of waiting and computation.
[[nodiscard]] SyncTime ExposeGather(const GatherPlan& plan,
                                    bool overlap,
                                    double slack_s,
                                    const Framework& framework);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_GRADIENT_SYNC_H_
