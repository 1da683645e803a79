#include "trials/simulator/action_time.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/stage_of_five.h"
#include "trials/simulator/collectives.h"

namespace trials::action_time_test {

using ActionTime = StageOfFive;

GroupLink Group(int ranks, int hosts = 1) {
  return {.size = ranks,
          .hosts = hosts,
          .bandwidth_bytes_per_s = 1e10,
          .intra_latency_s = 1e-6,
          .inter_latency_s = 1e-5};
}

TEST(DispatchOverhead, IsTheExcessOfTheCpuOrThatOfANorm) {
  Framework framework;
  framework.dispatch_norm = 0.0;
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 2.0), 0.0);
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 5.0), 2.0);
  framework.dispatch_norm = 1.0;  // one after the other
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 2.0), 2.0);
  framework.dispatch_norm = 2.0;  // 3, 4, 5
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 4.0), 2.0);
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 4.0, 3.0), 1.0);
  EXPECT_EQ(DispatchOverhead(framework, 0.0, 4.0), 4.0);
  EXPECT_EQ(DispatchOverhead(framework, 4.0, 0.0), 0.0);
  EXPECT_NEAR(DispatchOverhead(framework, 3e-3, 4e-3), 2e-3, 1e-15);
  framework.dispatch_norm = 0.1;  // (1 + 1)^10 - 1
  EXPECT_NEAR(DispatchOverhead(framework, 1.0, 1.0), 1023.0, 1e-9);
  framework.dispatch_norm = 200.0;
  EXPECT_NEAR(DispatchOverhead(framework, 3.0, 5.0), 2.0, 1e-9);
}

TEST(CollectiveTime, HiddenGathersOnlySlowComputationDown) {
  Framework framework;
  framework.overlap_slowdown = 0.25;
  const GroupLink tp = Group(4);
  constexpr double kBytes = 1e8;
  const double reduce_s = AllReduceTime(tp, kBytes);
  const double gather_s = AllGatherTime(tp, kBytes);
  EXPECT_DOUBLE_EQ(CollectiveTime(framework, tp, kBytes,
                                  {.all_reduces = 2.0,
                                   .gathers_and_scatters = 3.0,
                                   .hidden_gathers = 4.0}),
                   2.0 * reduce_s + 3.0 * gather_s + 4.0 * 0.25 * gather_s);
}

// Three of four chunks run beside a product, which hides as much as it takes.
TEST(CollectiveTime, OverlapLeavesAChunkAndTheSlowdown) {
  Framework framework;
  framework.overlap_slowdown = 0.25;
  framework.tp_overlap = true;
  const GroupLink tp = Group(4);
  constexpr double kBytes = 1e8;
  const double gather_s = AllGatherTime(tp, kBytes);
  const Collectives one{.gathers_and_scatters = 1.0};
  const auto time_s = [&](double product_s) {
    return CollectiveTime(framework, tp, kBytes, one, product_s);
  };
  EXPECT_DOUBLE_EQ(time_s(0.0), gather_s);
  EXPECT_DOUBLE_EQ(time_s(1e9), gather_s * (1.0 - 0.75 * 0.75));
  EXPECT_DOUBLE_EQ(time_s(0.4 * gather_s),
                   gather_s * (1.0 - 0.75 * 0.75 * 0.4));
}

TEST(IssueTime, GrowsWithMessagesHostsAndContention) {
  Framework framework;
  framework.message_dispatch_s = 3.0;
  framework.message_host_dispatch_s = 2.0;
  const Collectives six{
      .all_reduces = 1.0, .gathers_and_scatters = 2.0, .hidden_gathers = 3.0};
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(4), six, false), 6 * 3.0);
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(16, 4), six, false),
                   6 * (3.0 + 3 * 2.0));
  framework.network_contention = 0.5;
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(16, 4), six, false),
                   6 * (3.0 + 3 * 2.0));
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(16, 4), six, true),
                   6 * (3.0 + 3 * 2.0) * 0.5 * 4);
  // Never shorter than without contention.
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(2), six, true), 6 * 3.0);
}

TEST_F(ActionTime, BlocksWithAndWithoutExpertsAddUp) {
  TimeBreakdown expected;
  expected.forward_s = 42.0;
  EXPECT_EQ(Forward(), expected);
  expected.forward_s = 0.0;
  expected.backward_s = 88.0;
  EXPECT_EQ(Backward(), expected);
}

TEST_F(ActionTime, OnlyTheFirstAndTheLastChunkHaveEnds) {
  chunk_.first = true;
  EXPECT_EQ(Forward().head_s, 0.5);
  EXPECT_EQ(Backward().head_s, 0.75);
  chunk_.last = true;
  EXPECT_EQ(Forward().head_s, 3.0);
  EXPECT_EQ(Backward().head_s, 5.0);
  chunk_.first = false;
  EXPECT_EQ(Forward().head_s, 2.5);
  EXPECT_EQ(Backward().head_s, 4.25);
}

// Of one microbatch in half precision there is nothing to add to.
TEST_F(ActionTime, SeveralMicrobatchesOrSumsInFp32Accumulate) {
  layers_.block.accumulate_s = 1.0;
  layers_.dense_block.accumulate_s = 0.5;
  layers_.head.accumulate_s = 3.0;
  layers_.block.weights_s = 8.0;
  layers_.dense_block.weights_s = 5.0;
  chunk_.last = true;
  const auto expect = [&](double blocks_s, double head_s) {
    EXPECT_EQ(Backward().backward_s, 88.0 + blocks_s);
    EXPECT_EQ(Backward().head_s, 4.25 + head_s);
    // 3 x 8 + 2 x 5: what a split backward pass delays.
    EXPECT_EQ(WeightsTime(Stage(), chunk_), 34.0 + blocks_s);
  };
  expect(0.0, 0.0);
  plan_.shared.microbatches = 2;
  expect(4.0, 3.0);
  plan_.shared.microbatches = 1;
  problem_.framework.fp32_gradients = true;
  expect(4.0, 3.0);
}

// The first blocks are recomputed, which are those without experts.
TEST_F(ActionTime, RecomputationRepeatsTheFirstBlocks) {
  const auto recompute_s = [&](int blocks) {
    chunk_.recomputed = blocks;
    return Backward().recompute_s;
  };
  EXPECT_EQ(recompute_s(0), 0.0);
  EXPECT_EQ(recompute_s(1), 6.0);
  EXPECT_EQ(recompute_s(2), 12.0);
  EXPECT_EQ(recompute_s(4), 12.0 + 2 * 10.0);
}

TEST_F(ActionTime, SelectiveRecomputationRepeatsAPartOfTheOtherBlocks) {
  layers_.block.selective_forward_s = 0.5;
  layers_.dense_block.selective_forward_s = 0.25;
  EXPECT_EQ(Backward().recompute_s, 0.0);
  chunk_.selective = true;
  const auto recompute_s = [&](int blocks) {
    chunk_.recomputed = blocks;
    return Backward().recompute_s;
  };
  EXPECT_EQ(recompute_s(0), 3 * 0.5 + 2 * 0.25);
  EXPECT_EQ(recompute_s(1), 6.0 + 3 * 0.5 + 0.25);
  EXPECT_EQ(recompute_s(4), 32.0 + 0.5);
}

// Three rounds of 3 s, of which attention hides 2 / 4 s for a quarter of it:
// 3 x (3 - 0.5 + 0.125). Backward sends twice the bytes (5 s) and computes for
// 6 / 4 s in a round.
TEST_F(ActionTime, RingsAreExposedBeyondTheAttentionOfARound) {
  EXPECT_EQ(Forward().context_s, 0.0);
  AddRing();
  constexpr double kForward_s = 3 * 2.625;
  constexpr double kBackward_s = 3 * (5 - 1.5 + 0.375);
  EXPECT_DOUBLE_EQ(Forward().context_s, 5 * kForward_s);
  EXPECT_DOUBLE_EQ(Backward().context_s, 5 * kBackward_s);
  // Recomputed blocks repeat the forward ring, and selective recomputation
  // that of the other blocks, unless it keeps attention.
  chunk_.recomputed = 2;
  EXPECT_DOUBLE_EQ(Backward().context_s, 5 * kBackward_s + 2 * kForward_s);
  chunk_.selective = true;
  EXPECT_DOUBLE_EQ(Backward().context_s, 5 * kBackward_s + 5 * kForward_s);
  problem_.framework.recompute_core = false;
  EXPECT_DOUBLE_EQ(Backward().context_s, 5 * kBackward_s + 2 * kForward_s);
  problem_.framework.recompute_core = true;
  problem_.framework.selective_by_operator = true;
  EXPECT_DOUBLE_EQ(Backward().context_s, 5 * kBackward_s + 2 * kForward_s);
  // Long attention hides a whole round, which then only slows it down.
  layers_.block.core_forward_s = 1000.0;
  EXPECT_DOUBLE_EQ(Forward().context_s, 5 * 3 * 0.25 * 3);
}

// In 3 of 5 blocks. The first blocks that are recomputed have none.
TEST_F(ActionTime, BlocksWithExpertsExchangeTokens) {
  links_.ep = Group(4);
  layers_.block.all_to_alls = 2;
  layers_.block.all_to_all_bytes = 1e8;
  const double one_s = 2 * AllToAllTime(links_.ep, 1e8);
  EXPECT_DOUBLE_EQ(Forward().expert_s, 3 * one_s);
  EXPECT_DOUBLE_EQ(Backward().expert_s, 3 * one_s);
  chunk_.recomputed = 1;
  EXPECT_DOUBLE_EQ(Backward().expert_s, 3 * one_s);
  chunk_.recomputed = 4;
  EXPECT_DOUBLE_EQ(Backward().expert_s, (3 + 2) * one_s);
}

// Ten collectives, each beside a tenth of the products: 42 s forward of which
// 5 x 2 s are attention, and 88 s backward of which 5 x 6 s are.
TEST_F(ActionTime, CollectivesOverlapWithTheProductBesideThem) {
  problem_.framework.tp_overlap = true;
  links_.tp = Group(4);
  layers_.block.core_forward_s = 2.0;
  layers_.block.core_backward_s = 6.0;
  layers_.block.collective_bytes = 1e12;
  for (LayerCost* block : {&layers_.block, &layers_.dense_block}) {
    block->forward_collectives.gathers_and_scatters = 2.0;
    block->backward_collectives.gathers_and_scatters = 2.0;
  }
  const double gather_s = AllGatherTime(links_.tp, 1e12);
  ASSERT_GT(gather_s, 6.0);
  EXPECT_NEAR(Forward().tensor_s, 10 * (gather_s - 0.75 * 0.75 * 3.2), 1e-9);
  EXPECT_NEAR(Backward().tensor_s, 10 * (gather_s - 0.75 * 0.75 * 5.8), 1e-9);
  // Recomputation repeats the collectives of forward.
  problem_.framework.tp_overlap = false;
  chunk_.recomputed = 3;
  EXPECT_NEAR(Backward().tensor_s, (10 + 6) * gather_s, 1e-9);
  // A single collective has all of the products beside it.
  problem_.framework.tp_overlap = true;
  chunk_ = {.blocks = 1};
  layers_.block.forward_collectives.gathers_and_scatters = 1.0;
  EXPECT_NEAR(Forward().tensor_s, gather_s - 0.75 * 0.75 * 8.0, 1e-9);
}

// The CPU needs 100 s for each block with experts and 50 s for the others; what
// the GPU does not cover is overhead.
TEST_F(ActionTime, DispatchIsExposedBeyondTheTimeOfTheGpu) {
  Framework& framework = problem_.framework;
  framework.microbatch_overhead_s = 7.0;
  layers_.block.forward_dispatch_s = layers_.block.backward_dispatch_s = 100.0;
  layers_.dense_block.forward_dispatch_s = 50.0;
  layers_.dense_block.backward_dispatch_s = 50.0;
  layers_.block.selective_dispatch_s = 10.0;
  layers_.head.forward_dispatch_s = 30.0;
  layers_.head.backward_dispatch_s = 40.0;
  EXPECT_EQ(Forward().overhead_s, 400.0 - 42.0 + 7.0);
  EXPECT_EQ(Backward().overhead_s, 400.0 - 88.0);
  // Recomputation issues its kernels again, and runs for 22 s.
  chunk_.recomputed = 3;
  chunk_.selective = true;
  EXPECT_EQ(Backward().overhead_s, 400.0 + 200.0 + 2 * 10.0 - 88.0 - 22.0);
  chunk_.recomputed = 0;
  chunk_.selective = false;
  // The head's kernels overlap as well, unless the GPU waits at the loss.
  chunk_.last = true;
  EXPECT_EQ(Forward().overhead_s, 430.0 - 44.5 + 7.0);
  EXPECT_EQ(Backward().overhead_s, 440.0 - 92.25);
  framework.loss_overhead_s = 0.05;
  EXPECT_EQ(Forward().overhead_s, 400.0 - 42.0 + 7.0 + 0.05);
  EXPECT_EQ(Backward().overhead_s, 400.0 - 88.0);
  // Other chunks have no loss.
  chunk_.last = false;
  chunk_.first = true;
  layers_.embedding.forward_dispatch_s = 20.0;
  EXPECT_EQ(Forward().overhead_s, 420.0 - 42.5 + 7.0);
}

// ZeRO 3 gathers a block of mean size, because blocks differ, and the ends that
// the chunk has.
TEST_F(ActionTime, BlocksAreGatheredByTheirMeanSize) {
  Framework& framework = problem_.framework;
  framework.fsdp = true;
  plan_.shared.zero_stage = 3;
  links_.shards.within = Group(4);
  layers_.block.parameters = {3e8, 2e8};
  layers_.dense_block.parameters = {1e8};
  layers_.embedding.parameters = {7e7};
  layers_.head.parameters = {2e7};
  const auto gather_s = [&](double elements) {
    return AllGatherTime(links_.shards.within, 2.0 * elements);
  };
  // With nothing to hide behind, every block is exposed.
  layers_.block.forward_s = layers_.dense_block.forward_s = 0.0;
  layers_.embedding.forward_s = layers_.head.forward_s = 0.0;
  chunk_.dense = 0;
  EXPECT_NEAR(Forward().data_s, 5 * gather_s(5e8), 1e-12);
  chunk_.dense = 1;
  EXPECT_NEAR(Forward().data_s, 5 * gather_s((4 * 5e8 + 1e8) / 5), 1e-12);
  chunk_.dense = 2;
  const double blocks_s = 5 * gather_s((3 * 5e8 + 2 * 1e8) / 5);
  EXPECT_NEAR(Forward().data_s, blocks_s, 1e-12);
  chunk_.first = true;
  EXPECT_NEAR(Forward().data_s, blocks_s + gather_s(7e7), 1e-12);
  chunk_.last = true;
  EXPECT_NEAR(Forward().data_s, blocks_s + gather_s(9e7), 1e-12);
}

// All layers of an action hide communication at a quarter of its time, also
// the ends and what backward recomputes.
TEST_F(ActionTime, GathersHideBehindAllLayers) {
  plan_.shared.zero_stage = 3;
  links_.shards.within = Group(4);
  layers_.block.parameters = {1e12};
  chunk_.last = true;
  chunk_.recomputed = 1;
  plan_.shared.overlap_zero_comm = false;
  const double forward_s = Forward().data_s;
  const double backward_s = Backward().data_s;
  plan_.shared.overlap_zero_comm = true;
  plan_.shared.overlap_zero_allgather = true;
  EXPECT_NEAR(forward_s - Forward().data_s, 0.75 * (42.0 + 2.5), 1e-9);
  EXPECT_NEAR(backward_s - Backward().data_s, 0.75 * (88.0 + 4.25 + 6.0), 1e-9);
}

TEST_F(ActionTime, OnlyAPipelineOfOneChunkSplitsItsBackwardPass) {
  problem_.framework.zero_bubble = true;
  plan_.shared.microbatches = 6;
  plan_.shared.pp = 2;
  const PipelineShape shape = PipelineOf(Stage());
  EXPECT_EQ(shape.stages, 2);
  EXPECT_EQ(shape.microbatches, 6);
  EXPECT_EQ(shape.chunks, 1);
  EXPECT_TRUE(shape.zero_bubble);
  plan_.shared.model_chunks = 2;
  EXPECT_FALSE(PipelineOf(Stage()).zero_bubble);
  plan_.shared.model_chunks = 1;
  plan_.shared.pp = 1;
  EXPECT_FALSE(PipelineOf(Stage()).zero_bubble);
  plan_.shared.pp = 2;
  problem_.framework.zero_bubble = false;
  EXPECT_FALSE(PipelineOf(Stage()).zero_bubble);
}

}  // namespace trials::action_time_test
