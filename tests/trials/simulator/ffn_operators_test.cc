#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::ffn_operators_test {

// SmallLlama: 4 sequences of 512 tokens.
constexpr double kTokens = 4.0 * 512;
constexpr double kHidden = 1024;

// Eight experts, of which a token chooses two.
class Experts {
 public:
  Experts() {
    Model& model = block.workload.model;
    model.experts = 8;
    model.experts_per_token = 2;
    model.ffn_size = 512;
    block.framework.experts.expert_imbalance = 1.0;
  }
  OperatorBytes block;
};

TEST(FfnOperators, ExpertsTakeCpuTimeOfTheirOwnInBothDirections) {
  Experts experts;
  OperatorBytes& block = experts.block;
  const LayerCost before = block.Block();
  block.framework.dispatch.expert_dispatch_s = 0.5;
  EXPECT_DOUBLE_EQ(block.Block().forward_dispatch_s,
                   before.forward_dispatch_s + 0.5);
  EXPECT_DOUBLE_EQ(block.Block().backward_dispatch_s,
                   before.backward_dispatch_s + 0.5);
  block.workload.model.experts = 0;
  const LayerCost dense = block.Block();
  block.framework.dispatch.expert_dispatch_s = 0.0;
  EXPECT_DOUBLE_EQ(block.Block().forward_dispatch_s, dense.forward_dispatch_s);
}

TEST(FfnOperators, ARankWithAllExpertsHasNoImbalance) {
  Experts experts;
  OperatorBytes& block = experts.block;
  const LayerCost balanced = block.Block();
  block.framework.experts.expert_imbalance = 2.0;
  EXPECT_EQ(block.Block().forward_s, balanced.forward_s);
  EXPECT_EQ(block.Block().saved_bytes, balanced.saved_bytes);
}

// A dense layer, the sum of its result with that of the chosen experts, and a
// gate: a product with one column, a sigmoid and a product.
TEST(FfnOperators, SharedExpertsAreADenseLayerWithASumAndAGate) {
  Experts experts;
  OperatorBytes& block = experts.block;
  block.workload.model.shared_ffn_size = 1;
  EXPECT_GT(block.Of("shared-experts").forward_bytes, 0.0);
  block.workload.model.shared_ffn_size = 512;
  const double inner = 2 * kTokens * 512;
  const double bytes = 2 * kTokens * kHidden;
  const double products = 2 * ProductBytes(kTokens, 512, kHidden) +
                          ProductBytes(kTokens, kHidden, 512);
  const Traffic plain = block.Of("shared-experts");
  ExpectTraffic(plain, {products + 5 * inner + 3 * bytes, 3 + 2 + 1,
                        2 * products + 9 * inner + 3 * bytes, 6 + 4});
  const double saved = block.Block().saved_bytes;
  block.workload.model.shared_expert_gate = true;
  const double gate = ProductBytes(kTokens, 1, kHidden);
  ExpectTraffic(
      block.Of("shared-experts"),
      {plain.forward_bytes + gate + 2 * bytes, plain.forward_kernels + 1 + 2,
       plain.backward_bytes + 2 * gate + 4 * bytes,
       plain.backward_kernels + 2 + 3});
  EXPECT_DOUBLE_EQ(block.Block().saved_bytes - saved, bytes);
}

// Each of the eight experts scales its bias, adds it, and its rows are joined.
TEST(FfnOperators, ExpertsScaleTheirBiasesOneByOne) {
  Experts experts;
  OperatorBytes& block = experts.block;
  const Traffic before = block.Of("experts");
  block.workload.model.ffn_bias = true;
  const double copies = 2 * kTokens;
  const double in = 2 * copies * 2 * 512;  // gate and up
  const double out = 2 * copies * kHidden;
  ExpectTraffic(
      block.Of("experts"),
      {before.forward_bytes + 4 * out, before.forward_kernels + 17,
       before.backward_bytes + in + 4 * out, before.backward_kernels + 25});
}

TEST(FfnOperators, AClampedActivationClampsBothHalvesAndJoinsThem) {
  OperatorBytes block;
  block.workload.model.ffn_size = 512;
  const Traffic before = block.Of("activation");
  const double saved = block.Block().saved_bytes;
  block.workload.model.clamped_ffn = true;
  const double inner = 2 * kTokens * 512;
  ExpectTraffic(
      block.Of("activation"),
      {before.forward_bytes + 8 * inner, before.forward_kernels + 3,
       before.backward_bytes + 12 * inner, before.backward_kernels + 5});
  EXPECT_DOUBLE_EQ(block.Block().saved_bytes - saved, 2 * inner);
}

}  // namespace trials::ffn_operators_test
