// Each knob changes what is sent, kept or waited for as it should, and nothing
// else.

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "trainer/tests/tiny.h"

namespace trainer::testing::knobs_test {

TrialResult Trained(std::string_view type, std::string_view config) {
  Job job = TinyJob(type, config, 2);
  job.timeline = true;
  TrialResult result = Train(job);
  EXPECT_EQ(result.reason, EndReason::kNone) << result.message;
  return result;
}

Traffic Sent(const TrialResult& result, const std::string& group,
             const std::string& operation, int rank = 0) {
  const auto& traffic = result.ranks[rank].traffic;
  const auto found = traffic.find(group);
  if (found == traffic.end()) {
    return {};
  }
  const auto operations = found->second.find(operation);
  return operations == found->second.end() ? Traffic{} : operations->second;
}

double Peak(const TrialResult& result, Region region, int rank = 0) {
  return static_cast<double>(
      result.ranks[rank].region_peak_bytes[static_cast<int>(region)]);
}

// Bytes of all weights of a rank.
std::int64_t WeightBytes(const TrialResult& result) {
  return result.ranks[0].parameters * static_cast<std::int64_t>(sizeof(double));
}

// Spans of the first rank.
std::vector<Span> Spans(const TrialResult& result, std::string_view what) {
  std::vector<Span> spans;
  for (const Span& span : result.ranks[0].timeline) {
    if (span.what == what) {
      spans.push_back(span);
    }
  }
  return spans;
}

constexpr double kPadding = 0.1;  // relative, of buckets and the arena

TEST(Knobs, DataParallelismReducesEachGradientOncePerStep) {
  const TrialResult result = Trained("llama", "dp=2,tp=1,pp=1");
  const Traffic sent = Sent(result, "dp reduce", "all-reduce");
  EXPECT_EQ(sent.bytes, 2 * WeightBytes(result));  // 2 steps
  EXPECT_EQ(
      Sent(Trained("llama", "dp=1,tp=1,pp=1"), "dp reduce", "all-reduce").calls,
      0);
}

// A job of two steps has the same losses on one rank and on several.
void ExpectLossesOfOneRank(Job job, std::string_view config) {
  const TrialResult one = Train(job);
  ASSERT_EQ(one.losses.size(), 2U) << one.message;
  job.config = trials::ParseParallelConfig(config);
  const TrialResult two = Train(job);
  ASSERT_EQ(two.losses.size(), 2U) << two.message;
  EXPECT_NEAR(two.losses[1], one.losses[1], 1e-12);
}

TEST(Knobs, AnImageMayHaveMorePatchesThanTheModelHasColumns) {
  Job job = TinyJob("vit", "dp=1", 2);
  job.batch_size = 2;
  job.sequence_length = 80;
  job.model.max_positions = 80;
  ExpectLossesOfOneRank(job, "tp=2,sp=2");
}

// 256 tokens of 512 copies, of which each of two experts has more than it has
// columns.
TEST(Knobs, AnExpertMayHaveMoreRowsThanColumns) {
  Job job = TinyJob("mixtral", "dp=1", 2);
  job.model.experts = 2;
  job.batch_size = 4;
  job.sequence_length = 64;
  ExpectLossesOfOneRank(job, "dp=2,ep=2");
}

TEST(Knobs, SmallerBucketsReduceInMoreCalls) {
  const TrialResult small = Trained("llama", "dp=2,tp=1,pp=1,dp_bucket_mb=1");
  const TrialResult large = Trained("llama", "dp=2,tp=1,pp=1,dp_bucket_mb=100");
  const Traffic a = Sent(small, "dp reduce", "all-reduce");
  const Traffic b = Sent(large, "dp reduce", "all-reduce");
  EXPECT_GT(a.calls, b.calls);
  EXPECT_EQ(a.bytes, b.bytes);
  EXPECT_EQ(b.calls, 2 * 1);
  EXPECT_EQ(small.losses, large.losses);
}

TEST(Knobs, ZeroStagesSplitOptimizerThenGradientsThenWeights) {
  std::vector<TrialResult> stages;
  for (const char* zero : {"0", "1", "2", "3"}) {
    stages.push_back(Trained(
        "llama",
        std::string("dp=4,tp=1,pp=1,zero_bucket_mb=1,zero_stage=") + zero));
  }
  const double weights = static_cast<double>(WeightBytes(stages[0]));
  const auto expect = [&](int stage, Region region, double share) {
    EXPECT_NEAR(Peak(stages[stage], region) / weights, share, kPadding * share)
        << "ZeRO " << stage << " " << RegionName(region);
  };
  for (int stage = 0; stage < 4; ++stage) {
    expect(stage, Region::kOptimizer, stage >= 1 ? 0.75 : 3.0);
    expect(stage, Region::kGradients, stage >= 2 ? 0.25 : 1.0);
    expect(stage, Region::kParameters, stage >= 3 ? 0.25 : 1.0);
  }
}

TEST(Knobs, ZeroScattersGradientsAndGathersWeights) {
  for (const char* zero : {"1", "2", "3"}) {
    const TrialResult result = Trained(
        "llama",
        std::string("dp=2,tp=1,pp=1,microbatches=2,zero_stage=") + zero);
    const double weights = static_cast<double>(WeightBytes(result));
    const int stage = zero[0] - '0';
    // Stages 2 and 3 reduce after each microbatch, stage 3 gathers for each
    // forward and backward.
    const double reduces = stage == 1 ? 2.0 : 4.0;
    const double gathers = stage == 3 ? 8.0 : 2.0;
    EXPECT_NEAR(
        static_cast<double>(Sent(result, "dp reduce", "reduce-scatter").bytes),
        reduces * weights, kPadding * weights);
    EXPECT_EQ(Sent(result, "dp reduce", "all-reduce").calls, 0);
    if (stage < 3) {
      EXPECT_NEAR(
          static_cast<double>(Sent(result, "dp gather", "all-gather").bytes),
          gathers * weights, kPadding * weights);
    } else {  // a unit at both ends of a chunk keeps its weights
      EXPECT_LE(Sent(result, "dp gather", "all-gather").bytes,
                gathers * weights * (1 + kPadding));
      EXPECT_GT(Sent(result, "dp gather", "all-gather").bytes,
                0.7 * gathers * weights);
    }
  }
}

TEST(Knobs, LargerZeroBucketsNeedMoreMemoryForCommunication) {
  const TrialResult small =
      Trained("llama", "dp=2,tp=1,pp=1,zero_stage=2,zero_bucket_mb=1");
  const TrialResult large =
      Trained("llama", "dp=2,tp=1,pp=1,zero_stage=2,zero_bucket_mb=60");
  EXPECT_LT(Peak(small, Region::kCommunication),
            Peak(large, Region::kCommunication));
  EXPECT_GT(Sent(small, "dp reduce", "reduce-scatter").calls,
            Sent(large, "dp reduce", "reduce-scatter").calls);
  EXPECT_EQ(small.losses, large.losses);
}

TEST(Knobs, OverlapOfZeroCommunicationWaitsForReducesLater) {
  const std::string config =
      "dp=2,tp=1,pp=1,zero_stage=1,zero_bucket_mb=1,overlap_zero_comm=";
  const TrialResult off = Trained("llama", config + "0");
  const TrialResult on = Trained("llama", config + "1");
  EXPECT_TRUE(Spans(off, "wait for reduce").empty());
  const auto waits = Spans(on, "wait for reduce");
  ASSERT_FALSE(waits.empty());
  EXPECT_GE(waits.front().begin_s, Spans(on, "backward").front().end_s);
  EXPECT_EQ(off.losses, on.losses);
}

TEST(Knobs, OverlapOfGathersWaitsInForward) {
  for (const char* zero : {"1", "3"}) {
    const std::string config = std::string("dp=2,tp=1,pp=1,zero_stage=") +
                               zero +
                               ",zero_bucket_mb=1,overlap_zero_allgather=";
    const TrialResult off = Trained("llama", config + "0");
    const TrialResult on = Trained("llama", config + "1");
    EXPECT_TRUE(Spans(off, "wait for gather").empty());
    EXPECT_FALSE(Spans(on, "wait for gather").empty());
    EXPECT_EQ(Sent(off, "dp gather", "all-gather").bytes,
              Sent(on, "dp gather", "all-gather").bytes);
    EXPECT_EQ(off.losses, on.losses);
    if (zero[0] == '3') {  // the next block's weights are there as well
      EXPECT_GT(Peak(on, Region::kCommunication),
                Peak(off, Region::kCommunication));
    }
  }
}

TEST(Knobs, TensorParallelismReducesTwicePerBlockAndDirection) {
  const TrialResult result = Trained("llama", "dp=1,tp=2,pp=1");
  // 4 blocks, 2 directions, 2 sums; embedding, head, maxima and sums of the
  // loss; 2 steps.
  EXPECT_EQ(Sent(result, "tp", "all-reduce").calls, 2 * (4 * 2 * 2 + 4));
  EXPECT_LT(
      Peak(result, Region::kParameters),
      0.6 * Peak(Trained("llama", "dp=1,tp=1,pp=1"), Region::kParameters));
}

TEST(Knobs, SequenceParallelismReplacesAllReducesAndSplitsActivations) {
  const TrialResult off = Trained("llama", "dp=1,tp=4,pp=1");
  const TrialResult on = Trained("llama", "dp=1,tp=4,pp=1,sp=4");
  EXPECT_GT(Sent(on, "tp", "reduce-scatter").calls, 0);
  EXPECT_GT(Sent(on, "tp", "all-gather").calls,
            Sent(on, "tp", "reduce-scatter").calls);
  EXPECT_LT(4 * Sent(on, "tp", "all-reduce").bytes,
            Sent(off, "tp", "all-reduce").bytes);
  EXPECT_LT(Peak(on, Region::kActivations),
            0.8 * Peak(off, Region::kActivations));
}

TEST(Knobs, PipelineSendsActivationsAndGradientsOfEachMicrobatch) {
  const TrialResult result = Trained("llama", "dp=1,tp=1,pp=2,microbatches=4");
  const Traffic sent = Sent(result, "pp forward", "send");
  EXPECT_EQ(sent.calls, 2 * 4);
  EXPECT_EQ(sent.bytes, 2 * 16 * 16 * 32 * 8);  // tokens of 2 steps, doubles
  EXPECT_EQ(Sent(result, "pp backward", "receive").bytes, sent.bytes);
}

TEST(Knobs, ExpertsExchangeTheirCountsOncePerBlockAndMicrobatch) {
  const TrialResult result =
      Trained("mixtral", "dp=2,ep=2,tp=1,pp=1,microbatches=2");
  EXPECT_EQ(Sent(result, "ep", "exchange on the host").calls,
            2 * 4 * 2);  // steps, blocks, microbatches
}

TEST(Knobs, OneForwardOneBackwardKeepsAsManyMicrobatchesAsStagesBehind) {
  const TrialResult result = Trained("llama", "dp=1,tp=1,pp=4,microbatches=8");
  const double first = Peak(result, Region::kActivations, 1);
  const double later = Peak(result, Region::kActivations, 2);
  EXPECT_NEAR(first / later, 3.0 / 2.0, 0.25);
}

TEST(Knobs, MicrobatchesReduceActivations) {
  const TrialResult one = Trained("llama", "dp=1,tp=1,pp=1,microbatches=1");
  const TrialResult four = Trained("llama", "dp=1,tp=1,pp=1,microbatches=4");
  EXPECT_NEAR(static_cast<double>(Peak(four, Region::kActivations)) /
                  static_cast<double>(Peak(one, Region::kActivations)),
              0.25, 0.03);
  EXPECT_EQ(Spans(four, "forward").size(), 2U * 4);
}

TEST(Knobs, ModelChunksSendMoreOften) {
  const std::string config = "dp=1,tp=1,pp=2,microbatches=4,model_chunks=";
  const TrialResult one = Trained("llama", config + "1");
  const TrialResult two = Trained("llama", config + "2");
  EXPECT_EQ(Sent(two, "pp forward", "send").calls,
            2 * Sent(one, "pp forward", "send").calls);
  EXPECT_EQ(Spans(two, "forward").size(), 2 * Spans(one, "forward").size());
}

TEST(Knobs, OverlapOfP2pPostsReceivesAnActionAhead) {
  const std::string config =
      "dp=1,tp=1,pp=2,microbatches=4,model_chunks=2,overlap_p2p=";
  const TrialResult off = Trained("llama", config + "0");
  const TrialResult on = Trained("llama", config + "1");
  EXPECT_EQ(off.losses, on.losses);
  // The buffer of the next receive is there during a computation.
  EXPECT_GT(Peak(on, Region::kActivations), Peak(off, Region::kActivations));
}

TEST(Knobs, SendsAreKeptOnlyUntilTheyAreReceived) {
  // A middle stage of a long schedule needs no more memory than of a short one.
  const TrialResult few = Trained("llama", "dp=1,tp=1,pp=4,microbatches=8");
  Job job = TinyJob("llama", "dp=1,tp=1,pp=4,microbatches=16", 2);
  job.batch_size = 32;
  const TrialResult many = Train(job);
  EXPECT_EQ(Peak(few, Region::kActivations, 1),
            Peak(many, Region::kActivations, 1));
}

TEST(Knobs, RecomputationFreesActivations) {
  const std::string config = "dp=1,tp=1,pp=1,grad_checkpoint=";
  const TrialResult nothing = Trained("gpt2", config + "0");
  const TrialResult full = Trained("gpt2", config + "1");
  const TrialResult selective = Trained("gpt2", config + "2");
  EXPECT_LT(Peak(full, Region::kActivations),
            Peak(selective, Region::kActivations));
  // Selective: without the probabilities of 4 blocks, [16, 8, 16, 16] doubles.
  const std::int64_t probabilities = 4 * 16 * 8 * 16 * 16 * 8;
  EXPECT_NEAR(static_cast<double>(Peak(nothing, Region::kActivations) -
                                  Peak(selective, Region::kActivations)),
              static_cast<double>(probabilities),
              kPadding * static_cast<double>(probabilities));
  EXPECT_EQ(nothing.losses, full.losses);
  EXPECT_EQ(nothing.losses, selective.losses);
}

TEST(Knobs, ContextParallelismGathersKeysAndSplitsActivations) {
  const TrialResult one = Trained("qwen2", "dp=1,tp=1,pp=1,cp=1");
  const TrialResult two = Trained("qwen2", "dp=1,tp=1,pp=1,cp=2");
  // Keys and values of 4 heads of size 4 of all tokens, per block and step.
  EXPECT_EQ(Sent(two, "cp", "all-gather").bytes,
            2 * 4 * 16 * 16 * 2 * 4 * 4 * 8);
  EXPECT_EQ(Sent(two, "cp", "reduce-scatter").bytes,
            Sent(two, "cp", "all-gather").bytes);
  EXPECT_LT(Peak(two, Region::kActivations),
            0.65 * Peak(one, Region::kActivations));
}

TEST(Knobs, ExpertParallelismSplitsExpertsAndSendsTokens) {
  const TrialResult off = Trained("mixtral", "dp=4,tp=1,pp=1,ep=1");
  const TrialResult on = Trained("mixtral", "dp=4,tp=1,pp=1,ep=4");
  EXPECT_EQ(Sent(off, "ep", "all-to-all").calls, 0);
  EXPECT_EQ(Sent(on, "ep", "all-to-all").calls, 2 * 4 * 4);
  EXPECT_LT(Peak(on, Region::kParameters),
            0.6 * Peak(off, Region::kParameters));
  EXPECT_EQ(Sent(on, "expert reduce", "all-reduce").calls, 0);
  EXPECT_GT(Sent(off, "expert reduce", "all-reduce").calls, 0);
}

TEST(Knobs, TiedEmbeddingsOfTwoStagesShareTheirGradient) {
  const TrialResult tied = Trained("qwen2", "dp=1,tp=1,pp=2,microbatches=2");
  EXPECT_EQ(Sent(tied, "tied", "all-reduce").bytes, 2 * 61 * 32 * 8);
  const TrialResult untied = Trained("llama", "dp=1,tp=1,pp=2,microbatches=2");
  EXPECT_EQ(Sent(untied, "tied", "all-reduce").calls, 0);
}

}  // namespace trainer::testing::knobs_test
