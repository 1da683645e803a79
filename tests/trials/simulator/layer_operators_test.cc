#include "trials/simulator/layer_operators.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::layer_operators_test {

TEST(LayerOperators, EveryRankHasAKeyValueHeadAndOneRankSplitsNoTokens) {
  const Workload workload = SmallWorkload();
  const Framework framework;
  const GpuModel gpu(SmallCluster().gpu, workload.precision, 0.0);
  EXPECT_EQ(ShapeOf(workload, framework, gpu, {.sequences = 4, .tp = 16}).key,
            64.0);
  EXPECT_FALSE(
      ShapeOf(workload, framework, gpu, {.sequences = 4, .tp = 1, .sp = true})
          .sp);
}

constexpr double kLaunch_s = 5e-6;

class ModuleTest : public testing::Test {
 protected:
  GpuModel gpu_{SmallCluster().gpu, Precision::kBf16, kLaunch_s};
  Framework framework_;
};

// Tensor cores need rows that start at multiples of 16 bytes.
TEST_F(ModuleTest, EitherWidthCanMakeAProductUnaligned) {
  const auto forward_s = [&](double in, double out) {
    Module module(gpu_, framework_, nullptr);
    module.Linear(4096, in, out, false);
    return module.cost().forward_s;
  };
  const double aligned_s = forward_s(4096, 4096);
  EXPECT_GT(forward_s(4095, 4096), 1.01 * aligned_s);
  EXPECT_GT(forward_s(4096, 4095), 1.01 * aligned_s);
  EXPECT_LT(forward_s(4088, 4088), 1.01 * aligned_s);
}

TEST_F(ModuleTest, APlaceholderIsTheGradientOfAShapeAndKeptOnce) {
  framework_.gradients.placeholder_gradients = true;
  Module module(gpu_, framework_, nullptr);
  module.Linear(16, 1000, 10, false);
  module.Linear(32, 1000, 10, false);
  module.Linear(16, 10, 1000, false);
  EXPECT_EQ(module.cost().placeholder_bytes, 2 * 2.0 * 1000 * 10);
}

}  // namespace trials::layer_operators_test
