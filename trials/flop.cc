#include "trials/flop.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trials/model.h"

namespace trials {
namespace {

// TF32 over half precision on tensor cores (NVIDIA A100 and H100 datasheets):
// a program may compute fp32 so.
constexpr double kTf32 = 0.5;

constexpr double kLeastWeight = 0.5;  // bytes; of four bits

// What a driver counts beside the memory that a program can have.
constexpr double kDriverMemory = 1.05;

// Parameters that a token uses and backward computes no gradient of.
double FrozenParameters(const Workload& workload) {
  const Training& training = workload.training;
  const Model& model = workload.model;
  const auto count = [](const Model& of) {
    return static_cast<double>(ActiveParameterCount(of));
  };
  Model without = model;  // feed-forward layers
  without.ffn_size = without.shared_ffn_size = without.dense_ffn_size = 0;
  without.experts = without.experts_per_token = without.dense_layers = 0;
  const double ffn = count(model) - count(without);
  const double head = static_cast<double>(model.vocab_size) * model.hidden_size;
  const double ends = static_cast<double>(EmbeddingParameters(model));
  const double attention =
      count(model) - ffn - ends - (model.tied_embeddings ? 0.0 : head);
  const auto frozen = [&](Weights weights, double parameters) {
    return training.Of(weights) == Trained::kWeights ? 0.0 : parameters;
  };
  return frozen(Weights::kFeedForward, ffn) +
         frozen(Weights::kAttention, attention) +
         frozen(Weights::kEmbeddings, head);
}

// `causal_share`: of the attention of causal models.
double FlopPerToken(const Workload& workload, double causal_share) {
  const auto attention = [causal_share](const Model& of) {
    return 12.0 * AttentionWidth(of) * (of.causal ? causal_share : 1.0);
  };
  const Model& model = workload.model;
  double used = static_cast<double>(ActiveParameterCount(model));
  if (!model.tied_embeddings) {  // a tied table is also the vocabulary head
    used -= static_cast<double>(EmbeddingParameters(model));
  }
  const int packed = workload.training.packed_tokens;
  const double tokens = packed > 0 ? std::min(packed, workload.sequence_length)
                                   : workload.sequence_length;
  double flop = 0.0;  // of towers, whose tokens are others
  for (const Model& tower : model.towers) {
    const auto own = static_cast<double>(ParameterCount(tower));
    const double seen = tower.tokens > 0 ? tower.tokens : tokens;
    used -= own;
    flop += (6.0 * own + attention(tower) * seen) * seen / tokens;
  }
  const double window = std::min<double>(tokens, model.window);
  const double seen =
      tokens + model.windowed_share * (window - tokens);  // mean over blocks
  return flop + 6.0 * used - 2.0 * FrozenParameters(workload) +
         attention(model) * seen + 12.0 * StateElements(model);
}

double Peak(const Gpu& gpu, Precision precision) {
  return precision == Precision::kFp32 ? gpu.single_flop_per_s
         : precision == Precision::kFp8 && gpu.fp8_flop_per_s > 0.0
             ? gpu.fp8_flop_per_s
             : gpu.half_flop_per_s;
}

}  // namespace

double TokensPerSecondPerGpu(const Workload& workload, const Cluster& cluster,
                             double step_time_s) {
  return static_cast<double>(workload.batch_size) * workload.sequence_length /
         (step_time_s * cluster.gpus());
}

double FlopPerToken(const Workload& workload) {
  return FlopPerToken(workload, 1.0);
}

double LeastFlopPerToken(const Workload& workload) {
  constexpr double kCausal = 0.5;
  return FlopPerToken(workload, kCausal);
}

double ModelFlopUtilization(const Workload& workload, const Cluster& cluster,
                            double step_time_s) {
  return FlopPerToken(workload) *
         TokensPerSecondPerGpu(workload, cluster, step_time_s) /
         Peak(cluster.gpu, workload.precision);
}

double LeastFlopUtilization(const Workload& workload, const Cluster& cluster,
                            double step_time_s) {
  const Gpu& gpu = cluster.gpu;
  const double peak = std::max(Peak(gpu, workload.precision),
                               workload.precision == Precision::kFp32
                                   ? kTf32 * gpu.half_flop_per_s
                                   : 0.0);
  return LeastFlopPerToken(workload) *
         TokensPerSecondPerGpu(workload, cluster, step_time_s) / peak;
}

MeasurementLimits LimitsOf(const Workload& workload, const Cluster& cluster) {
  MeasurementLimits limits;
  const double least_s = LeastFlopUtilization(workload, cluster, 1.0);
  if (least_s > limits.least_step_s && std::isfinite(least_s)) {
    limits.least_step_s = least_s;
    limits.work = fmt::format("the model at the peak rate of {} {}",
                              cluster.gpus(), cluster.gpu.name);
  }
  if (cluster.gpu.memory_bytes > 0.0) {
    limits.most_memory_bytes = kDriverMemory * cluster.gpu.memory_bytes;
    if (!workload.training.Offloads(Offloaded::kParameters)) {
      limits.least_memory_bytes =
          kLeastWeight * static_cast<double>(ParameterCount(workload.model)) /
          cluster.gpus();
    }
  }
  return limits;
}

}  // namespace trials
