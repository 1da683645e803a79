// The terms of the cost model, computed by hand.

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/cost/term.h"

namespace surrogates::physical_terms_test {

using trials::ParallelConfig;

using Values = std::map<std::string, double>;

Values ValuesOf(const std::vector<CostTerm>& terms,
                const ParallelConfig& config) {
  Values values;
  for (const CostTerm& term : terms) {
    values[term.name] = term.feature(config);
  }
  return values;
}

void ExpectValues(const Values& found, const Values& expected) {
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_NEAR(found.at(name), value, 1e-12) << name;
  }
}

// On 8 hosts of 8 GPUs, with pipeline, experts and ZeRO 1:
//   duration of the pipeline, in microbatches: (8 2 + 3) / (8 2) = 19 / 16
//   ranks with the same parameters: 8 / 2 = 4, 2 of them on a host
//   share of the model of a rank: 1 / (2 4 2) = 1 / 16
const ParallelConfig kExperts = {.dp = 8,
                                 .tp = 2,
                                 .pp = 4,
                                 .zero_stage = 1,
                                 .overlap_zero_comm = false,
                                 .overlap_zero_allgather = false,
                                 .microbatches = 8,
                                 .model_chunks = 2,
                                 .ep = 2};
constexpr ClusterShape kEightHosts = {.gpus = 64, .gpus_per_node = 8};

// Tensor parallelism over two hosts, two ranks per sequence, ZeRO 3.
const ParallelConfig kWide = {.dp = 2,
                              .tp = 16,
                              .pp = 1,
                              .zero_stage = 3,
                              .overlap_zero_comm = true,
                              .overlap_zero_allgather = true,
                              .microbatches = 4,
                              .grad_checkpoint = trials::kRecomputeFull,
                              .cp = 2};

TEST(PhysicalTimeTerms, OfAPipelineWithExperts) {
  ExpectValues(ValuesOf(PhysicalTimeTerms(kEightHosts), kExperts),
               {{"compute", 19.0 / 16.0 / 64.0},
                {"recompute", 0.0},
                {"launch", 8.0 * 19.0 / 16.0 / 4.0},
                {"optimizer", 1.0 / 64.0},
                {"constant", 1.0},
                {"DP volume, intra-node", 1.0 / 2.0 / 16.0},
                // 4 groups share the links of a host.
                {"DP volume, inter-node", 1.0 / 2.0 * 4.0 / 16.0},
                {"DP latency", 6.0},
                {"ZeRO gather", 3.0 / 4.0 / 16.0},
                {"ZeRO reduce, not hidden", 3.0 / 4.0 / 16.0},
                {"ZeRO-3 gather", 0.0},
                {"TP volume, intra-node", 1.0 / 2.0 * 19.0 / 16.0 / 32.0},
                {"TP latency, intra-node", 2.0 * 9.5 / 4.0},
                {"TP volume, inter-node", 0.0},
                {"TP latency, inter-node", 0.0},
                {"EP volume, intra-node", 0.0},
                {"EP latency, intra-node", 0.0},
                {"EP volume, inter-node", 1.0 / 2.0 * 19.0 / 16.0 / 32.0},
                {"EP latency, inter-node", 2.0 * 9.5 / 4.0},
                {"CP volume", 0.0},
                {"PP volume", 2.0 * 2.0 * 19.0 / 16.0 / 8.0},
                {"PP latency", 2.0 * 2.0 * 9.5}});
}

TEST(PhysicalTimeTerms, OfWideTensorParallelism) {
  ExpectValues(ValuesOf(PhysicalTimeTerms(kEightHosts), kWide),
               {{"compute", 1.0 / 64.0},
                {"recompute", 1.0 / 64.0},
                {"launch", 4.0},
                {"optimizer", 1.0 / 16.0 / 4.0},
                {"DP volume, intra-node", 0.0},
                // ZeRO 3 reduces and gathers in each of the 4 microbatches.
                {"DP volume, inter-node", 4.0 * 3.0 / 4.0 * 8.0 / 16.0},
                {"DP latency", 4.0 * 6.0},
                {"ZeRO gather", 0.0},
                {"ZeRO reduce, not hidden", 0.0},
                {"ZeRO-3 gather", 4.0 * 3.0 / 4.0 / 16.0},
                {"TP volume, intra-node", 0.0},
                {"TP volume, inter-node", 15.0 / 16.0 / 4.0},
                {"TP latency, inter-node", 30.0 * 4.0},
                {"EP volume, inter-node", 0.0},
                {"EP latency, inter-node", 0.0},
                {"CP volume", 1.0 / 2.0 / 64.0},
                {"PP volume", 0.0},
                {"PP latency", 0.0}});
}

// ZeRO 2 and 3 keep a shard of the gradients only.
TEST(PhysicalTimeTerms, ZeroTwoAndThreeReduceInEveryMicrobatch) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    const auto reduced = [&](int microbatches) {
      return ValuesOf(PhysicalTimeTerms({.gpus = 8, .gpus_per_node = 8}),
                      {.dp = 8,
                       .zero_stage = zero_stage,
                       .microbatches = microbatches})["DP volume, intra-node"];
    };
    EXPECT_DOUBLE_EQ(reduced(4), (zero_stage >= 2 ? 4.0 : 1.0) * reduced(1));
  }
}

// tp = 8 fits on a host of 8, tp = 16 on a single host of 16.
TEST(PhysicalTimeTerms, AGroupThatFillsAHostStaysWithinIt) {
  const ClusterShape two_hosts = {.gpus = 16, .gpus_per_node = 8};
  ParallelConfig config = {.dp = 2, .tp = 8, .pp = 1, .microbatches = 1};
  Values values = ValuesOf(PhysicalTimeTerms(two_hosts), config);
  EXPECT_GT(values["TP volume, intra-node"], 0.0);
  EXPECT_EQ(values["TP volume, inter-node"], 0.0);
  config = {.dp = 1, .tp = 16, .pp = 1, .microbatches = 1};
  values =
      ValuesOf(PhysicalTimeTerms({.gpus = 16, .gpus_per_node = 16}), config);
  EXPECT_GT(values["TP volume, intra-node"], 0.0);
  values = ValuesOf(PhysicalTimeTerms(two_hosts), config);
  EXPECT_GT(values["TP volume, inter-node"], 0.0);
  // Two replicas of 4 GPUs, and experts over both, fill a host; of 8, two.
  config = {.dp = 4, .tp = 2, .pp = 2, .microbatches = 2, .ep = 2};
  values = ValuesOf(PhysicalTimeTerms(two_hosts), config);
  EXPECT_GT(values["EP latency, intra-node"], 0.0);
  EXPECT_EQ(values["EP latency, inter-node"], 0.0);
  config.cp = 2;
  values = ValuesOf(PhysicalTimeTerms(two_hosts), config);
  EXPECT_EQ(values["EP latency, intra-node"], 0.0);
  EXPECT_GT(values["EP latency, inter-node"], 0.0);
}

TEST(PhysicalTimeTerms, TheRankOrderDecidesWhichReplicasShareAHost) {
  const ParallelConfig config = {.dp = 4, .tp = 2, .pp = 2, .microbatches = 2};
  ClusterShape shape = {.gpus = 16, .gpus_per_node = 8};
  // Data next to tensor parallelism: all 4 ranks of a group on a host.
  ExpectValues(ValuesOf(PhysicalTimeTerms(shape), config),
               {{"DP volume, intra-node", 3.0 / 4.0 / 4.0},
                {"DP volume, inter-node", 0.0}});
  // Data outermost: 2 of a group, 4 groups with a quarter of the model each.
  shape.rank_order = trials::RankOrder::kDataOutermost;
  ExpectValues(ValuesOf(PhysicalTimeTerms(shape), config),
               {{"DP volume, intra-node", 1.0 / 2.0 / 4.0},
                {"DP volume, inter-node", 1.0 / 2.0}});
}

TEST(PhysicalTimeTerms, EachKindOfOverlapHidesItsCommunication) {
  ParallelConfig config = kExperts;
  config.overlap_zero_comm = true;
  Values values = ValuesOf(PhysicalTimeTerms(kEightHosts), config);
  EXPECT_GT(values["ZeRO gather"], 0.0);
  EXPECT_EQ(values["ZeRO reduce, not hidden"], 0.0);
  config = kExperts;
  config.overlap_zero_allgather = true;
  values = ValuesOf(PhysicalTimeTerms(kEightHosts), config);
  EXPECT_EQ(values["ZeRO gather"], 0.0);
  EXPECT_GT(values["ZeRO reduce, not hidden"], 0.0);
  config = kExperts;
  config.zero_stage = 0;
  values = ValuesOf(PhysicalTimeTerms(kEightHosts), config);
  EXPECT_EQ(values["ZeRO gather"], 0.0);
  EXPECT_EQ(values["ZeRO reduce, not hidden"], 0.0);
  EXPECT_DOUBLE_EQ(values["optimizer"], 1.0 / 16.0);
}

TEST(PhysicalMemoryTerms, OfAPipelineWithExperts) {
  const Values expected = {
      {"parameters", 1.0 / 16.0},
      {"gradients", 1.0 / 16.0},
      {"optimizer state", 1.0 / 64.0},
      // 4 microbatches in flight, of 2 chunks each: 4 + 3 / 2.
      {"activations", 5.5 / (8.0 * 8.0 * 4.0 * 2.0)},
      {"checkpoints", 0.0},
      {"one microbatch", 1.0 / (8.0 * 8.0 * 2.0)},
      {"constant", 1.0},
      {"model state", 4.0 / 16.0 / 16.0 + 12.0 / 16.0 / 64.0}};
  ExpectValues(ValuesOf(PhysicalMemoryTerms(), kExperts), expected);
  ParallelConfig config = kExperts;
  config.zero_stage = 2;
  ExpectValues(ValuesOf(PhysicalMemoryTerms(), config),
               {{"parameters", 1.0 / 16.0},
                {"gradients", 1.0 / 64.0},
                {"optimizer state", 1.0 / 64.0},
                {"model state", 2.0 / 16.0 / 16.0 + 14.0 / 16.0 / 64.0}});
  config.zero_stage = 0;
  ExpectValues(ValuesOf(PhysicalMemoryTerms(), config),
               {{"optimizer state", 1.0 / 16.0}, {"model state", 1.0 / 16.0}});
}

TEST(PhysicalMemoryTerms, OfWideTensorParallelism) {
  ExpectValues(ValuesOf(PhysicalMemoryTerms(), kWide),
               {{"parameters", 1.0 / 64.0},
                {"gradients", 1.0 / 64.0},
                {"optimizer state", 1.0 / 64.0},
                {"activations", 0.0},
                {"checkpoints", 1.0 / 256.0},
                {"one microbatch", 1.0 / 256.0},
                {"model state", 1.0 / 64.0}});
}

// Korthikanti et al. (2022): of 34 bytes, tensor parallelism leaves 10 whole,
// which sequence parallelism splits.
TEST(PhysicalMemoryTerms,
     SequenceParallelismSplitsWhatTensorParallelismLeaves) {
  ParallelConfig config = kExperts;
  config.tp = 4;
  const double whole = ValuesOf(PhysicalMemoryTerms(), config)["activations"];
  const auto with_sp = [&config](int sp, const std::string& name) {
    config.sp = sp;
    return ValuesOf(PhysicalMemoryTerms({.sp = true}), config)[name];
  };
  EXPECT_DOUBLE_EQ(with_sp(4, "activations"), whole);
  EXPECT_DOUBLE_EQ(with_sp(1, "activations"),
                   whole * (24.0 / 4.0 + 10.0) / (34.0 / 4.0));
  config.grad_checkpoint = trials::kRecomputeFull;
  EXPECT_DOUBLE_EQ(with_sp(1, "checkpoints"), 4.0 * whole);
  EXPECT_DOUBLE_EQ(with_sp(2, "checkpoints"), 2.0 * whole);
}

TEST(PhysicalMemoryTerms, OnlyRecomputationOfAttentionAloneTellsItsScores) {
  const auto with = [](int recomputation) {
    ParallelConfig config = kExperts;
    config.grad_checkpoint = recomputation;
    return ValuesOf(PhysicalMemoryTerms({.attention = true}), config);
  };
  Values kept = with(trials::kRecomputeNothing);
  EXPECT_DOUBLE_EQ(kept["attention"], kept["activations"]);
  EXPECT_EQ(with(trials::kRecomputeSelective)["attention"], 0.0);
  EXPECT_EQ(with(trials::kRecomputeSelective)["activations"],
            kept["activations"]);
  EXPECT_EQ(ValuesOf(PhysicalMemoryTerms(), kExperts).count("attention"), 0U);
}

TEST(PhysicalMemoryTerms, APipelineHoldsAtMostItsMicrobatches) {
  ParallelConfig config = {.dp = 1, .tp = 1, .pp = 4, .microbatches = 2};
  // Two microbatches, half of the batch each, of a quarter of the layers.
  EXPECT_DOUBLE_EQ(ValuesOf(PhysicalMemoryTerms(), config)["activations"],
                   1.0 / 4.0);
  config.microbatches = 8;
  EXPECT_DOUBLE_EQ(ValuesOf(PhysicalMemoryTerms(), config)["activations"],
                   4.0 / 8.0 / 4.0);
}

TEST(WithSequenceRanks, MakesThemContextParallel) {
  const ClusterShape shape = {.gpus = 8, .gpus_per_node = 8};
  const ParallelConfig within = {.dp = 2, .tp = 4, .pp = 1, .sp = 2};
  EXPECT_EQ(WithSequenceRanks(within, shape), within);
  const ParallelConfig none = {.dp = 2, .tp = 4, .pp = 1, .sp = 1};
  EXPECT_EQ(WithSequenceRanks(none, shape), none);
  // Ranks of their own: 2 1 1 cp 4 = 8 GPUs.
  EXPECT_EQ(WithSequenceRanks({.dp = 2, .tp = 1, .pp = 1, .sp = 4}, shape),
            (ParallelConfig{.dp = 2, .tp = 1, .pp = 1, .cp = 4, .sp = 1}));
  EXPECT_EQ(WithSequenceRanks({.dp = 2, .tp = 2, .pp = 1, .sp = 2}, shape),
            (ParallelConfig{.dp = 2, .tp = 2, .pp = 1, .cp = 2, .sp = 1}));
  // Ranks that dp counts.
  EXPECT_EQ(WithSequenceRanks({.dp = 8, .tp = 1, .pp = 1, .sp = 4}, shape),
            (ParallelConfig{.dp = 2, .tp = 1, .pp = 1, .cp = 4, .sp = 1}));
  // Neither: sp = 3 does not divide dp = 8.
  EXPECT_EQ(WithSequenceRanks({.dp = 8, .tp = 1, .pp = 1, .sp = 3}, shape),
            (ParallelConfig{.dp = 8, .tp = 1, .pp = 1, .sp = 1}));
}

}  // namespace surrogates::physical_terms_test
