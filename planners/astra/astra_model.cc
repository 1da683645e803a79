#include "planners/astra/astra_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace planners {
namespace {

using trials::Model;
using trials::ParallelConfig;

constexpr double kGradientBytes = 4.0;    // of a parameter
constexpr double kOptimizerBytes = 12.0;  // of a parameter: master, moments
constexpr double kForwardShare = 1.0 / 3.0;
constexpr double kBackwardShare = 2.0 / 3.0;

double ElementBytes(const trials::Workload& workload) {
  return workload.precision == trials::Precision::kFp32 ? 4.0 : 2.0;
}

// The first block of a stage; of the stage after the last, the number of
// blocks.
int FirstBlock(int layers, int pp, int stage) {
  return static_cast<int>(static_cast<long long>(layers) * stage / pp);
}

int BlocksOf(const Model& model, const ParallelConfig& config, int stage) {
  return FirstBlock(model.layers, config.pp, stage + 1) -
         FirstBlock(model.layers, config.pp, stage);
}

// The share of the data that a rank sends in an all-gather.
double Others(int ranks) { return (ranks - 1.0) / ranks; }

double KvShare(const Model& model) {
  return static_cast<double>(model.kv_heads) / model.attention_heads;
}

double InnerMatrices(const Model& model) { return model.gated_ffn ? 2.0 : 1.0; }

// Feed-forward layers that each token goes through.
double LayersOfToken(const Model& model) {
  return std::max(1, model.experts_per_token);
}

int DataRanks(const ParallelConfig& config) { return config.dp * config.cp; }

int RecomputedOf(const ParallelConfig& config, const AstraShare& share) {
  return config.grad_checkpoint == trials::kRecomputeFull ||
                 share.extras.group > 1
             ? share.blocks
             : share.recomputed;
}

// Whether a group of ranks that are `stride` apart spans hosts.
bool SpansHosts(int stride, int ranks, int gpus_per_node) {
  return stride * ranks > gpus_per_node;
}

}  // namespace

double PipelineTime(std::span<const double> stages, int microbatches,
                    int chunks) {
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
  const double slowest = *std::ranges::max_element(stages);
  return chunks == 1 ? sum + (microbatches - 1) * slowest
                     : (sum - slowest) / chunks + microbatches * slowest;
}

ProductEfficiency AnalyticEfficiency(double best) {
  return [best](const MatrixProduct& product) {
    constexpr double kHalf = 512.0;
    const double size = std::cbrt(product.m * product.n * product.k);
    return best * size / (size + kHalf);
  };
}

AstraModel::AstraModel(const trials::Workload& workload,
                       const AstraMachine& machine,
                       ProductEfficiency efficiency)
    : workload_(workload),
      machine_(machine),
      efficiency_(std::move(efficiency)) {}

double AstraModel::ProductTime(const MatrixProduct& product,
                               double count) const {
  const double flops = 2.0 * product.m * product.n * product.k;
  return flops <= 0.0
             ? 0.0
             : count * flops / (machine_.flops_per_s * efficiency_(product));
}

double AstraModel::LinkTime(double bytes, bool between_hosts) const {
  if (bytes <= 0.0) {
    return 0.0;
  }
  const double efficiency = machine_.link_efficiency * bytes /
                            (bytes + machine_.half_efficient_bytes);
  return bytes /
         (efficiency * (between_hosts ? machine_.inter_node_bytes_per_s
                                      : machine_.intra_node_bytes_per_s));
}

double AstraModel::Tokens(const ParallelConfig& config) const {
  const double sequences = config.micro_batch_size > 0
                               ? config.micro_batch_size
                               : static_cast<double>(workload_.batch_size) /
                                     (config.dp * config.microbatches);
  return sequences * workload_.sequence_length / config.cp;
}

AstraBlock AstraModel::BlockOf(const ParallelConfig& config) const {
  const Model& model = workload_.model;
  const double n = Tokens(config);
  const double t = config.tp;
  const double h = model.hidden_size;
  const double heads_h =
      static_cast<double>(model.attention_heads) * model.head_size;
  const double s = workload_.sequence_length;
  const double routed = n * LayersOfToken(model);
  AstraBlock block;
  // All heads of all sequences: as many products of [s, head] x [head, s].
  const double products = n / s * model.attention_heads / t;
  const double causal = machine_.flash_attention && model.causal ? 0.5 : 1.0;
  block.core_s = ProductTime({s, s, static_cast<double>(model.head_size)},
                             2.0 * causal * products);
  block.forward_s =
      block.core_s +
      ProductTime({n, (1.0 + 2.0 * KvShare(model)) * heads_h / t, h}) +
      ProductTime({n, h, heads_h / t}) +
      ProductTime({routed, InnerMatrices(model) * model.ffn_size / t, h}) +
      ProductTime({routed, h, model.ffn_size / t}) +
      ProductTime({n, InnerMatrices(model) * model.shared_ffn_size / t, h}) +
      ProductTime({n, h, model.shared_ffn_size / t});
  const double bytes = ElementBytes(workload_) * n * h;
  const bool wide = SpansHosts(1, config.tp, machine_.gpus_per_node);
  block.collective_s = 2.0 * LinkTime(2.0 * Others(config.tp) * bytes, wide);
  block.experts_s =
      2.0 * LinkTime(Others(config.ep) * bytes * LayersOfToken(model),
                     SpansHosts(config.tp, config.ep, machine_.gpus_per_node));
  return block;
}

double AstraModel::ParametersOf(const ParallelConfig& config,
                                const AstraShare& share) const {
  const Model& model = workload_.model;
  const auto experts =
      static_cast<double>(ExpertParameters(model)) * model.experts;
  const double block = static_cast<double>(BlockParameters(model)) - experts +
                       experts / config.ep;
  double parameters = block * share.blocks;
  const auto embedding = static_cast<double>(EmbeddingParameters(model));
  const auto head = static_cast<double>(HeadParameters(model));
  if (share.stage == 0) {
    parameters += embedding;
  }
  if (share.stage == config.pp - 1) {
    // The last stage has a copy of a tied matrix.
    parameters +=
        model.tied_embeddings && share.stage > 0
            ? static_cast<double>(model.vocab_size) * model.hidden_size
            : head;
  }
  return parameters / config.tp;
}

double AstraModel::MemoryOf(const ParallelConfig& config,
                            const AstraShare& own) const {
  const Model& model = workload_.model;
  const auto share = [&](int zero_stage) {
    return config.zero_stage >= zero_stage ? 1.0 / DataRanks(config) : 1.0;
  };
  const double element = ElementBytes(workload_);
  const double optimizer_bytes =
      own.extras.offload_optimizer ? 0.0 : kOptimizerBytes;
  const double states = ParametersOf(config, own) *
                        (element * share(3) + kGradientBytes * share(2) +
                         optimizer_bytes * share(1));
  const double n = Tokens(config);
  const double h = model.hidden_size;
  const double t = config.tp;
  // Inputs of norms, attention and feed-forward layer, and dropout masks.
  const double whole = n * h * (4.0 * element + (model.dropout ? 2.0 : 0.0));
  const double inner =
      LayersOfToken(model) * (InnerMatrices(model) + 1.0) * model.ffn_size +
      (InnerMatrices(model) + 1.0) * model.shared_ffn_size;
  const bool keeps_scores =
      !machine_.flash_attention &&
      config.grad_checkpoint != trials::kRecomputeSelective;
  const double split =
      n * element * (2.0 * (1.0 + KvShare(model)) * h + inner) / t +
      (keeps_scores ? n * workload_.sequence_length * model.attention_heads *
                          (2.0 * element + 1.0) / t
                    : 0.0);
  const double block = whole / config.sp + split;
  const double input = n * h * element / config.sp;
  const int recomputed = RecomputedOf(config, own);
  // Groups of recomputed blocks, of which only the inputs are kept.
  const int inputs = (recomputed + own.extras.group - 1) / own.extras.group;
  double in_flight = config.pp - own.stage;
  if (config.model_chunks > 1) {
    in_flight += (config.pp - 1.0) / config.model_chunks;
  }
  in_flight = std::min<double>(in_flight, config.microbatches);
  const double activations = in_flight * inputs * input +
                             in_flight * (own.blocks - recomputed) * block +
                             std::min(recomputed, own.extras.group) * block;
  // In half precision and fp32.
  const double logits = own.stage == config.pp - 1
                            ? n * model.vocab_size / t * (element + 4.0)
                            : 0.0;
  return states + activations + logits;
}

double AstraModel::ReductionTime(const ParallelConfig& config,
                                 double parameters, double compute_s) const {
  const int ranks = DataRanks(config);
  const int stride = machine_.rank_order == trials::RankOrder::kDataOutermost
                         ? config.tp * config.pp
                         : config.tp;
  const bool wide = SpansHosts(stride, ranks, machine_.gpus_per_node);
  const double others = Others(ranks) * parameters;
  const bool sharded = config.zero_stage >= 1;
  const double reduce_s =
      LinkTime((sharded ? 1.0 : 2.0) * kGradientBytes * others, wide);
  const double gather_s =
      sharded ? LinkTime(ElementBytes(workload_) * others, wide) : 0.0;
  const double gathers =
      config.zero_stage >= 3 ? 2.0 * config.microbatches - 1.0 : 0.0;
  return std::max(0.0, reduce_s - kBackwardShare * compute_s) +
         std::max(0.0, gather_s - kForwardShare * compute_s) +
         gathers * std::max(0.0, gather_s - kForwardShare * compute_s);
}

double AstraModel::OffloadTime(const ParallelConfig& config,
                               const AstraShare& share,
                               double compute_s) const {
  if (!share.extras.offload_optimizer) {
    return 0.0;
  }
  const double elements = ParametersOf(config, share) /
                          (config.zero_stage >= 1 ? DataRanks(config) : 1);
  const double out_s = kGradientBytes * elements / machine_.host_bytes_per_s;
  const double back_s =
      ElementBytes(workload_) * elements / machine_.host_bytes_per_s;
  const bool overlap = share.extras.overlap_offload;
  return elements / machine_.host_elements_per_s +
         std::max(0.0, out_s - (overlap ? kBackwardShare * compute_s : 0.0)) +
         std::max(0.0, back_s - (overlap ? kForwardShare * compute_s : 0.0));
}

double AstraModel::TransferTime(const ParallelConfig& config,
                                bool between_hosts) const {
  return config.model_chunks *
         LinkTime(ElementBytes(workload_) * Tokens(config) *
                      workload_.model.hidden_size / config.sp,
                  between_hosts);
}

AstraStage AstraModel::StageOf(const ParallelConfig& config,
                               const AstraBlock& block,
                               const AstraShare& share) const {
  const Model& model = workload_.model;
  const int recomputed = RecomputedOf(config, share);
  const double part =
      share.blocks > 0 ? static_cast<double>(recomputed) / share.blocks : 0.0;
  const double core_s = config.grad_checkpoint == trials::kRecomputeSelective
                            ? block.core_s
                            : 0.0;
  const double recomputed_s = part * block.forward_s + (1.0 - part) * core_s;
  AstraStage stage;
  stage.compute_s = share.blocks * (3.0 * block.forward_s + recomputed_s);
  if (share.stage == config.pp - 1) {
    stage.compute_s +=
        3.0 * ProductTime({Tokens(config),
                           static_cast<double>(model.vocab_size) / config.tp,
                           static_cast<double>(model.hidden_size)});
  }
  stage.communicate_s =
      share.blocks * (2.0 + part) * (block.collective_s + block.experts_s);
  stage.memory_bytes = MemoryOf(config, share);
  stage.reduction_s =
      ReductionTime(config, ParametersOf(config, share), stage.compute_s);
  stage.offload_s = OffloadTime(config, share, stage.compute_s);
  return stage;
}

AstraCost AstraModel::Cost(const ParallelConfig& config) const {
  const AstraBlock block = BlockOf(config);
  const int stride = machine_.rank_order == trials::RankOrder::kDataOutermost
                         ? config.tp
                         : config.tp * DataRanks(config);
  // One transfer to the stage behind a boundary or from it.
  const auto transfer_s = [&](int boundary) {
    return TransferTime(config,
                        boundary * stride % machine_.gpus_per_node == 0 ||
                            stride > machine_.gpus_per_node);
  };
  AstraCost cost;
  std::vector<double> stage_s;
  for (int i = 0; i < config.pp; ++i) {
    AstraStage stage =
        StageOf(config, block,
                {.stage = i, .blocks = BlocksOf(workload_.model, config, i)});
    stage.transfer_s = (i + 1 < config.pp ? transfer_s(i + 1) : 0.0) +
                       (i > 0 ? transfer_s(i) : 0.0);
    cost.reduction_s = std::max(cost.reduction_s, stage.reduction_s);
    cost.peak_memory_bytes =
        std::max(cost.peak_memory_bytes, stage.memory_bytes);
    stage_s.push_back(stage.compute_s + stage.communicate_s + stage.transfer_s);
    cost.stages.push_back(stage);
  }
  cost.step_time_s =
      PipelineTime(stage_s, config.microbatches, config.model_chunks) +
      cost.reduction_s;
  return cost;
}

}  // namespace planners
