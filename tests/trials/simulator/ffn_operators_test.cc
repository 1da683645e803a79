#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::ffn_operators_test {

// SmallLlama: 4 sequences of 512 tokens.
constexpr double kTokens = 4.0 * 512;
constexpr double kHidden = 1024;
constexpr double kFfn = 2816;

// GELU reads and writes; backward reads input and gradient and writes.
TEST(FfnOperators, AnActivationWithoutAGateIsOneKernel) {
  OperatorBytes block;
  block.workload.model = Gpt();
  const double inner = 2 * kTokens * 8192;
  ExpectTraffic(block.Of("activation"), {2 * inner, 1, 3 * inner, 1});
  // The gradients of its input and of its output; a fused kernel has freed one
  // of them, but the gradient of the layer's output is still there.
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 2 * inner);
  block.framework.kernels.fused_operators = true;
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, inner + 2 * kTokens * 2048);
  // Recomputed, it keeps its input only.
  block.framework.recomputation.recompute_core = false;
  block.framework.recomputation.recompute_activation = true;
  EXPECT_DOUBLE_EQ(block.Block().selective_bytes, inner);
}

// SiLU (2) and product (3). Backward: each gradient of the product reads two
// and writes one (6), SiLU's another three, and the gradients of the two linear
// layers are summed at their input. One fused kernel reads gate, up and
// gradient and writes two gradients.
TEST(FfnOperators, AGatedActivationIsTwoKernelsOrOne) {
  OperatorBytes block;
  const double inner = 2 * kTokens * kFfn;
  const double input = 2 * kTokens * kHidden;
  ExpectTraffic(block.Of("activation"),
                {5 * inner, 2, 9 * inner + 3 * input, 4});
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 3 * inner);
  block.framework.kernels.fused_operators = true;
  ExpectTraffic(block.Of("activation"),
                {3 * inner, 1, 5 * inner + 3 * input, 2});
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 2 * inner + input);
  // Sequence parallelism splits the layer's output, tensor parallelism does
  // not.
  block.shard.tp = 2;
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, inner + input);
  block.shard.sp = true;
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, inner + input / 2);
}

// torchtitan's rule keeps every second product: of two it keeps the first.
TEST(FfnOperators, WithoutAGateTheSecondProductIsNotKept) {
  OperatorBytes block;
  block.framework.recomputation.selective_by_operator = true;
  block.workload.model = Gpt();
  const LayerCost cost = block.Block();
  // q, v and the core, and the input of the feed-forward layer's activation.
  EXPECT_DOUBLE_EQ(cost.kept_bytes, 2 * kTokens * (3 * 2048 + 8192));
}

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

// Logits of the router in fp32, top-k and masks: e + 24 bytes of a score in 6
// kernels, backward e + 12 in 4. Copies of tokens are sorted, sent, and summed
// by weight: 6 values of each in 4 kernels, backward 7 in 5. Each expert
// multiplies its copies.
TEST(FfnOperators, ExpertsCostTheirRouterTheirCopiesAndTheirProducts) {
  Experts experts;
  OperatorBytes& block = experts.block;
  const double scores = kTokens * 8;
  const double copies = 2 * kTokens;
  const double inner = 2 * copies * 512;
  const double rows = copies / 8;
  const double products = ProductBytes(kTokens, 8, kHidden) +
                          8 * 2 * ProductBytes(rows, 512, kHidden) +
                          8 * ProductBytes(rows, kHidden, 512);
  const double sorted = 2 * copies * kHidden;
  ExpectTraffic(
      block.Of("experts"),
      {products + 26 * scores + 6 * sorted + 5 * inner, 1 + 3 * 8 + 6 + 4 + 2,
       2 * products + 14 * scores + 7 * sorted + 9 * inner + 3 * sorted,
       2 + 6 * 8 + 4 + 5 + 4});
  // Sorted copies in both directions.
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 2 * sorted);
  // The busiest rank has 1.5 times the rows of the mean.
  block.framework.experts.expert_imbalance = 1.5;
  const double more = 8 * 2 * ProductBytes(1.5 * rows, 512, kHidden) +
                      8 * ProductBytes(1.5 * rows, kHidden, 512) - products +
                      ProductBytes(kTokens, 8, kHidden);
  EXPECT_NEAR(block.Of("experts").forward_bytes,
              products + more + 26 * scores + 6 * sorted + 5 * 1.5 * inner,
              1.0);
}

// Every copy of a token travels to its expert and back, and the busiest rank
// sets the pace.
TEST(FfnOperators, ExpertRanksExchangeEveryCopy) {
  Experts experts;
  experts.block.framework.experts.expert_imbalance = 1.5;
  experts.block.shard.ep = 4;
  EXPECT_EQ(experts.block.Block().all_to_alls, 2);
  EXPECT_DOUBLE_EQ(experts.block.Block().all_to_all_bytes,
                   1.5 * 2 * 2 * kTokens * kHidden);
}

// Each of two tensor-parallel ranks sends half of the tokens to whole experts.
TEST(FfnOperators, WholeExpertsTakeTheTokensOfEachTensorParallelRank) {
  Experts experts;
  experts.block.shard.ep = 4;
  experts.block.shard.tp = 2;
  const LayerCost split = experts.block.Block();
  experts.block.shard.whole_experts = true;
  const LayerCost whole = experts.block.Block();
  EXPECT_DOUBLE_EQ(whole.all_to_all_bytes, split.all_to_all_bytes / 2);
  EXPECT_DOUBLE_EQ(whole.ExpertParameterCount(),
                   2 * split.ExpertParameterCount());
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

}  // namespace trials::ffn_operators_test
