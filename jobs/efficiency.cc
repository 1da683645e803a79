#include "jobs/efficiency.h"

#include <algorithm>

#include "trials/model.h"

namespace jobs {

double FlopPerToken(const trials::Workload& workload) {
  const trials::Model& model = workload.model;
  double used = static_cast<double>(ActiveParameterCount(model));
  if (!model.tied_embeddings) {  // a tied table is also the vocabulary head
    used -= static_cast<double>(EmbeddingParameters(model));
  }
  const double tokens = workload.sequence_length;
  const double window = std::min<double>(tokens, model.window);
  const double seen =
      tokens + model.windowed_share * (window - tokens);  // mean over blocks
  return 6.0 * used +
         12.0 * model.layers * model.attention_heads * model.head_size * seen;
}

double TokensPerSecondPerGpu(const trials::Workload& workload, int gpus,
                             double step_time_s) {
  return static_cast<double>(workload.batch_size) * workload.sequence_length /
         (step_time_s * gpus);
}

double ModelFlopUtilization(const trials::Workload& workload,
                            const trials::Cluster& cluster,
                            double step_time_s) {
  const trials::Gpu& gpu = cluster.gpu;
  const double peak = workload.precision == trials::Precision::kFp32
                          ? gpu.single_flop_per_s
                      : workload.precision == trials::Precision::kFp8 &&
                              gpu.fp8_flop_per_s > 0.0
                          ? gpu.fp8_flop_per_s
                          : gpu.half_flop_per_s;
  return FlopPerToken(workload) *
         TokensPerSecondPerGpu(workload, cluster.gpus(), step_time_s) / peak;
}

}  // namespace jobs
