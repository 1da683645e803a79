#include "trials/simulator/stage_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "trials/simulator/collectives.h"
#include "trials/simulator/sharding.h"

namespace trials {
namespace {

void AddScaled(StepParts& sum, const StepParts& parts, double times) {
  sum.forward_s += times * parts.forward_s;
  sum.backward_s += times * parts.backward_s;
  sum.recompute_s += times * parts.recompute_s;
  sum.head_s += times * parts.head_s;
  sum.tensor_s += times * parts.tensor_s;
  sum.context_s += times * parts.context_s;
  sum.expert_s += times * parts.expert_s;
  sum.data_s += times * parts.data_s;
  sum.overhead_s += times * parts.overhead_s;
}

// A virtual stage: a chunk of layers of one stage, and what is done with them.
struct Chunk {
  int stage = 0;
  int blocks = 0;
  int recomputed = 0;      // of them, wholly
  bool selective = false;  // the others' attention is recomputed
  bool first = false;      // holds the embedding
  bool last = false;       // holds the head
};

// Builds the records of one plan.
class Builder {
 public:
  explicit Builder(const StageInputs& in)
      : in_(in),
        shared_(in.plan.shared),
        framework_(in.framework),
        shape_{shared_.pp, shared_.microbatches, shared_.model_chunks},
        virtual_stages_(shared_.pp * shared_.model_chunks) {
    std::vector<int> left;  // layers to recompute, by stage
    for (const PlanStage& stage : in.plan.stages) {
      left.push_back(stage.recomputed_layers);
    }
    for (int v = 0; v < virtual_stages_; ++v) {
      Chunk chunk;
      chunk.stage = v % shared_.pp;
      chunk.blocks = in.plan.layers[static_cast<std::size_t>(v)];
      int& rest = left[static_cast<std::size_t>(chunk.stage)];
      chunk.recomputed = std::min(rest, chunk.blocks);
      rest -= chunk.recomputed;
      chunk.selective = shared_.grad_checkpoint == kRecomputeSelective;
      chunk.first = v == 0;
      chunk.last = v == virtual_stages_ - 1;
      chunks_.push_back(chunk);
    }
  }

  std::vector<StageRecord> Build() {
    std::vector<StepParts> forward;
    std::vector<StepParts> backward;
    PipelineTimes times;
    for (const Chunk& chunk : chunks_) {
      forward.push_back(Forward(chunk));
      backward.push_back(Backward(chunk));
      times.forward_s.push_back(forward.back().Total());
      times.backward_s.push_back(backward.back().Total());
    }
    AddTransfers(times);
    times.overlap = shared_.model_chunks > 1 && shared_.overlap_p2p;
    const std::vector<StageTimeline> timelines = RunPipeline(shape_, times);

    std::vector<StageRecord> records;
    for (int s = 0; s < shared_.pp; ++s) {
      StageRecord& record = records.emplace_back();
      record.timeline = timelines[static_cast<std::size_t>(s)];
      for (int v = s; v < virtual_stages_; v += shared_.pp) {
        const auto i = static_cast<std::size_t>(v);
        AddScaled(record.parts, forward[i], shared_.microbatches);
        AddScaled(record.parts, backward[i], shared_.microbatches);
      }
      record.parts.pipeline_s = record.timeline.transfer_s;
      record.parts.bubble_s = record.timeline.bubble_s;
      record.first_forward_s = times.forward_s[static_cast<std::size_t>(s)];
      AddModules(s, backward, record);
      AddMemory(s, record);
      AddOptimizer(s, record);
    }
    return records;
  }

 private:
  [[nodiscard]] const LayerCosts& Layers(const Chunk& chunk) const {
    return *in_.layers[static_cast<std::size_t>(chunk.stage)];
  }
  [[nodiscard]] const GpuModel& GpuOf(int stage) const {
    return *in_.gpus[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] const StageLinks& Links(int stage) const {
    return in_.links.stages[static_cast<std::size_t>(stage)];
  }

  // Sum of a field over the modules of a virtual stage.
  template <typename Field>
  [[nodiscard]] double Sum(const Chunk& chunk, Field LayerCost::*field) const {
    return static_cast<double>(chunk.blocks) * (Layers(chunk).block.*field) +
           Ends(chunk, field);
  }
  template <typename Field>
  [[nodiscard]] double Ends(const Chunk& chunk, Field LayerCost::*field) const {
    const LayerCosts& layers = Layers(chunk);
    return (chunk.first ? static_cast<double>(layers.embedding.*field) : 0.0) +
           (chunk.last ? static_cast<double>(layers.head.*field) : 0.0);
  }

  // All-reduces and, under sequence parallelism, their halves. What is gathered
  // again travels behind a product of matrices and slows it down.
  [[nodiscard]] double TensorTime(const Chunk& chunk,
                                  double messages,
                                  double halves,
                                  double regathers) const {
    const GroupLink& link = Links(chunk.stage).tp;
    const double bytes = Layers(chunk).block.message_bytes;
    return messages * AllReduceTime(link, bytes) +
           (halves + framework_.overlap_slowdown * regathers) *
               AllGatherTime(link, bytes);
  }

  // CPU time to issue tensor-parallel collectives.
  [[nodiscard]] double IssueTime(const Chunk& chunk, double collectives) const {
    const StageLinks& links = Links(chunk.stage);
    const double one_s = framework_.message_dispatch_s +
                         framework_.message_host_dispatch_s *
                             static_cast<double>(links.tp.hosts - 1);
    const bool crossing = std::any_of(
        in_.links.forward.begin(), in_.links.forward.end(), [](const auto& l) {
          return l.hosts > 1;
        });
    const double slowed =
        shared_.pp > 1 && crossing && framework_.network_contention > 0.0
            ? std::max(1.0,
                       framework_.network_contention *
                           std::sqrt(static_cast<double>(links.tp.size)))
            : 1.0;
    return collectives * one_s * slowed;
  }

  // Keys and values go around the context-parallel ring while the part that
  // has arrived is worked on.
  [[nodiscard]] double ContextTime(const Chunk& chunk,
                                   double core_s,
                                   double bytes) const {
    if (shared_.cp == 1) {
      return 0.0;
    }
    const double step_s = MessageTime(Links(chunk.stage).cp, bytes);
    const double behind_s = std::min(step_s, core_s / shared_.cp);
    return (shared_.cp - 1) *
           (step_s - behind_s + framework_.overlap_slowdown * behind_s);
  }

  [[nodiscard]] double ExpertTime(const Chunk& chunk, double blocks) const {
    const LayerCost& block = Layers(chunk).block;
    return blocks * block.all_to_alls *
           AllToAllTime(Links(chunk.stage).ep, block.all_to_all_bytes);
  }

  [[nodiscard]] ShardedChunk Sharded(const Chunk& chunk) const {
    const LayerCosts& layers = Layers(chunk);
    return {chunk.blocks,
            layers.block.ParameterCount(),
            (chunk.first ? layers.embedding.ParameterCount() : 0.0) +
                (chunk.last ? layers.head.ParameterCount() : 0.0),
            GpuOf(chunk.stage).element_bytes()};
  }

  [[nodiscard]] StepParts Forward(const Chunk& chunk) const {
    const LayerCost& block = Layers(chunk).block;
    StepParts parts;
    parts.forward_s = chunk.blocks * block.forward_s;
    parts.head_s = Ends(chunk, &LayerCost::forward_s);
    parts.tensor_s = TensorTime(chunk,
                                Sum(chunk, &LayerCost::forward_messages),
                                Sum(chunk, &LayerCost::forward_halves),
                                0.0);
    parts.context_s =
        chunk.blocks *
        ContextTime(chunk, block.core_forward_s, block.ring_bytes);
    parts.expert_s = ExpertTime(chunk, chunk.blocks);
    AddOverhead(chunk,
                DispatchTime(chunk, &LayerCost::forward_dispatch_s) +
                    IssueTime(chunk,
                              Sum(chunk, &LayerCost::forward_messages) +
                                  Sum(chunk, &LayerCost::forward_halves)),
                parts);
    parts.overhead_s += framework_.microbatch_overhead_s;
    parts.overhead_s += chunk.last ? framework_.loss_overhead_s : 0.0;
    parts.data_s = GatherParametersTime(Sharded(chunk),
                                        Links(chunk.stage).shards,
                                        shared_,
                                        framework_,
                                        parts.forward_s + parts.head_s);
    return parts;
  }

  [[nodiscard]] StepParts Backward(const Chunk& chunk) const {
    const LayerCost& block = Layers(chunk).block;
    const bool accumulate =
        shared_.microbatches > 1 || framework_.fp32_gradients;
    const double blocks = chunk.blocks;
    const double recomputed = chunk.recomputed;
    const double partly = chunk.selective ? blocks - recomputed : 0.0;
    StepParts parts;
    parts.backward_s =
        blocks * (block.backward_s + (accumulate ? block.accumulate_s : 0.0));
    parts.head_s = Ends(chunk, &LayerCost::backward_s) +
                   (accumulate ? Ends(chunk, &LayerCost::accumulate_s) : 0.0);
    parts.recompute_s =
        recomputed * block.forward_s + partly * block.core_forward_s;
    parts.tensor_s = TensorTime(chunk,
                                Sum(chunk, &LayerCost::backward_messages) +
                                    recomputed * block.forward_messages,
                                Sum(chunk, &LayerCost::backward_halves) +
                                    recomputed * block.forward_halves,
                                Sum(chunk, &LayerCost::backward_regathers));
    // Keys and values travel once more, with the gradients of both.
    parts.context_s =
        blocks *
            ContextTime(chunk, block.core_backward_s, 2 * block.ring_bytes) +
        (recomputed + partly) *
            ContextTime(chunk, block.core_forward_s, block.ring_bytes);
    parts.expert_s = ExpertTime(chunk, blocks + recomputed);
    AddOverhead(chunk,
                DispatchTime(chunk, &LayerCost::backward_dispatch_s) +
                    recomputed * block.forward_dispatch_s +
                    partly * block.core_dispatch_s +
                    IssueTime(chunk,
                              Sum(chunk, &LayerCost::backward_messages) +
                                  Sum(chunk, &LayerCost::backward_halves) +
                                  Sum(chunk, &LayerCost::backward_regathers) +
                                  recomputed * (block.forward_messages +
                                                block.forward_halves)),
                parts);
    parts.data_s = GatherAndScatterTime(
        Sharded(chunk),
        Links(chunk.stage).shards,
        shared_,
        framework_,
        parts.backward_s + parts.head_s + parts.recompute_s);
    return parts;
  }

  // Nothing that comes before the loss is still running after it.
  [[nodiscard]] bool WaitsAtLoss(const Chunk& chunk) const {
    return chunk.last && framework_.loss_overhead_s > 0.0;
  }

  // CPU time to issue the kernels that can run while others are issued.
  [[nodiscard]] double DispatchTime(const Chunk& chunk,
                                    double LayerCost::*dispatch_s) const {
    return WaitsAtLoss(chunk) ? chunk.blocks * (Layers(chunk).block.*dispatch_s)
                              : Sum(chunk, dispatch_s);
  }

  // Kernels are issued while earlier ones run; what the CPU needs beyond the
  // GPU's time is exposed.
  void AddOverhead(const Chunk& chunk,
                   double dispatch_s,
                   StepParts& parts) const {
    const double gpu_s =
        parts.Total() - (WaitsAtLoss(chunk) ? parts.head_s : 0.0);
    const double n = framework_.dispatch_norm;
    if (n > 0.0 && gpu_s > 0.0 && dispatch_s > 0.0) {
      const double both_s =
          gpu_s * std::pow(1.0 + std::pow(dispatch_s / gpu_s, n), 1.0 / n);
      parts.overhead_s += both_s - gpu_s;
    } else {
      parts.overhead_s += std::max(0.0, dispatch_s - gpu_s);
    }
  }

  void AddTransfers(PipelineTimes& times) const {
    for (int s = 0; s < shared_.pp; ++s) {
      const int next = (s + 1) % shared_.pp;
      const bool used =
          shared_.pp > 1 && (next > 0 || shared_.model_chunks > 1);
      times.send_forward_s.push_back(used ? SendTime(s, next, true) : 0.0);
      times.send_backward_s.push_back(used ? SendTime(s, next, false) : 0.0);
    }
  }

  // Hidden states from stage s to the next one, or their gradients back.
  [[nodiscard]] double SendTime(int s, int next, bool forward) const {
    const double overhead_s = shared_.model_chunks > 1 && shared_.overlap_p2p
                                  ? 0.0  // issued beside compute
                                  : framework_.p2p_overhead_s;
    const auto i = static_cast<std::size_t>(s);
    const double rank_bytes = in_.layers[i]->boundary_bytes;
    const PlanLinks& links = in_.links;
    if (!Resharded(in_.plan, s, next)) {
      const GroupLink& link = forward ? links.forward[i] : links.backward[i];
      return MessageTime(link, rank_bytes) + overhead_s;
    }
    const PlanStage& stage = in_.plan.stages[i];
    const double bytes =
        rank_bytes * stage.dp * (StageConfig(in_.plan, s).sp ? stage.tp : 1);
    const Resharding& moved =
        forward ? links.forward_resharding[i] : links.backward_resharding[i];
    return moved.latency_s + moved.seconds_per_byte * bytes + overhead_s;
  }

  void AddTensor(int stage,
                 double elements,
                 SyncModule& module,
                 StageRecord& record) const {
    const double bytes = framework_.GradientBytes(GpuOf(stage).element_bytes());
    module.tensor_bytes.push_back(elements * bytes);
    record.memory.largest_tensor =
        std::max(record.memory.largest_tensor, elements);
  }

  void AddModule(int stage,
                 const LayerCost& layer,
                 double backward_s,
                 StageRecord& record,
                 int count = 1) const {
    SyncModule module;
    module.backward_s = backward_s;
    module.count = count;
    SyncModule experts = module;
    const bool apart = shared_.ep > 1;
    for (auto it = layer.expert_parameters.rbegin();
         it != layer.expert_parameters.rend();
         ++it) {
      AddTensor(stage, *it, apart ? experts : module, record);
      (apart ? record.memory.expert_parameters : record.memory.parameters) +=
          count * *it;
    }
    for (auto it = layer.parameters.rbegin(); it != layer.parameters.rend();
         ++it) {
      AddTensor(stage, *it, module, record);
      record.memory.parameters += count * *it;
    }
    record.memory.largest_module =
        std::max(record.memory.largest_module, layer.ParameterCount());
    record.modules.push_back(std::move(module));
    if (!experts.tensor_bytes.empty()) {
      record.expert_modules.push_back(std::move(experts));
    }
  }

  // The modules of a stage from the last to the first; the time of an action
  // is dealt out to its blocks after head and embedding took theirs.
  void AddModules(int s,
                  const std::vector<StepParts>& backward,
                  StageRecord& record) const {
    for (int v = s + (shared_.model_chunks - 1) * shared_.pp; v >= 0;
         v -= shared_.pp) {
      const Chunk& chunk = chunks_[static_cast<std::size_t>(v)];
      const LayerCosts& layers = Layers(chunk);
      const StepParts& parts = backward[static_cast<std::size_t>(v)];
      const double head_s = chunk.last ? layers.head.backward_s : 0.0;
      const double embedding_s =
          chunk.first ? layers.embedding.backward_s : 0.0;
      const double block_s =
          (parts.Total() - head_s - embedding_s) / std::max(1, chunk.blocks);
      if (chunk.last) {
        AddModule(s, layers.head, head_s, record);
        AddSharedTable(s, record);
      }
      if (chunk.blocks > 0) {
        AddModule(s, layers.block, block_s, record, chunk.blocks);
      }
      if (chunk.first) {
        AddModule(s, layers.embedding, embedding_s, record);
      }
    }
  }

  // The last stage's copy of a tied embedding table.
  void AddSharedTable(int s, StageRecord& record) const {
    const PlanStage& stage = in_.plan.stages[static_cast<std::size_t>(s)];
    const double elements =
        SharedTableElements(in_.workload, shared_.pp, stage.tp);
    if (elements > 0.0) {
      LayerCost table;
      table.parameters = {elements};
      AddModule(s, table, 0.0, record);
    }
  }

  // What a chunk keeps of one microbatch.
  [[nodiscard]] double SavedBytes(const Chunk& chunk) const {
    const LayerCosts& layers = Layers(chunk);
    const double kept = layers.block.saved_bytes -
                        (chunk.selective ? layers.block.core_saved_bytes : 0.0);
    return chunk.recomputed * layers.boundary_bytes +
           (chunk.blocks - chunk.recomputed) * kept +
           Ends(chunk, &LayerCost::saved_bytes) +
           (chunk.last || !framework_.keep_outputs ? 0.0
                                                   : layers.boundary_bytes);
  }

  void AddMemory(int s, StageRecord& record) const {
    StageMemory& memory = record.memory;
    const LayerCosts& layers = *in_.layers[static_cast<std::size_t>(s)];
    std::vector<double> saved;
    double recomputed_bytes = 0.0;
    for (int v = s; v < virtual_stages_; v += shared_.pp) {
      const Chunk& chunk = chunks_[static_cast<std::size_t>(v)];
      saved.push_back(SavedBytes(chunk));
      if (chunk.recomputed > 0) {
        recomputed_bytes = layers.block.saved_bytes;
      } else if (chunk.selective) {
        recomputed_bytes =
            std::max(recomputed_bytes, layers.block.core_saved_bytes);
      }
    }
    memory.activations_bytes = PeakActivationBytes(shape_, s, saved);
    memory.logits_bytes = s == shared_.pp - 1 ? layers.head.logits_bytes : 0.0;
    memory.working_bytes = layers.block.working_bytes + recomputed_bytes;
    memory.boundary_bytes = layers.boundary_bytes;
    memory.message_bytes = layers.block.message_bytes;
    memory.shard_ranks = Links(s).shards.within.size;
  }

  // Adam reads and writes fp32 weight and moments; in mixed precision also
  // copies gradient and weight between the two precisions.
  void AddOptimizer(int s, StageRecord& record) const {
    const GpuModel& gpu = GpuOf(s);
    const bool mixed = gpu.element_bytes() < 4.0;
    for (const auto* modules : {&record.modules, &record.expert_modules}) {
      for (const SyncModule& module : *modules) {
        record.tensors +=
            module.count * static_cast<int>(module.tensor_bytes.size());
      }
    }
    const double bytes = mixed ? framework_.optimizer_bytes : 28.0;
    record.optimizer_s = gpu.MemoryTime(bytes * record.memory.parameters);
    record.expert_optimizer_s =
        record.expert_modules.empty()
            ? 0.0
            : gpu.MemoryTime(bytes * record.memory.expert_parameters);
  }

  const StageInputs& in_;
  const ParallelConfig& shared_;
  const Framework& framework_;
  PipelineShape shape_;
  int virtual_stages_;
  std::vector<Chunk> chunks_;
};

}  // namespace

double MicroBatchSize(const Workload& workload, const ParallelConfig& config) {
  if (config.micro_batch_size > 0) {
    return config.micro_batch_size;
  }
  return static_cast<double>(workload.batch_size) /
         (static_cast<double>(config.dp) * config.microbatches);
}

double SharedTableElements(const Workload& workload, int stages, int tp) {
  const Model& model = workload.model;
  if (!model.tied_embeddings || stages == 1 || model.pooler) {
    return 0.0;
  }
  return static_cast<double>(model.vocab_size) * model.hidden_size / tp;
}

std::vector<StageRecord> ModelStages(const StageInputs& inputs) {
  return Builder(inputs).Build();
}

}  // namespace trials
