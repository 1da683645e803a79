#include "trials/simulator/gradient_sync.h"

#include <algorithm>

#include "trials/simulator/collectives.h"

namespace trials {
namespace {

double ReduceTime(const GroupLink& link,
                  const SyncOptions& options,
                  double bytes) {
  return options.kind == SyncKind::kAllReduce
             ? AllReduceTime(link, bytes)
             : ReduceScatterTime(link, bytes) +
                   AllReduceTime(options.across, bytes / link.size);
}

// Fills buckets tensor by tensor and hands each full one to `emit`.
class Packer {
 public:
  explicit Packer(double bucket_bytes) : bucket_bytes_(bucket_bytes) {}

  template <typename Emit>
  void Add(double tensor_bytes, const Emit& emit) {
    if (filled_bytes_ > 0.0 && filled_bytes_ + tensor_bytes > bucket_bytes_) {
      Flush(emit);
    }
    filled_bytes_ += tensor_bytes;
  }

  template <typename Emit>
  void Flush(const Emit& emit) {
    if (filled_bytes_ > 0.0) {
      emit(filled_bytes_);
      filled_bytes_ = 0.0;
    }
  }

 private:
  double bucket_bytes_;
  double filled_bytes_ = 0.0;
};

// Every rank owns whole tensors. With more ranks than tensors, some own none.
GatherPlan PlanBroadcasts(const std::vector<SyncModule>& modules,
                          const GroupLink& link,
                          const Framework& framework,
                          double parameter_share) {
  GatherPlan plan;
  double tensors = 0.0;
  double total_bytes = 0.0;
  for (const SyncModule& module : modules) {
    for (const double bytes : module.tensor_bytes) {
      const double parameter_bytes = parameter_share * bytes;
      tensors += module.count;
      total_bytes += module.count * parameter_bytes;
      plan.first_s = BroadcastsTime(link, parameter_bytes, 1.0);
      plan.total_s += module.count * plan.first_s;
    }
  }
  const double owners = std::min<double>(link.size, tensors);
  if (owners < tensors) {  // an owner joins its tensors
    plan.first_s = BroadcastsTime(link, total_bytes / owners, 1.0);
    plan.total_s = owners * plan.first_s;
  }
  plan.overhead_s = owners * framework.bucket_overhead_s;
  return plan;
}

}  // namespace

std::vector<double> PackBuckets(const std::vector<double>& tensor_bytes,
                                double bucket_bytes) {
  std::vector<double> buckets;
  const auto emit = [&](double bytes) { buckets.push_back(bytes); };
  Packer packer(bucket_bytes);
  for (const double bytes : tensor_bytes) {
    packer.Add(bytes, emit);
  }
  packer.Flush(emit);
  return buckets;
}

SyncTime ReduceGradients(const std::vector<SyncModule>& modules,
                         const GroupLink& link,
                         const SyncOptions& options,
                         const Framework& framework) {
  if (link.size == 1 && options.across.size == 1) {
    return {};
  }
  double now_s = 0.0;    // of backward
  double ready_s = 0.0;  // last tensor of the open bucket
  double comm_end_s = 0.0;
  double comm_s = 0.0;
  int buckets = 0;
  const auto emit = [&](double bytes) {
    const double time_s = ReduceTime(link, options, bytes);
    comm_end_s = std::max(ready_s, comm_end_s) + time_s;
    comm_s += time_s;
    ++buckets;
  };
  Packer packer(options.bucket_bytes);
  for (const SyncModule& module : modules) {
    for (int i = 0; i < module.count; ++i) {
      // A tensor's gradient is ready when its module's backward is done.
      now_s += module.backward_s;
      for (const double bytes : module.tensor_bytes) {
        packer.Add(bytes, emit);
        ready_s = now_s;
      }
    }
  }
  packer.Flush(emit);

  SyncTime time;
  time.overhead_s = buckets * framework.bucket_overhead_s;
  if (options.overlap) {
    const double after_s = std::max(0.0, comm_end_s - now_s);
    const double hidden_s = comm_s - after_s;
    time.exposed_s = after_s + framework.overlap_slowdown * hidden_s;
  } else {
    time.exposed_s = comm_s;
  }
  return time;
}

GatherPlan PlanGather(const std::vector<SyncModule>& modules,
                      const GroupLink& link,
                      double bucket_bytes,
                      const Framework& framework,
                      double parameter_share) {
  GatherPlan plan;
  if (link.size == 1) {
    return plan;
  }
  if (framework.broadcast_parameters) {
    return PlanBroadcasts(modules, link, framework, parameter_share);
  }
  const auto emit = [&](double bytes) {
    // Modules are in the order of backward: the last bucket is needed first.
    plan.first_s = AllGatherTime(link, bytes);
    plan.total_s += plan.first_s;
    plan.overhead_s += framework.bucket_overhead_s;
  };
  Packer packer(bucket_bytes);
  for (const SyncModule& module : modules) {
    for (int i = 0; i < module.count; ++i) {
      for (const double bytes : module.tensor_bytes) {
        packer.Add(parameter_share * bytes, emit);
      }
    }
  }
  packer.Flush(emit);
  return plan;
}

SyncTime ExposeGather(const GatherPlan& plan,
                      bool overlap,
                      double slack_s,
                      const Framework& framework) {
  if (!overlap) {
    return {plan.total_s, plan.overhead_s};
  }
  const double after_s = std::max(plan.first_s, plan.total_s - slack_s);
  return {after_s + framework.overlap_slowdown * (plan.total_s - after_s),
          plan.overhead_s};
}

}  // namespace trials
