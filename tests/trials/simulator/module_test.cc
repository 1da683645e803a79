#include "trials/simulator/module.h"

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"

namespace trials::module_test {

using ::testing::ElementsAre;

constexpr double kLaunch_s = 5e-6;

class ModuleTest : public testing::Test {
 protected:
  GpuModel gpu_{SmallCluster().gpu, Precision::kBf16, kLaunch_s};
  Framework framework_;
};

// x W, then g W^T and x^T g.
TEST_F(ModuleTest, ALinearLayerIsThreeProductsAndTheSumOfItsBias) {
  const double forward_s = gpu_.GemmTime({1.0, 512, 4096, 1024, true});
  const double weights_s = gpu_.GemmTime({1.0, 1024, 4096, 512, true});
  const double inputs_s = gpu_.GemmTime({1.0, 512, 1024, 4096, true});
  for (const bool bias : {false, true}) {
    Module module(gpu_, framework_, nullptr);
    module.Linear(512, 1024, 4096, bias, 0.5);
    const LayerCost& cost = module.cost();
    EXPECT_DOUBLE_EQ(cost.forward_s, forward_s);
    EXPECT_DOUBLE_EQ(cost.weights_s, weights_s);
    // 2 bytes of each gradient of the output are read for the bias.
    EXPECT_DOUBLE_EQ(cost.backward_s,
                     weights_s + inputs_s +
                         (bias ? gpu_.MemoryTime(2.0 * 512 * 4096) : 0.0));
    EXPECT_DOUBLE_EQ(cost.forward_dispatch_s, framework_.dispatch_s);
    EXPECT_DOUBLE_EQ(cost.backward_dispatch_s,
                     (bias ? 3 : 2) * framework_.dispatch_backward_s);
    EXPECT_EQ(cost.ParameterCount(), 1024 * 4096 + (bias ? 4096 : 0));
    // Half of the result is kept.
    EXPECT_DOUBLE_EQ(cost.kept_forward_s, forward_s / 2);
    EXPECT_DOUBLE_EQ(cost.kept_dispatch_s, framework_.dispatch_s / 2);
    EXPECT_DOUBLE_EQ(cost.kept_bytes, 2.0 * 512 * 4096 / 2);
  }
}

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

// Two reads and a write of 2 bytes; with sums in fp32 2 bytes and 8.
TEST_F(ModuleTest, AccumulatingReadsTwoNumbersAndWritesOne) {
  for (const bool fp32 : {false, true}) {
    framework_.fp32_gradients = fp32;
    Module module(gpu_, framework_, nullptr);
    module.Parameter(1e6);
    EXPECT_DOUBLE_EQ(module.cost().accumulate_s,
                     gpu_.MemoryTime(fp32 ? 10e6 : 6e6));
  }
}

TEST_F(ModuleTest, ExpertsAreKernelsAndParametersOfTheirOwn) {
  Module module(gpu_, framework_, nullptr);
  module.ExpertLinear(8, 256, 1024, 512);
  const LayerCost& cost = module.cost();
  EXPECT_DOUBLE_EQ(cost.forward_s, gpu_.GemmTime({8.0, 256, 512, 1024, true}));
  EXPECT_DOUBLE_EQ(cost.forward_dispatch_s, 8 * framework_.dispatch_s);
  EXPECT_DOUBLE_EQ(cost.backward_dispatch_s,
                   16 * framework_.dispatch_backward_s);
  EXPECT_THAT(cost.expert_parameters, ElementsAre(8.0 * 1024 * 512));
  EXPECT_TRUE(cost.parameters.empty());
  EXPECT_DOUBLE_EQ(cost.accumulate_s, gpu_.MemoryTime(6.0 * 8 * 1024 * 512));
}

TEST_F(ModuleTest, AProductOfActivationsHasTwoOfItsSizeInBackward) {
  Module module(gpu_, framework_, nullptr);
  module.Product({16.0, 512, 256, 64});
  const LayerCost& cost = module.cost();
  EXPECT_DOUBLE_EQ(cost.forward_s, gpu_.GemmTime({16.0, 512, 256, 64, true}));
  EXPECT_DOUBLE_EQ(cost.backward_s,
                   gpu_.GemmTime({16.0, 512, 64, 256, true}) +
                       gpu_.GemmTime({16.0, 64, 256, 512, true}));
  EXPECT_DOUBLE_EQ(cost.forward_dispatch_s, framework_.dispatch_s);
  EXPECT_DOUBLE_EQ(cost.backward_dispatch_s,
                   2 * framework_.dispatch_backward_s);
  // Each of its sizes can be the one that is not a multiple of 8.
  const double aligned_s = cost.forward_s;
  for (const Gemm& gemm : {Gemm{16.0, 511, 256, 64}, Gemm{16.0, 512, 255, 64},
                           Gemm{16.0, 512, 256, 63}}) {
    Module unaligned(gpu_, framework_, nullptr);
    unaligned.Product(gemm);
    EXPECT_GT(unaligned.cost().forward_s, aligned_s);
  }
}

TEST_F(ModuleTest, RoundsOfAttentionAreKernelsAtTheFrameworksSpeed) {
  framework_.attention_forward_speed = 0.5;
  framework_.attention_backward_speed = 0.25;
  const Attention round{
      .heads = 64, .queries = 512, .keys = 512, .head_size = 64};
  Module module(gpu_, framework_, nullptr);
  module.Flash(round, 3);
  const LayerCost& cost = module.cost();
  EXPECT_DOUBLE_EQ(cost.forward_s, 3 * 2 * gpu_.FlashTime(round));
  EXPECT_DOUBLE_EQ(cost.backward_s, 3 * 4 * gpu_.FlashTime(round, true));
  EXPECT_DOUBLE_EQ(cost.forward_dispatch_s, 3 * framework_.dispatch_s);
  EXPECT_DOUBLE_EQ(cost.backward_dispatch_s,
                   6 * framework_.dispatch_backward_s);
}

TEST_F(ModuleTest, OperatorsAddUpToTheModule) {
  std::vector<OperatorCost> operators;
  Module module(gpu_, framework_, &operators);
  module.Elementwise(1e6, 2, 3e6, 4);
  module.EndOperator("first");
  module.Linear(512, 1024, 1024, true);
  module.EndOperator("second");
  module.EndOperator("nothing");
  ASSERT_EQ(operators.size(), 3);
  EXPECT_DOUBLE_EQ(operators[0].forward_s, gpu_.MemoryTime(1e6, 2));
  EXPECT_DOUBLE_EQ(operators[0].backward_s, gpu_.MemoryTime(3e6, 4));
  EXPECT_DOUBLE_EQ(operators[0].forward_dispatch_s, 2 * framework_.dispatch_s);
  EXPECT_DOUBLE_EQ(operators[0].backward_dispatch_s,
                   4 * framework_.dispatch_backward_s);
  EXPECT_EQ(operators[0].accumulate_s, 0.0);
  for (const auto& [part, whole] :
       {std::pair{&OperatorCost::forward_s, &LayerCost::forward_s},
        std::pair{&OperatorCost::backward_s, &LayerCost::backward_s},
        std::pair{&OperatorCost::accumulate_s, &LayerCost::accumulate_s},
        std::pair{&OperatorCost::forward_dispatch_s,
                  &LayerCost::forward_dispatch_s},
        std::pair{&OperatorCost::backward_dispatch_s,
                  &LayerCost::backward_dispatch_s}}) {
    EXPECT_GT(operators[1].*part, 0.0);
    EXPECT_NEAR(operators[0].*part + operators[1].*part, module.cost().*whole,
                1e-15);
    EXPECT_EQ(operators[2].*part, 0.0);
  }
}

TEST_F(ModuleTest, SelectiveRecomputationRepeatsWhatWasAddedSince) {
  Module module(gpu_, framework_, nullptr);
  module.Elementwise(1e6, 1, 1e6, 1);
  const LayerCost before = module.cost();
  module.Elementwise(2e6, 3, 0.0, 0);
  module.Repeat(before, 100.0);
  module.Repeat(before, 10.0);
  module.Keep(before, 5.0);
  const LayerCost& cost = module.cost();
  EXPECT_NEAR(cost.selective_forward_s, 2 * gpu_.MemoryTime(2e6, 3), 1e-15);
  EXPECT_NEAR(cost.selective_dispatch_s, 6 * framework_.dispatch_s, 1e-15);
  EXPECT_EQ(cost.selective_bytes, 110.0);
  EXPECT_NEAR(cost.kept_forward_s, gpu_.MemoryTime(2e6, 3), 1e-15);
  EXPECT_NEAR(cost.kept_dispatch_s, 3 * framework_.dispatch_s, 1e-15);
  EXPECT_EQ(cost.kept_bytes, 5.0);
}

TEST_F(ModuleTest, SavedBytesAddUpAndTemporariesDoNot) {
  Module module(gpu_, framework_, nullptr);
  module.Save(3.0);
  module.Save(4.0);
  module.Temporary(5.0);
  module.Temporary(2.0);
  EXPECT_EQ(module.cost().saved_bytes, 7.0);
  EXPECT_EQ(module.cost().working_bytes, 5.0);
}

TEST_F(ModuleTest, APlaceholderIsTheGradientOfAShapeAndKeptOnce) {
  framework_.placeholder_gradients = true;
  Module module(gpu_, framework_, nullptr);
  module.Linear(16, 1000, 10, false);
  module.Linear(32, 1000, 10, false);
  module.Linear(16, 10, 1000, false);
  EXPECT_EQ(module.cost().placeholder_bytes, 2 * 2.0 * 1000 * 10);
}

// 16 bits read, 8 written and 8 transposed, of both inputs and, for backward,
// of the gradient of the result.
TEST(Module, EightBitsCostTheirCasts) {
  const GpuModel gpu(FindGpu("h100-sxm"), Precision::kFp8, kLaunch_s);
  const Framework framework;
  Module module(gpu, framework, nullptr);
  module.AllowFp8();
  module.Linear(4096, 2048, 1024, false);
  Gemm forward{1.0, 4096, 1024, 2048, true};
  forward.fp8 = true;
  EXPECT_DOUBLE_EQ(module.cost().forward_s,
                   gpu.GemmTime(forward) +
                       gpu.MemoryTime(4.0 * (4096 * 2048 + 2048 * 1024), 2));
  EXPECT_DOUBLE_EQ(module.cost().forward_dispatch_s, 3 * framework.dispatch_s);
  EXPECT_DOUBLE_EQ(module.cost().backward_dispatch_s,
                   3 * framework.dispatch_backward_s);
  const auto product_s = [&](double batch, double m, double n, double k) {
    Gemm gemm{batch, m, n, k};
    gemm.fp8 = true;
    return gpu.GemmTime(gemm);
  };
  EXPECT_DOUBLE_EQ(module.cost().backward_s,
                   product_s(1, 4096, 2048, 1024) +
                       product_s(1, 2048, 1024, 4096) +
                       gpu.MemoryTime(4.0 * 4096 * 1024, 1));
  // Those of each expert are cast together.
  Module experts(gpu, framework, nullptr);
  experts.AllowFp8();
  experts.ExpertLinear(8, 256, 2048, 1024);
  EXPECT_DOUBLE_EQ(experts.cost().forward_s,
                   product_s(8, 256, 1024, 2048) +
                       gpu.MemoryTime(4.0 * 8 * (256 * 2048 + 2048 * 1024), 2));
  EXPECT_DOUBLE_EQ(experts.cost().backward_s,
                   product_s(8, 256, 2048, 1024) +
                       product_s(8, 2048, 1024, 256) +
                       gpu.MemoryTime(4.0 * 8 * 256 * 1024, 1));
}

}  // namespace trials::module_test
