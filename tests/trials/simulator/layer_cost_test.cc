#include "trials/simulator/layer_cost.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"

namespace trials {
namespace {

// A GPU on which only products of matrices take time: no bytes, no launches,
// one multiprocessor (no waves).
GpuModel ComputeOnly(const Gpu& gpu) {
  Gpu ideal = gpu;
  ideal.memory_bandwidth_bytes_per_s = 1e30;
  ideal.multiprocessors = 1;
  return {ideal, Precision::kBf16, 1e-30};
}

double FlopPerSecond(const Gpu& gpu) {
  return gpu.half_flop_per_s *
         FindGpuArchitecture(gpu.architecture).tensor_fraction;
}

// Kaplan et al. (2020): 2 N a token forward and 4 N backward, plus the scores:
// 4 s h forward (half of it causal) and 2.5 times that backward. The tiles'
// prologues cost a few percent.
TEST(LayerCost, FlopsOfABlockAreSixPerParameterAndAttention) {
  const PaperProblem problem("llama7b-32gpu");
  const Model& model = problem.workload.model;
  const Gpu& gpu = problem.cluster.gpu;
  const LayerCosts costs = ComputeLayerCosts(
      problem.workload, Framework{}, ComputeOnly(gpu), {.sequences = 4});
  const double tokens = 4.0 * problem.workload.sequence_length;
  const double scores = 0.5 * 4.0 * problem.workload.sequence_length *
                        model.hidden_size /
                        FindGpuArchitecture(gpu.architecture).flash_fraction;
  const double parameters = static_cast<double>(BlockParameters(model));
  const double rate = FlopPerSecond(gpu);
  const double forward = tokens * (2 * parameters + scores);
  const double backward = tokens * (4 * parameters + 2.5 * scores);
  EXPECT_GE(costs.block.forward_s * rate, forward * 0.999);
  EXPECT_NEAR(costs.block.forward_s * rate / forward, 1.0, 0.05);
  EXPECT_GE(costs.block.backward_s * rate, backward * 0.999);
  EXPECT_NEAR(costs.block.backward_s * rate / backward, 1.0, 0.05);
}

TEST(LayerCost, ParametersOfTheModulesAreThoseOfTheModel) {
  for (const char* name :
       {"bert-8gpu", "qwen-8gpu", "llama1b-16gpu", "llama7b-32gpu"}) {
    const PaperProblem problem(name);
    const GpuModel gpu(problem.cluster.gpu, problem.workload.precision, 1e-6);
    const LayerCosts costs =
        ComputeLayerCosts(problem.workload, Framework{}, gpu, {});
    const Model& model = problem.workload.model;
    EXPECT_EQ(costs.block.ParameterCount() * model.layers +
                  costs.embedding.ParameterCount() +
                  costs.head.ParameterCount(),
              static_cast<double>(ParameterCount(model)))
        << name;
  }
}

TEST(LayerCost, TensorParallelismDividesWorkButNotAllOfTheActivations) {
  const PaperProblem problem("llama7b-32gpu");
  const GpuModel gpu(problem.cluster.gpu, Precision::kBf16, 2e-6);
  const auto block = [&](int tp, bool sp = false) {
    return ComputeLayerCosts(problem.workload, Framework{}, gpu, {4.0, tp, sp})
        .block;
  };
  const LayerCost one = block(1);
  const LayerCost four = block(4);
  EXPECT_LT(four.forward_s, one.forward_s / 2);
  EXPECT_GT(four.forward_s, one.forward_s / 4);
  EXPECT_LT(four.saved_bytes, one.saved_bytes);
  EXPECT_GT(four.saved_bytes, one.saved_bytes / 4);
  EXPECT_LT(block(4, true).saved_bytes, four.saved_bytes);
  EXPECT_EQ(one.forward_messages, 0);
  EXPECT_EQ(four.forward_messages, 2);
}

// 151936 entries: as much work as several blocks, and divided by tp.
TEST(LayerCost, TheVocabularyHeadOfQwenIsHeavy) {
  const PaperProblem problem("qwen-8gpu");
  const GpuModel gpu(problem.cluster.gpu, Precision::kBf16, 2e-6);
  const auto costs = [&](int tp) {
    return ComputeLayerCosts(problem.workload, Framework{}, gpu, {2.0, tp});
  };
  const LayerCosts one = costs(1);
  EXPECT_GT(one.head.forward_s, 3 * one.block.forward_s);
  EXPECT_GT(one.head.logits_bytes, one.block.saved_bytes);
  EXPECT_LT(costs(2).head.forward_s, 0.6 * one.head.forward_s);
  EXPECT_DOUBLE_EQ(costs(2).head.logits_bytes, one.head.logits_bytes / 2);
}

TEST(LayerCost, StoredScoresCostMemoryThatFusedAttentionSaves) {
  const PaperProblem problem("qwen-8gpu");
  const GpuModel gpu(problem.cluster.gpu, Precision::kBf16, 2e-6);
  Framework stored;
  stored.flash_attention = false;
  const LayerCost with =
      ComputeLayerCosts(problem.workload, stored, gpu, {}).block;
  const LayerCost without =
      ComputeLayerCosts(problem.workload, Framework{}, gpu, {}).block;
  const double scores = 12.0 * 1024 * 1024;
  EXPECT_GT(with.saved_bytes, without.saved_bytes + 2 * scores);
  EXPECT_GT(with.forward_s, without.forward_s);
}

}  // namespace
}  // namespace trials
