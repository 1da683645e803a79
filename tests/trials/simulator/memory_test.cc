#include "trials/simulator/memory.h"

#include <gtest/gtest.h>

namespace trials {
namespace {

constexpr double kElements = 1e9;

StageMemory Stage() {
  return {.parameters = kElements,
          .largest_tensor = 1e8,
          .largest_module = 2e8,
          .activations_bytes = 20e9,
          .logits_bytes = 1e9,
          .working_bytes = 2e9,
          .boundary_bytes = 1e7};
}

MemoryParts Parts(int zero_stage, double element_bytes = 2.0) {
  return ComputeMemory(
      {.dp = 4, .zero_stage = zero_stage}, Stage(), element_bytes, Framework{});
}

// Rajbhandari et al. (2020), Sec. 3: 2 + 2 + 12 bytes per parameter.
TEST(Memory, StatesAreThoseOfMixedPrecisionAdam) {
  const MemoryParts plain = ComputeMemory(
      {.dp = 4, .pp = 2, .microbatches = 4}, Stage(), 2.0, Framework{});
  EXPECT_DOUBLE_EQ(plain.parameters_bytes, 2 * kElements);
  EXPECT_DOUBLE_EQ(plain.gradients_bytes, 2 * kElements);
  EXPECT_DOUBLE_EQ(plain.optimizer_bytes, 12 * kElements);
  EXPECT_DOUBLE_EQ(Parts(0, 4.0).optimizer_bytes, 8 * kElements);
}

TEST(Memory, EachZeroStageShardsOneMoreState) {
  EXPECT_DOUBLE_EQ(Parts(1).optimizer_bytes, 3 * kElements);
  EXPECT_DOUBLE_EQ(Parts(1).parameters_bytes, 2 * kElements);
  EXPECT_DOUBLE_EQ(Parts(3).parameters_bytes, kElements / 2);
  const auto accumulated = [](int stage) {
    return ComputeMemory(
               {.dp = 4, .pp = 2, .zero_stage = stage, .microbatches = 4},
               Stage(),
               2.0,
               Framework{})
        .gradients_bytes;
  };
  EXPECT_DOUBLE_EQ(accumulated(1), 2 * kElements);
  EXPECT_DOUBLE_EQ(accumulated(2), kElements / 2);
  EXPECT_LT(Parts(1).Total(), Parts(0).Total());
  // With one microbatch gradients come as activations go: none at the peak.
  EXPECT_LE(Parts(2).Total(), Parts(1).Total());
  EXPECT_LT(Parts(3).Total(), Parts(2).Total());
}

TEST(Memory, SetUpHoldsTheStatesAlone) {
  const Framework framework;
  const ParallelConfig config{.dp = 4};
  const double states = StateBytes(config, Stage(), 2.0, framework);
  EXPECT_LT(states, ComputeMemory(config, Stage(), 2.0, framework).Total());
  EXPECT_GE(states, 14 * kElements + framework.context_bytes);
}

TEST(Memory, WithoutActivationsTheOptimizersStepIsThePeak) {
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;
  stage.logits_bytes = 0.0;
  stage.working_bytes = 0.0;
  const MemoryParts parts = ComputeMemory(
      {.dp = 4, .pp = 2, .microbatches = 4}, stage, 2.0, Framework{});
  EXPECT_DOUBLE_EQ(parts.gradients_bytes, 4 * kElements);  // fp32 copies
  EXPECT_EQ(parts.activations_bytes, 0.0);
}

TEST(Memory, BucketsAreNoLargerThanTheGradients) {
  const auto buffers = [](int bucket_mb) {
    return ComputeMemory({.dp = 4,
                          .zero_stage = 1,
                          .zero_bucket_mb = bucket_mb,
                          .overlap_zero_comm = false},
                         Stage(),
                         2.0,
                         Framework{})
        .buffers_bytes;
  };
  EXPECT_DOUBLE_EQ(buffers(1), 2 * 1e8);  // the largest tensor
  EXPECT_DOUBLE_EQ(buffers(1024), 1024.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(buffers(4096), 2 * kElements);
}

}  // namespace
}  // namespace trials
