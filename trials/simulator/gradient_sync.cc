#include "trials/simulator/gradient_sync.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "trials/simulator/collectives.h"

namespace trials {
namespace {

double ReduceTime(const GroupLink& link, const SyncOptions& options,
                  double bytes) {
  return options.scatter ? ReduceScatterTime(link, bytes) +
                               AllReduceTime(options.across, bytes / link.size)
                         : AllReduceTime(link, bytes);
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

// The streams of backward and of buckets.
class Buckets {
 public:
  Buckets(const GroupLink& link, const SyncOptions& options)
      : link_(link), options_(options) {}

  // The backward of a module.
  void Compute(double time_s) { now_s_ += time_s; }
  // A tensor's gradient is ready when its module's backward is done.
  void Ready() { ready_s_ = now_s_; }

  void Send(double bytes) {
    const double pack_s = options_.pack_s_per_byte * bytes;
    const double send_s = Time(bytes);
    const double unpack_s = options_.unpack_s_per_byte * bytes;
    const double ready_s = options_.lazy ? now_s_ : ready_s_;
    // Packed after what was packed before; with overlap within backward.
    packed_s_ = options_.overlap ? ready_s + pack_s : packed_s_ + pack_s;
    end_s_ =
        std::max(packed_s_, end_s_) + unpack_s +
        send_s * (options_.overlap ? 1.0 / (1.0 - options_.link_share) : 1.0);
    pack_total_s_ += pack_s;
    send_total_s_ += send_s;
    unpack_total_s_ += unpack_s;
    ++count_;
  }

  [[nodiscard]] SyncTime Finish(const Framework& framework) const {
    SyncTime time;
    time.overhead_s = count_ * framework.gradients.bucket_overhead_s;
    if (options_.own_stream) {
      time.overhead_s += count_ * framework.gradients.overlap_bucket_s;
    }
    if (options_.overlap) {
      const double after_s = std::min(
          send_total_s_ + unpack_total_s_,
          std::max(0.0, end_s_ - now_s_) * (1.0 - options_.link_share));
      const double hidden_s = send_total_s_ + unpack_total_s_ - after_s;
      time.exposed_s = pack_total_s_ + after_s +
                       framework.Slowdown(link_.slowdown) * hidden_s;
    } else {
      time.exposed_s = options_.own_stream
                           ? end_s_
                           : pack_total_s_ + send_total_s_ + unpack_total_s_;
    }
    return time;
  }

 private:
  // Blocks are alike, so a few sizes of buckets come again and again.
  double Time(double bytes) {
    for (const auto& [known_bytes, time_s] : known_) {
      if (known_bytes == bytes) {
        return time_s;
      }
    }
    auto& oldest = known_[next_++ % known_.size()];
    oldest = {bytes, ReduceTime(link_, options_, bytes)};
    return oldest.second;
  }

  const GroupLink& link_;
  const SyncOptions& options_;
  std::array<std::pair<double, double>, 4> known_{};  // bytes, time
  std::size_t next_ = 0;
  double now_s_ = 0.0;    // of backward
  double ready_s_ = 0.0;  // last tensor of the open bucket
  double packed_s_ = 0.0;
  double end_s_ = 0.0;  // of the last bucket sent
  double pack_total_s_ = 0.0;
  double send_total_s_ = 0.0;
  double unpack_total_s_ = 0.0;
  int count_ = 0;
};

// Every rank owns whole tensors. With more ranks than tensors, some own none.
GatherPlan PlanBroadcasts(const std::vector<SyncModule>& modules,
                          const GroupLink& link, const Framework& framework,
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
  plan.overhead_s = owners * framework.gradients.bucket_overhead_s;
  plan.overlapped_s = plan.total_s;
  plan.overlapped_overhead_s = plan.overhead_s;
  plan.slowdown = framework.Slowdown(link.slowdown);
  return plan;
}

}  // namespace

SyncTime ReduceGradients(const std::vector<SyncModule>& modules,
                         const GroupLink& link, const SyncOptions& options,
                         const Framework& framework) {
  if (link.size == 1 && options.across.size == 1) {
    return {};
  }
  Buckets buckets(link, options);
  Packer packer(options.bucket_bytes);
  for (const SyncModule& module : modules) {
    for (int i = 0; i < module.count; ++i) {
      buckets.Compute(module.backward_s);
      for (const double bytes : module.tensor_bytes) {
        packer.Add(bytes, [&](double full) { buckets.Send(full); });
        buckets.Ready();
      }
    }
  }
  packer.Flush([&](double rest) { buckets.Send(rest); });
  return buckets.Finish(framework);
}

GatherPlan PlanGather(const std::vector<SyncModule>& modules,
                      const GroupLink& link, double bucket_bytes,
                      const Framework& framework, double parameter_share,
                      double unpack_s_per_byte) {
  GatherPlan plan;
  if (link.size == 1) {
    return plan;
  }
  if (framework.sharding.broadcast_parameters) {
    return PlanBroadcasts(modules, link, framework, parameter_share);
  }
  plan.slowdown = framework.Slowdown(link.slowdown);
  double by_tensor_s = 0.0;
  double first_tensor_s = 0.0;
  double first_bucket_s = 0.0;
  int tensors = 0;
  int buckets = 0;
  const auto emit = [&](double bytes) {
    // Modules are in the order of backward: the last one is needed first.
    first_bucket_s = AllGatherTime(link, bytes);
    plan.total_s += first_bucket_s + unpack_s_per_byte * bytes;
    ++buckets;
  };
  // A bucket holds shards.
  Packer packer(framework.sharding.gather_by_tensor ? link.size * bucket_bytes
                                                    : bucket_bytes);
  for (const SyncModule& module : modules) {
    for (const double bytes : module.tensor_bytes) {
      first_tensor_s = AllGatherTime(link, parameter_share * bytes);
      by_tensor_s += module.count * first_tensor_s;
      tensors += module.count;
    }
    for (int i = 0; i < module.count; ++i) {
      for (const double bytes : module.tensor_bytes) {
        packer.Add(parameter_share * bytes, emit);
      }
    }
  }
  packer.Flush(emit);
  plan.overhead_s = buckets * framework.gradients.bucket_overhead_s;
  const bool by_tensor = framework.sharding.gather_by_tensor;
  plan.overlapped_s = by_tensor ? by_tensor_s : plan.total_s;
  plan.first_s = by_tensor ? first_tensor_s : first_bucket_s;
  plan.overlapped_overhead_s =
      (by_tensor ? tensors : buckets) * framework.gradients.bucket_overhead_s;
  return plan;
}

SyncTime ExposeGather(const GatherPlan& plan, bool overlap, double slack_s) {
  if (!overlap) {
    return {plan.total_s, plan.overhead_s};
  }
  const double after_s = std::max(plan.first_s, plan.overlapped_s - slack_s);
  return {after_s + plan.slowdown * (plan.overlapped_s - after_s),
          plan.overlapped_overhead_s};
}

}  // namespace trials
