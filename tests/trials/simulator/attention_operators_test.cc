#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::attention_operators_test {

// 4 sequences of 512.
constexpr double kTokens = 4.0 * 512;
constexpr double kHidden = 1024;

// The rounds of a ring are squares of scores; heads of 34 and of 32 columns are
// as much work as two of 33.
TEST(AttentionOperators, TheRingsRoundsShareTheScores) {
  Model model = SmallLlama();
  model.kv_heads = 16;
  model.value_head_size = 32;
  model.head_size = 34;
  const GpuModel gpu(SmallCluster().gpu, Precision::kBf16, 0.0);
  const double core_s =
      ComputeLayerCosts({"m", model, 8, 4096, Precision::kBf16}, {}, gpu,
                        {.sequences = 1.0, .cp = 4})
          .block.core_forward_s;
  const double round_s = gpu.FlashTime(
      {.heads = 16, .queries = 1024, .keys = 1024, .head_size = 33});
  EXPECT_DOUBLE_EQ(core_s, 4 * round_s);
}

// DeepSeek-V2, Eq. 9 to 19: queries through a vector of query_rank numbers (or
// directly), keys and values through one of kv_rank, which also holds the
// rotary key. Both vectors have a norm (read and written; backward 4 in two
// kernels), and copies join the parts of queries, keys and values.
TEST(AttentionOperators, LatentAttentionProjectsThroughVectors) {
  OperatorBytes block;
  Model& model = block.workload.model;
  model.kv_heads = 16;
  model.head_size = 96;
  model.value_head_size = 32;
  model.rope_head_size = 40;
  const double t = kTokens;
  const double joined = 2 * t * 16 * (96 + 96 + 32);
  for (const int rank : {1, 128}) {
    model.query_rank = 0;
    model.kv_rank = rank;
    const double norm = 2 * t * rank;
    const double latent = ProductBytes(t, rank + 40, kHidden) +
                          ProductBytes(t, 16 * (56 + 32), rank);
    const double direct = ProductBytes(t, 16 * 96, kHidden);
    ExpectTraffic(block.Of("qkv"),
                  {direct + latent + 2 * norm + 2 * joined, 3 + 1 + 3,
                   2 * (direct + latent) + 4 * norm + 2 * joined, 6 + 2 + 3});
    model.query_rank = rank;
    const double query =
        ProductBytes(t, rank, kHidden) + ProductBytes(t, 16 * 96, rank);
    ExpectTraffic(block.Of("qkv"),
                  {query + latent + 4 * norm + 2 * joined, 4 + 2 + 3,
                   2 * (query + latent) + 8 * norm + 2 * joined, 8 + 4 + 3});
  }
}

TEST(AttentionOperators, LatentAttentionTakesCpuTimeOfItsOwnInBothDirections) {
  OperatorBytes block;
  block.workload.model.kv_rank = 128;
  const LayerCost before = block.Block();
  block.framework.dispatch.latent_dispatch_s = 0.5;
  EXPECT_DOUBLE_EQ(block.Block().forward_dispatch_s,
                   before.forward_dispatch_s + 0.5);
  EXPECT_DOUBLE_EQ(block.Block().backward_dispatch_s,
                   before.backward_dispatch_s + 0.5);
  block.workload.model.kv_rank = 0;
  const LayerCost direct = block.Block();
  block.framework.dispatch.latent_dispatch_s = 0.0;
  EXPECT_DOUBLE_EQ(block.Block().forward_dispatch_s, direct.forward_dispatch_s);
}

}  // namespace trials::attention_operators_test
