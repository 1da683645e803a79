#include <gtest/gtest.h>

#include "tests/trials/simulator/operator_bytes.h"

namespace trials::attention_operators_test {

// SmallLlama has 16 heads of 64 for queries and 8 for keys; 4 sequences of 512.
constexpr double kTokens = 4.0 * 512;
constexpr double kHidden = 1024;
constexpr double kQuery = 16 * 64;
constexpr double kKey = 8 * 64;
constexpr double kScores = 4.0 * 16 * 512 * 512;

OperatorBytes Stored() {
  OperatorBytes block;
  block.framework.kernels.flash_attention = false;
  return block;
}

// Of q and k each: a half is negated (2 halves moved), both are concatenated
// (2), two products with a table (2 each), their sum (3): 10 values of each
// element in 5 kernels. A fused kernel reads and writes each element.
TEST(AttentionOperators, RotaryEmbeddingsAreTenKernelsOrOne) {
  OperatorBytes block;
  const double bytes = 2 * kTokens * (kQuery + kKey);
  ExpectTraffic(block.Of("rotary"), {10 * bytes, 10, 10 * bytes, 10});
  block.workload.model.rotary_share = 0.25;
  ExpectTraffic(block.Of("rotary"), {2.5 * bytes, 10, 2.5 * bytes, 10});
  block.framework.kernels.fused_operators = true;
  ExpectTraffic(block.Of("rotary"), {0.5 * bytes, 1, 0.5 * bytes, 1});
  block.workload.model.max_positions = 1;  // a table of learned positions
  EXPECT_EQ(block.Of("rotary").forward_bytes, 0.0);
  EXPECT_EQ(block.Of("rotary").backward_kernels, 0.0);
}

// Scale, mask, softmax, and a dropout that writes a byte of mask: 8 e + 1.
// Backward reads the mask (2 e + 1), and result and gradient of the softmax
// (3 e), and scales (2 e).
TEST(AttentionOperators, StoredScoresOfGptHaveADropout) {
  OperatorBytes block = Stored();
  block.workload.model = Gpt();
  const double n = kScores;  // 16 heads, too
  ExpectTraffic(block.Of("softmax"), {17 * n, 4, 15 * n, 3});
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 3 * 2 * n);
  // Korthikanti et al. (2022), Eq. 1, holds with and without fusion.
  EXPECT_DOUBLE_EQ(block.Block().saved_bytes,
                   512.0 * 4 * 2048 * (34 + 5.0 * 16 * 512 / 2048));
}

// A fused softmax moves what the framework says, and the dropout after it
// reads and writes scores and writes, or reads, the mask.
TEST(AttentionOperators, FusedSoftmaxAndDropoutAreAKernelEach) {
  OperatorBytes block = Stored();
  block.framework.kernels.fused_operators = true;
  block.framework.kernels.score_forward_bytes = 4.5;
  block.framework.kernels.score_backward_bytes = 7.0;
  const double n = kScores;
  ExpectTraffic(block.Of("softmax"), {4.5 * n, 1, 7.0 * n, 1});
  EXPECT_DOUBLE_EQ(block.Block().working_bytes, 2 * 2 * n);
  EXPECT_EQ(block.Of("dropout").forward_kernels, 0.0);
  block.workload.model = Gpt();
  ExpectTraffic(block.Of("dropout"), {5 * n, 1, 5 * n, 1});
}

// Products of every head: q k^T and scores v, with both gradients. Keys and
// values of 8 heads are read and written for 16 (1.5 of each), and the result
// is copied to be contiguous.
TEST(AttentionOperators, StoredAttentionIsTwoProductsOfEveryHead) {
  OperatorBytes block = Stored();
  const double product = 4 * 16 * ProductBytes(512, 512, 64);
  const double copies = 3 * 2 * kTokens * kQuery;
  const double result = 2 * 2 * kTokens * kQuery;
  ExpectTraffic(block.Of("scores"),
                {copies + product, 3, copies + 2 * product, 4});
  ExpectTraffic(block.Of("context"),
                {product + result, 2, 2 * product + result, 3});
  block.workload.model.kv_heads = 16;
  ExpectTraffic(block.Of("scores"), {product, 1, 2 * product, 2});
  // Half of the queries and all keys on each of two ranks.
  block.shard.cp = 2;
  const double half = 4 * 16 * ProductBytes(256, 512, 64);
  ExpectTraffic(block.Of("scores"), {half, 1, 2 * half, 2});
}

// Queries, keys, values and the result, once each forward; backward moves 2.5
// times as much. In a ring, every rank sees all keys and values.
TEST(AttentionOperators, FusedAttentionMovesItsInputsAndItsResult) {
  OperatorBytes block;
  const double bytes = 2 * kTokens * (2 * kQuery + 2 * kKey);
  ExpectTraffic(block.Of("core"), {bytes, 1, 2.5 * bytes, 2});
  EXPECT_DOUBLE_EQ(block.Block().core_forward_s, bytes);
  EXPECT_DOUBLE_EQ(block.Block().core_backward_s, 2.5 * bytes);
  EXPECT_DOUBLE_EQ(block.Block().ring_bytes, 2 * kTokens * 2 * kKey);
  block.shard.cp = 2;
  const double ring = 2 * (kTokens / 2 * 2 * kQuery + kTokens * 2 * kKey);
  ExpectTraffic(block.Of("core"), {ring, 2, 2.5 * ring, 4});
}

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

}  // namespace trials::attention_operators_test
