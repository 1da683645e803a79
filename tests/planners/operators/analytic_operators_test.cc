#include "planners/operators/analytic_operators.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace planners::analytic_operators_test {

const OperatorProfile& Profile(const OperatorTable& table,
                               const std::string& name, int micro_batch,
                               int tp) {
  const auto found =
      std::find(table.names().begin(), table.names().end(), name);
  EXPECT_NE(found, table.names().end()) << name;
  const OperatorProfile* profile =
      table.Find(static_cast<int>(found - table.names().begin()), micro_batch,
                 std::countr_zero(static_cast<unsigned>(tp)), 0);
  EXPECT_NE(profile, nullptr);
  return *profile;
}

constexpr double kMb = 1024.0 * 1024.0;

// 8 tokens of width 8 in 2 sequences; 4 heads, of which pairs share keys and
// values; a gated layer of width 12, 32 tokens in the vocabulary; two GPUs.
AnalyticJob Tiny() {
  return {.hidden = 8,
          .heads = 4,
          .kv_heads = 2,
          .feed_forward = 12,
          .gated = true,
          .sequence_length = 4,
          .vocabulary = 32,
          .largest_tp = 2};
}
constexpr double kFast = 1e15;

// One GPU's share, worked by hand, in numbers of 2 bytes. What is sent on has
// the residual, 64 numbers, and beside the scores the values, 16.
struct Share {
  const char* name;
  double flops;
  double touched;
  double weights;
  double kept;
  double output;
};
constexpr std::array<Share, 16> kTinyShares = {{
    {"encoder-embedding", 0, 2 * 64, 32 * 8 / 2, 64 / 2, 64},
    {"enc-1st-layernorm", 0, 2 * 64, 0, 64, 128},
    // To 8 features of queries, 4 of keys and 4 of values.
    {"enc-attention-qkv", 8 * 2 * 8 * 8, 8 * (8 + 16) / 2, 8 * 8, 64, 128},
    // Two heads with 8 times 4 scores of 2 features.
    {"enc-attention-score", 2 * 8 * 4 * 2 * 2, 32 + 16 + 64, 0, 32 + 16, 144},
    {"enc-attention-softmax", 0, 2 * 64, 0, 64, 144},
    {"enc-attention-dropout", 0, 2 * 64 + 64 / 2, 0, 64, 144},
    {"enc-attention-context", 2 * 8 * 4 * 2 * 2, 32 + 16 + 64, 0, 16, 96},
    {"enc-attention-dense", 8 * 2 * 4 * 8, 8 * (8 + 8) / 2, 4 * 8, 32, 128},
    {"enc-post-attention-dropout", 0, 3 * 64, 0, 64 / 2, 64},
    {"enc-2nd-layernorm", 0, 2 * 64, 0, 64, 128},
    {"enc-MLP-GEMM-1", 8 * 2 * 8 * 12, 8 * (8 + 24) / 2, 8 * 12, 64, 160},
    {"enc-MLP-gelu", 0, 3 * 8 * 6, 0, 2 * 8 * 6, 112},
    {"enc-MLP-GEMM-2", 8 * 2 * 6 * 8, 8 * (12 + 8) / 2, 6 * 8, 8 * 6, 128},
    {"enc-post-MLP-dropout", 0, 3 * 64, 0, 64 / 2, 64},
    {"final-layernorm", 0, 2 * 64, 0, 64, 64},
    // Keeps the input and half of the logits, and sends nothing on.
    {"gpt-post-process", 8 * 2 * 8 * 16, 8 * (8 + 32) / 2, 8 * 16, 64 + 8 * 16,
     0},
}};

TEST(AnalyticOperators, ShareTheWorkOfATinyModelAsWorkedByHand) {
  AnalyticJob bytes = Tiny();  // a number takes 1 us
  bytes.tflops = kFast;
  bytes.memory_gb_per_s = 2e-3;
  bytes.link_gb_per_s = kFast;
  AnalyticJob flops = Tiny();  // a FLOP takes 1 us
  flops.tflops = 1e-6;
  flops.memory_gb_per_s = kFast;
  flops.link_gb_per_s = kFast;
  const OperatorTable of_bytes = AnalyticOperators(bytes);
  const OperatorTable of_flops = AnalyticOperators(flops);
  ASSERT_EQ(of_bytes.names().size(), kTinyShares.size());
  double input = 0.0;
  for (std::size_t i = 0; i < kTinyShares.size(); ++i) {
    const Share& share = kTinyShares[i];
    EXPECT_EQ(of_bytes.names()[i], share.name);
    const OperatorProfile& moved = Profile(of_bytes, share.name, 2, 2);
    EXPECT_NEAR(moved.forward_us, share.touched, 1e-9) << share.name;
    EXPECT_NEAR(moved.backward_us, share.touched, 1e-9) << share.name;
    EXPECT_DOUBLE_EQ(moved.weights_mb * kMb, 2 * share.weights) << share.name;
    EXPECT_DOUBLE_EQ(moved.activations_mb * kMb, 2 * share.kept) << share.name;
    EXPECT_DOUBLE_EQ(moved.output_mb * kMb, 2 * share.output) << share.name;
    EXPECT_DOUBLE_EQ(moved.input_mb * kMb, 2 * input) << share.name;
    input = share.output;
    const OperatorProfile& computed = Profile(of_flops, share.name, 2, 2);
    EXPECT_NEAR(computed.forward_us, share.flops, 1e-9) << share.name;
    EXPECT_NEAR(computed.backward_us, 2 * share.flops, 1e-9) << share.name;
  }
}

// The program adds the transfer of a stage's last output to its time, also that
// of the last stage, whose output is nothing: with the logits there, nnScaler
// had 81% of the optimum of Llama-3.2-1B on 16 GPUs instead of 100%.
TEST(AnalyticOperators, SendOnWhatAcesosProfilesOfGpt13BSay) {
  const OperatorTable table = AnalyticOperators({.hidden = 2048,
                                                 .heads = 32,
                                                 .kv_heads = 32,
                                                 .feed_forward = 8192,
                                                 .sequence_length = 2048,
                                                 .vocabulary = 51'200});
  constexpr std::array kMbOfHalf = {32, 64, 80, 560, 560, 560, 48, 64,
                                    32, 64, 96, 96,  64,  32,  32, 0};
  for (std::size_t i = 0; i < kMbOfHalf.size(); ++i) {
    const std::string& name = table.names()[i];
    EXPECT_DOUBLE_EQ(Profile(table, name, 4, 2).output_mb, kMbOfHalf[i])
        << name;
  }
}

// 2 bytes of 64 numbers, at 128 bytes per us.
TEST(AnalyticOperators, EveryResultThatIsSplitIsReducedOnce) {
  AnalyticJob job = Tiny();
  job.tflops = job.memory_gb_per_s = kFast;
  job.link_gb_per_s = 0.128;
  const OperatorTable table = AnalyticOperators(job);
  const std::set<std::string> forward = {
      "encoder-embedding", "enc-attention-dense", "enc-MLP-GEMM-2"};
  const std::set<std::string> backward = {"enc-attention-qkv", "enc-MLP-GEMM-1",
                                          "gpt-post-process"};
  for (const Share& share : kTinyShares) {
    const OperatorProfile& profile = Profile(table, share.name, 2, 2);
    EXPECT_NEAR(profile.forward_us, forward.contains(share.name) ? 1 : 0, 1e-9)
        << share.name;
    EXPECT_NEAR(profile.backward_us, backward.contains(share.name) ? 1 : 0,
                1e-9)
        << share.name;
  }
  job.gpus_per_node = 1;  // twice as slow
  job.between_hosts_gb_per_s = 0.064;
  EXPECT_NEAR(
      Profile(AnalyticOperators(job), "enc-MLP-GEMM-2", 2, 2).forward_us, 2,
      1e-9);
}

}  // namespace planners::analytic_operators_test
