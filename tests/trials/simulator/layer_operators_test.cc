#include "trials/simulator/layer_operators.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::layer_operators_test {

constexpr double kTokens = 4.0 * 512;

// One kernel reads and writes each element; backward moves 4 values in two
// kernels. RMSNorm in Python casts to fp32 and back: 7 kernels that move 5
// values in half precision and 7 in fp32, and backward 6 and 13 in 10.
TEST(LayerOperators, NormsAreOneKernelOrSeven) {
  OperatorBytes block;
  const double elements = kTokens * 1024;
  ExpectTraffic(block.Of("final-norm"),
                {(10 + 28) * elements, 7, (12 + 52) * elements, 10});
  block.workload.precision = Precision::kFp32;
  ExpectTraffic(block.Of("final-norm"),
                {(20 + 28) * elements, 7, (24 + 52) * elements, 10});
  block.workload.precision = Precision::kBf16;
  block.framework.kernels.fused_operators = true;
  ExpectTraffic(block.Of("final-norm"), {4 * elements, 1, 8 * elements, 2});
  block.framework.kernels.fused_operators = false;
  block.workload.model.norm_bias = true;
  ExpectTraffic(block.Of("final-norm"), {4 * elements, 1, 8 * elements, 2});
}

// A sum reads two and writes one. A dropout before it reads, writes and writes
// a byte of mask; fused with the sum it only adds the mask.
TEST(LayerOperators, ResidualsAreASumAndADropout) {
  OperatorBytes block;
  double elements = 2 * kTokens * 1024;  // of both
  ExpectTraffic(block.Of("residual"), {6 * elements, 2, 6 * elements, 2});
  block.workload.model = Gpt();
  elements = 2 * kTokens * 2048;
  ExpectTraffic(block.Of("residual"), {11 * elements, 4, 11 * elements, 4});
  block.framework.kernels.fused_operators = true;
  ExpectTraffic(block.Of("residual"), {7 * elements, 2, 11 * elements, 4});
}

// Tensor parallelism splits heads and columns, context parallelism tokens, and
// sequence parallelism tokens outside of the linear layers.
TEST(LayerOperators, ParallelismSplitsTheShape) {
  const Workload workload = SmallWorkload();
  const Framework framework;
  const GpuModel gpu(SmallCluster().gpu, workload.precision, 0.0);
  const LayerShape shape =
      ShapeOf(workload, framework, gpu,
              {.sequences = 4, .tp = 4, .sp = true, .cp = 2, .ep = 3});
  EXPECT_EQ(shape.tokens, 1024.0);
  EXPECT_EQ(shape.outer_tokens, 256.0);
  EXPECT_EQ(shape.heads, 4.0);
  EXPECT_EQ(shape.query, 256.0);
  EXPECT_EQ(shape.key, 128.0);
  EXPECT_EQ(shape.value, 128.0);
  EXPECT_EQ(shape.result, 256.0);
  EXPECT_EQ(shape.ffn, 704.0);
  EXPECT_EQ(shape.ep, 3.0);
  EXPECT_TRUE(shape.sp);
  // Every rank has a key-value head at least; one rank splits nothing.
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
