#include "planners/textbook/textbook_model.h"

#include <algorithm>
#include <cmath>

namespace planners {
namespace {

using trials::ParallelConfig;

constexpr double kBytes = 2.0;         // of a parameter or activation
constexpr double kMomentBytes = 12.0;  // of a parameter, with its master copy
constexpr double kLayerBytes = 34.0;   // of a layer's activations, per token

constexpr double kBestEfficiency = 0.5;
constexpr double kEfficientTokens = 2048.0;  // of a microbatch
constexpr double kHidden = 0.8;  // of the computation hides the reduction
constexpr int kAllReducesOfLayer = 2;
constexpr int kRecomputedLayers = 2;  // one is kept, one is recomputed

double OthersShare(int ranks) { return (ranks - 1.0) / ranks; }

// The largest power of two that is at most `most` and divides `number`.
int PowerOfTwoIn(int number, int most) {
  int power = 1;
  while (power * 2 <= most && number % (power * 2) == 0) {
    power *= 2;
  }
  return power;
}

}  // namespace

double TextbookModel::Sequences(const ParallelConfig& config) const {
  return config.micro_batch_size > 0
             ? config.micro_batch_size
             : static_cast<double>(workload_.batch_size) /
                   (config.dp * config.microbatches);
}

double TextbookModel::ParametersPerGpu(const ParallelConfig& config) const {
  return static_cast<double>(ParameterCount(workload_.model)) /
         (config.tp * config.pp);
}

TextbookStep TextbookModel::Step(const ParallelConfig& config) const {
  const double tokens = Sequences(config) * workload_.sequence_length;
  const double efficiency =
      kBestEfficiency * std::min(1.0, std::sqrt(tokens / kEfficientTokens));
  const double bytes = kBytes * tokens * workload_.model.hidden_size;
  const int m = config.microbatches;
  TextbookStep step;
  step.compute_s = 6.0 * ParametersPerGpu(config) * tokens * m /
                   (machine_.flops_per_s * efficiency);
  if (config.tp > 1) {
    step.tensor_s = m * kAllReducesOfLayer *
                    (static_cast<double>(workload_.model.layers) / config.pp) *
                    2.0 * bytes / config.tp / machine_.intra_node_bytes_per_s;
  }
  const double link = config.dp * config.tp <= machine_.gpus_per_node
                          ? machine_.intra_node_bytes_per_s
                          : machine_.inter_node_bytes_per_s;
  const double reduction =
      2.0 * OthersShare(config.dp) * kBytes * ParametersPerGpu(config) / link;
  step.data_s = std::max(0.0, reduction - kHidden * step.compute_s);
  step.bubble_s =
      step.compute_s * (config.pp - 1.0) / (m * config.model_chunks);
  return step;
}

TextbookMemory TextbookModel::Memory(const ParallelConfig& config) const {
  const double parameters = ParametersPerGpu(config);
  const auto share = [&](int stage) {
    return config.zero_stage >= stage ? 1.0 / config.dp : 1.0;
  };
  const double layers = static_cast<double>(workload_.model.layers) / config.pp;
  const double layer = kLayerBytes * Sequences(config) *
                       workload_.sequence_length * workload_.model.hidden_size /
                       config.tp;
  return {
      .parameters = kBytes * parameters * share(3),
      .gradients = kBytes * parameters * share(2),
      .optimizer = kMomentBytes * parameters * share(1),
      .activations = layer * (config.grad_checkpoint == trials::kRecomputeFull
                                  ? std::min<double>(kRecomputedLayers, layers)
                                  : layers)};
}

double TextbookModel::CommunicationShare(const ParallelConfig& config) const {
  const TextbookStep step = Step(config);
  return step.Communication() / (step.compute_s + step.Communication());
}

ParallelConfig TextbookModel::Advise(int gpus) const {
  constexpr double kStateBytes = 16.0;  // of a parameter, all states
  constexpr int kDeep = 64;             // layers
  constexpr int kMedium = 32;
  constexpr int kStages = 4;
  constexpr int kMostStages = 8;
  constexpr double kStatesShare = 0.8;
  constexpr double kInputsShare = 0.2;
  constexpr int kMostSequences = 32;
  constexpr double kLargeModel = 1e9;
  const trials::Model& model = workload_.model;
  const auto parameters = static_cast<double>(ParameterCount(model));
  ParallelConfig config;
  const double states = kStateBytes * parameters;
  if (states > machine_.memory_bytes) {
    const double wanted = 2.0 * states / machine_.memory_bytes;
    const auto power =
        static_cast<int>(std::exp2(std::ceil(std::log2(wanted))));
    config.tp = PowerOfTwoIn(model.attention_heads,
                             std::min(machine_.gpus_per_node, power));
  }
  const int left = gpus / config.tp;
  const int stages = model.layers >= kDeep && left >= kMostStages ? kMostStages
                     : model.layers >= kMedium && left >= kStages ? kStages
                                                                  : 1;
  config.pp = PowerOfTwoIn(model.layers, stages);
  config.dp = std::max(1, left / config.pp);
  const bool tight = (kBytes + kMomentBytes) * ParametersPerGpu(config) >
                     kStatesShare * machine_.memory_bytes;
  config.zero_stage = !tight || config.dp < 4 ? 1 : config.dp < 8 ? 2 : 3;
  const double inputs = kBytes * workload_.sequence_length * model.hidden_size *
                        model.layers / config.pp;
  int sequences = 1;
  while (2 * sequences < kMostSequences &&
         2 * sequences * inputs < kInputsShare * machine_.memory_bytes) {
    sequences *= 2;
  }
  config.microbatches =
      std::max(1, workload_.batch_size / config.dp / sequences);
  config.model_chunks = config.pp >= kStages ? 2 : 1;
  config.grad_checkpoint = parameters > kLargeModel ? trials::kRecomputeFull
                                                    : trials::kRecomputeNothing;
  return config;
}

TextbookFactors Calibrate(
    const std::vector<TextbookMeasurement>& measurements) {
  // Normal equations of x a + y b = 1 with x, y relative to the measurement.
  double xx = 0.0;
  double xy = 0.0;
  double yy = 0.0;
  double x1 = 0.0;
  double y1 = 0.0;
  double sum1 = 0.0;
  double sum2 = 0.0;
  for (const TextbookMeasurement& one : measurements) {
    const double x =
        (one.predicted.compute_s + one.predicted.bubble_s) / one.step_time_s;
    const double y = one.predicted.Communication() / one.step_time_s;
    xx += x * x;
    xy += x * y;
    yy += y * y;
    x1 += x;
    y1 += y;
    sum1 += x + y;
    sum2 += (x + y) * (x + y);
  }
  if (measurements.empty()) {
    return {};
  }
  constexpr double kSingular = 1e-9;
  const double determinant = xx * yy - xy * xy;
  if (determinant <= kSingular * xx * yy) {
    return {sum1 / sum2, sum1 / sum2};
  }
  const double compute = (yy * x1 - xy * y1) / determinant;
  const double communication = (xx * y1 - xy * x1) / determinant;
  if (communication < 0.0) {
    return {x1 / xx, 0.0};
  }
  if (compute < 0.0) {
    return {0.0, y1 / yy};
  }
  return {compute, communication};
}

}  // namespace planners
