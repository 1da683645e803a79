#include "trials/simulator/stage_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "trials/simulator/collectives.h"

namespace trials {
namespace {

constexpr double kMega = 1024.0 * 1024.0;

void AddScaled(StepParts& sum, const StepParts& parts, double times) {
  sum.forward_s += times * parts.forward_s;
  sum.backward_s += times * parts.backward_s;
  sum.recompute_s += times * parts.recompute_s;
  sum.head_s += times * parts.head_s;
  sum.tensor_s += times * parts.tensor_s;
  sum.data_s += times * parts.data_s;
  sum.overhead_s += times * parts.overhead_s;
}

// Builds the records of one configuration.
class Builder {
 public:
  Builder(const Workload& workload,
          const Cluster& cluster,
          const Framework& framework,
          const GpuModel& gpu,
          const LayerCosts& layers,
          const ParallelConfig& config)
      : workload_(workload),
        cluster_(cluster),
        framework_(framework),
        gpu_(gpu),
        layers_(layers),
        config_(config),
        grid_{config.dp, config.tp, config.pp},
        shape_{config.pp, config.microbatches, config.model_chunks},
        virtual_stages_(config.pp * config.model_chunks),
        blocks_(DistributeLayers(workload.model.layers, virtual_stages_)),
        tp_link_(RingLink(cluster, TpGroups(grid_))),
        dp_link_(RingLink(cluster, DpGroups(grid_))) {}

  std::vector<StageRecord> Build() {
    std::vector<StepParts> forward;
    std::vector<StepParts> backward;
    PipelineTimes times;
    for (int v = 0; v < virtual_stages_; ++v) {
      forward.push_back(Forward(v));
      backward.push_back(Backward(v));
      times.forward_s.push_back(forward.back().Total());
      times.backward_s.push_back(backward.back().Total());
    }
    AddTransfers(times);
    times.overlap = config_.model_chunks > 1 && config_.overlap_p2p;
    const std::vector<StageTimeline> timelines = RunPipeline(shape_, times);

    std::vector<StageRecord> records;
    for (int s = 0; s < config_.pp; ++s) {
      StageRecord& record = records.emplace_back();
      record.timeline = timelines[static_cast<std::size_t>(s)];
      for (int v = s; v < virtual_stages_; v += config_.pp) {
        const auto i = static_cast<std::size_t>(v);
        AddScaled(record.parts, forward[i], config_.microbatches);
        AddScaled(record.parts, backward[i], config_.microbatches);
      }
      record.parts.pipeline_s = record.timeline.transfer_s;
      record.parts.bubble_s = record.timeline.bubble_s;
      record.first_forward_s = times.forward_s[static_cast<std::size_t>(s)];
      AddModules(s, backward, record);
      AddMemory(s, record);
      AddOptimizer(record);
    }
    return records;
  }

 private:
  [[nodiscard]] bool First(int v) const { return v == 0; }
  [[nodiscard]] bool Last(int v) const { return v == virtual_stages_ - 1; }
  [[nodiscard]] int Blocks(int v) const {
    return blocks_[static_cast<std::size_t>(v)];
  }

  // Sum of a field over the modules of a virtual stage.
  template <typename Field>
  [[nodiscard]] double Sum(int v, Field LayerCost::*field) const {
    return static_cast<double>(Blocks(v)) * (layers_.block.*field) +
           (First(v) ? static_cast<double>(layers_.embedding.*field) : 0.0) +
           (Last(v) ? static_cast<double>(layers_.head.*field) : 0.0);
  }
  [[nodiscard]] double Ends(int v, double LayerCost::*field) const {
    return (First(v) ? layers_.embedding.*field : 0.0) +
           (Last(v) ? layers_.head.*field : 0.0);
  }

  [[nodiscard]] double TensorTime(double messages) const {
    return messages * AllReduceTime(tp_link_, layers_.boundary_bytes);
  }

  [[nodiscard]] double ChunkParameters(int v) const {
    return Blocks(v) * layers_.block.ParameterCount() +
           (First(v) ? layers_.embedding.ParameterCount() : 0.0) +
           (Last(v) ? layers_.head.ParameterCount() : 0.0);
  }

  // ZeRO 3: messages of at most a bucket, hidden behind compute if asked.
  [[nodiscard]] double ShardingTime(int v,
                                    bool backward,
                                    double compute_s) const {
    if (config_.zero_stage < 3 || config_.dp == 1) {
      return 0.0;
    }
    const double bytes = gpu_.element_bytes() * ChunkParameters(v);
    const double bucket = config_.zero_bucket_mb * kMega;
    const double messages =
        std::max(std::ceil(bytes / bucket), static_cast<double>(Blocks(v)));
    const double gather_s =
        messages * (AllGatherTime(dp_link_, bytes / messages) +
                    framework_.bucket_overhead_s);
    const double scatter_s =
        backward ? messages * (ReduceScatterTime(dp_link_, bytes / messages) +
                               framework_.bucket_overhead_s)
                 : 0.0;
    const double hidden_s = (config_.overlap_zero_allgather ? gather_s : 0.0) +
                            (config_.overlap_zero_comm ? scatter_s : 0.0);
    const double total_s = gather_s + scatter_s;
    const double behind_s = std::min(hidden_s, compute_s);
    return total_s - behind_s + framework_.overlap_slowdown * behind_s;
  }

  [[nodiscard]] StepParts Forward(int v) const {
    StepParts parts;
    parts.forward_s = Blocks(v) * layers_.block.forward_s;
    parts.head_s = Ends(v, &LayerCost::forward_s);
    parts.tensor_s = TensorTime(Sum(v, &LayerCost::forward_messages));
    AddOverhead(Sum(v, &LayerCost::forward_dispatch_s), parts);
    parts.overhead_s += framework_.microbatch_overhead_s;
    parts.data_s = ShardingTime(v, false, parts.forward_s + parts.head_s);
    return parts;
  }

  [[nodiscard]] StepParts Backward(int v) const {
    StepParts parts;
    const bool accumulate = config_.microbatches > 1;
    const double blocks = Blocks(v);
    parts.backward_s =
        blocks * (layers_.block.backward_s +
                  (accumulate ? layers_.block.accumulate_s : 0.0));
    parts.head_s = Ends(v, &LayerCost::backward_s) +
                   (accumulate ? Ends(v, &LayerCost::accumulate_s) : 0.0);
    double messages = Sum(v, &LayerCost::backward_messages);
    double dispatch_s = Sum(v, &LayerCost::backward_dispatch_s);
    if (config_.grad_checkpoint) {
      parts.recompute_s = blocks * layers_.block.forward_s;
      messages += blocks * layers_.block.forward_messages;
      dispatch_s += blocks * layers_.block.forward_dispatch_s;
    }
    parts.tensor_s = TensorTime(messages);
    AddOverhead(dispatch_s, parts);
    parts.data_s = ShardingTime(
        v, true, parts.backward_s + parts.head_s + parts.recompute_s);
    return parts;
  }

  // Kernels are issued while earlier ones run; what the CPU needs beyond the
  // GPU's time is exposed.
  static void AddOverhead(double dispatch_s, StepParts& parts) {
    parts.overhead_s += std::max(0.0, dispatch_s - parts.Total());
  }

  void AddTransfers(PipelineTimes& times) const {
    for (int s = 0; s < config_.pp; ++s) {
      const int next = (s + 1) % config_.pp;
      const bool used =
          config_.pp > 1 && (next > 0 || config_.model_chunks > 1);
      times.send_forward_s.push_back(used ? SendTime(s, next) : 0.0);
      times.send_backward_s.push_back(used ? SendTime(next, s) : 0.0);
    }
  }

  [[nodiscard]] double SendTime(int from, int to) const {
    const GroupLink link = MessageLink(cluster_, StagePairs(grid_, from, to));
    const double overhead_s = config_.model_chunks > 1 && config_.overlap_p2p
                                  ? 0.0  // issued beside compute
                                  : framework_.p2p_overhead_s;
    return MessageTime(link, layers_.boundary_bytes) + overhead_s;
  }

  void AddModule(const LayerCost& layer,
                 double backward_s,
                 StageRecord& record) const {
    SyncModule module;
    module.backward_s = backward_s;
    for (auto it = layer.parameters.rbegin(); it != layer.parameters.rend();
         ++it) {
      module.tensor_bytes.push_back(*it * gpu_.element_bytes());
      record.memory.parameters += *it;
      record.memory.largest_tensor =
          std::max(record.memory.largest_tensor, *it);
    }
    record.memory.largest_module =
        std::max(record.memory.largest_module, layer.ParameterCount());
    record.modules.push_back(std::move(module));
  }

  // The modules of a stage from the last to the first; the time of an action
  // is dealt out to its blocks after head and embedding took theirs.
  void AddModules(int s,
                  const std::vector<StepParts>& backward,
                  StageRecord& record) const {
    for (int v = s + (config_.model_chunks - 1) * config_.pp; v >= 0;
         v -= config_.pp) {
      const StepParts& parts = backward[static_cast<std::size_t>(v)];
      const double head_s = Last(v) ? layers_.head.backward_s : 0.0;
      const double embedding_s = First(v) ? layers_.embedding.backward_s : 0.0;
      const double block_s =
          (parts.Total() - head_s - embedding_s) / std::max(1, Blocks(v));
      if (Last(v)) {
        AddModule(layers_.head, head_s, record);
        AddSharedTable(record);
      }
      for (int i = 0; i < Blocks(v); ++i) {
        AddModule(layers_.block, block_s, record);
      }
      if (First(v)) {
        AddModule(layers_.embedding, embedding_s, record);
      }
    }
  }

  // The last stage's copy of a tied embedding table.
  void AddSharedTable(StageRecord& record) const {
    const double elements = SharedTableElements(workload_, config_);
    if (elements > 0.0) {
      LayerCost table;
      table.parameters = {elements};
      AddModule(table, 0.0, record);
    }
  }

  void AddMemory(int s, StageRecord& record) const {
    StageMemory& memory = record.memory;
    std::vector<double> saved;
    for (int v = s; v < virtual_stages_; v += config_.pp) {
      const double block = config_.grad_checkpoint ? layers_.boundary_bytes
                                                   : layers_.block.saved_bytes;
      // A stage keeps what it sent until the gradient comes back.
      saved.push_back(Blocks(v) * block + Ends(v, &LayerCost::saved_bytes) +
                      (Last(v) ? 0.0 : layers_.boundary_bytes));
    }
    memory.activations_bytes = PeakActivationBytes(shape_, s, saved);
    memory.logits_bytes = s == config_.pp - 1 ? layers_.head.logits_bytes : 0.0;
    memory.working_bytes =
        layers_.block.working_bytes +
        (config_.grad_checkpoint ? layers_.block.saved_bytes : 0.0);
    memory.boundary_bytes = layers_.boundary_bytes;
  }

  // Adam reads and writes fp32 weight and moments; in mixed precision also
  // copies gradient and weight between the two precisions.
  void AddOptimizer(StageRecord& record) const {
    const bool mixed = gpu_.element_bytes() < 4.0;
    for (const SyncModule& module : record.modules) {
      record.tensors += static_cast<int>(module.tensor_bytes.size());
    }
    record.optimizer_s =
        gpu_.MemoryTime((mixed ? 36.0 : 28.0) * record.memory.parameters);
  }

  const Workload& workload_;
  const Cluster& cluster_;
  const Framework& framework_;
  const GpuModel& gpu_;
  const LayerCosts& layers_;
  const ParallelConfig& config_;
  RankGrid grid_;
  PipelineShape shape_;
  int virtual_stages_;
  std::vector<int> blocks_;
  GroupLink tp_link_;
  GroupLink dp_link_;
};

}  // namespace

double MicroBatchSize(const Workload& workload, const ParallelConfig& config) {
  if (config.micro_batch_size > 0) {
    return config.micro_batch_size;
  }
  return static_cast<double>(workload.batch_size) /
         (static_cast<double>(config.dp) * config.microbatches);
}

double SharedTableElements(const Workload& workload,
                           const ParallelConfig& config) {
  const Model& model = workload.model;
  if (!model.tied_embeddings || config.pp == 1 || model.pooler) {
    return 0.0;
  }
  return static_cast<double>(model.vocab_size) * model.hidden_size / config.tp;
}

std::vector<StageRecord> ModelStages(const Workload& workload,
                                     const Cluster& cluster,
                                     const Framework& framework,
                                     const GpuModel& gpu,
                                     const LayerCosts& layers,
                                     const ParallelConfig& config) {
  return Builder(workload, cluster, framework, gpu, layers, config).Build();
}

}  // namespace trials
