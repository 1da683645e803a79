#include "trials/simulator/gradient_sync.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trials/simulator/collectives.h"

namespace trials::gradient_sync_test {

using ::testing::ElementsAre;

constexpr double kMega = 1e6;

GroupLink Link() {
  return {.size = 4,
          .hosts = 1,
          .bandwidth_bytes_per_s = 1e10,
          .intra_latency_s = 1e-6,
          .inter_latency_s = 1e-5};
}

std::vector<SyncModule> Modules(double backward_s) {
  return std::vector<SyncModule>(
      8, {.tensor_bytes = {8 * kMega, 2 * kMega}, .backward_s = backward_s});
}

TEST(GradientSync, ATensorThatNoLongerFitsClosesTheBucket) {
  EXPECT_THAT(PackBuckets({3, 3, 3, 9, 1}, 6), ElementsAre(6, 3, 9, 1));
  EXPECT_THAT(PackBuckets({3, 3}, 0), ElementsAre(3, 3));
  EXPECT_THAT(PackBuckets({1, 1}, 1), ElementsAre(1, 1));
  EXPECT_THAT(PackBuckets({}, 6), ElementsAre());
}

TEST(GradientSync, OverlapHidesWhatBackwardCovers) {
  const Framework framework;
  SyncOptions options{.bucket_bytes = 10 * kMega};
  const SyncTime plain =
      ReduceGradients(Modules(0.01), Link(), options, framework);
  options.overlap = true;
  const SyncTime hidden =
      ReduceGradients(Modules(0.01), Link(), options, framework);
  EXPECT_LT(hidden.exposed_s, plain.exposed_s / 2);
  EXPECT_GT(hidden.exposed_s, 0.0);  // the last bucket has nothing behind it
  // Without backward there is nothing to hide behind.
  const SyncTime alone =
      ReduceGradients(Modules(0.0), Link(), options, framework);
  EXPECT_DOUBLE_EQ(alone.exposed_s, plain.exposed_s);
}

TEST(GradientSync, SmallBucketsPayPerBucketAndHugeOnesLoseTheOverlap) {
  const Framework framework;
  const auto total_s = [&](double bucket_bytes) {
    const SyncTime time = ReduceGradients(
        Modules(0.01), Link(), {.bucket_bytes = bucket_bytes, .overlap = true},
        framework);
    return time.exposed_s + time.overhead_s;
  };
  EXPECT_GT(total_s(1.0), total_s(10 * kMega));
  EXPECT_GT(total_s(1e12), total_s(10 * kMega));
}

TEST(GradientSync, ScatteringIsHalfOfReducing) {
  const Framework framework;
  SyncOptions options{.bucket_bytes = 1e12};
  const double all_s =
      ReduceGradients(Modules(0.0), Link(), options, framework).exposed_s;
  options.kind = SyncKind::kReduceScatter;
  const double part_s =
      ReduceGradients(Modules(0.0), Link(), options, framework).exposed_s;
  EXPECT_NEAR(part_s / all_s, 0.5, 0.01);
}

TEST(GradientSync, AGatherHidesBehindForwardButForItsFirstBucket) {
  const Framework framework;
  const GatherPlan plan =
      PlanGather(Modules(0.0), Link(), 10 * kMega, framework);
  const double plain_s = ExposeGather(plan, false, 1e9).exposed_s;
  const double hidden_s = ExposeGather(plan, true, 1e9).exposed_s;
  EXPECT_DOUBLE_EQ(plain_s, plan.total_s);
  EXPECT_GE(hidden_s, plan.first_s);
  EXPECT_LT(hidden_s, plain_s / 2);
}

// Forward waits for the first message and for what its slack does not hide;
// what is hidden slows it down.
TEST(GradientSync, AGatherIsExposedBeyondTheSlackOfForward) {
  const GatherPlan plan{.total_s = 8.0,
                        .overhead_s = 0.5,
                        .overlapped_s = 10.0,
                        .first_s = 1.0,
                        .overlapped_overhead_s = 0.75,
                        .slowdown = 0.25};
  EXPECT_EQ(ExposeGather(plan, false, 4.0).exposed_s, 8.0);
  EXPECT_EQ(ExposeGather(plan, false, 4.0).overhead_s, 0.5);
  EXPECT_EQ(ExposeGather(plan, true, 4.0).exposed_s, 6.0 + 0.25 * 4.0);
  EXPECT_EQ(ExposeGather(plan, true, 4.0).overhead_s, 0.75);
  EXPECT_EQ(ExposeGather(plan, true, 9.5).exposed_s, 1.0 + 0.25 * 9.0);
  EXPECT_EQ(ExposeGather(plan, true, 0.0).exposed_s, 10.0);
}

// After backward, three buckets are packed one after the other and sent when
// the one before has been copied back; with one stream, everything takes turns.
TEST(GradientSync, AStreamOfItsOwnSendsWhileTheNextBucketIsPacked) {
  const Framework framework;
  constexpr double kBytes = 1e8;
  const std::vector<SyncModule> modules(
      3, {.tensor_bytes = {kBytes}, .backward_s = 1.0});
  const double send_s = AllReduceTime(Link(), kBytes);
  constexpr double kUnpack_s = 1e-3;
  for (const double pack_s : {2e-3, 0.5}) {
    SyncOptions options{.bucket_bytes = kBytes,
                        .pack_s_per_byte = pack_s / kBytes,
                        .unpack_s_per_byte = kUnpack_s / kBytes};
    const double one_s = send_s + kUnpack_s;
    EXPECT_NEAR(ReduceGradients(modules, Link(), options, framework).exposed_s,
                3 * (pack_s + one_s), 1e-12);
    options.own_stream = true;
    EXPECT_NEAR(ReduceGradients(modules, Link(), options, framework).exposed_s,
                pack_s > one_s ? 3 * pack_s + one_s : pack_s + 3 * one_s,
                1e-12);
  }
}

// Colossal-AI sends a ZeRO bucket when a tensor arrives that does not fit.
TEST(GradientSync, ALazyBucketWaitsForTheNextTensor) {
  const Framework framework;
  SyncOptions options{.bucket_bytes = 10 * kMega, .overlap = true};
  const auto exposed_s = [&](double backward_s) {
    return ReduceGradients(Modules(backward_s), Link(), options, framework)
        .exposed_s;
  };
  const double eager_s = exposed_s(1e-4);  // the link is the bottleneck
  options.lazy = true;
  EXPECT_GT(exposed_s(1e-4), eager_s);
}

TEST(GradientSync, AStreamOfItsOwnPacksBehindTheNetworkForCpuTime) {
  const Framework framework;
  SyncOptions options{.bucket_bytes = 10 * kMega,
                      .pack_s_per_byte = 1e-11,
                      .unpack_s_per_byte = 1e-12};
  const SyncTime one =
      ReduceGradients(Modules(0.0), Link(), options, framework);
  options.own_stream = true;
  const SyncTime own =
      ReduceGradients(Modules(0.0), Link(), options, framework);
  EXPECT_LT(own.exposed_s, one.exposed_s);
  EXPECT_DOUBLE_EQ(own.overhead_s - one.overhead_s,
                   8 * framework.overlap_bucket_s);
}

// What shares its link with tensor parallelism hides less.
TEST(GradientSync, ASharedLinkHidesLess) {
  const Framework framework;
  SyncOptions options{.bucket_bytes = 10 * kMega, .overlap = true};
  const double alone_s =
      ReduceGradients(Modules(0.002), Link(), options, framework).exposed_s;
  options.link_share = 0.5;
  EXPECT_GT(
      ReduceGradients(Modules(0.002), Link(), options, framework).exposed_s,
      alone_s);
}

TEST(GradientSync, AnOverlappedGatherHasAMessagePerTensor) {
  Framework framework;
  std::vector<SyncModule> modules = Modules(0.0);
  modules.push_back({.tensor_bytes = std::vector<double>(100, 1e3)});
  const GatherPlan plan = PlanGather(modules, Link(), 100 * kMega, framework);
  EXPECT_GT(plan.overlapped_s, plan.total_s + 100 * 20e-6);
  EXPECT_LT(ExposeGather(plan, false, 0.0).exposed_s,
            ExposeGather(plan, true, 0.0).exposed_s);
  framework.gather_by_tensor = false;
  const GatherPlan buckets =
      PlanGather(modules, Link(), 100 * kMega, framework);
  EXPECT_DOUBLE_EQ(buckets.overlapped_s, buckets.total_s);
}

// Buckets are gathered one after the other; in place, tensors are.
TEST(GradientSync, GathersAddUpByBucketAndByTensor) {
  Framework framework;
  const std::vector<SyncModule> modules = {
      {.tensor_bytes = {4 * kMega, 1 * kMega}, .count = 2}};
  const auto gather_s = [](double bytes) {
    return AllGatherTime(Link(), bytes);
  };
  framework.gather_by_tensor = false;
  GatherPlan plan = PlanGather(modules, Link(), 6 * kMega, framework,
                               /*parameter_share=*/1.0, 1e-9);
  EXPECT_DOUBLE_EQ(plan.total_s, 2 * gather_s(5 * kMega) + 0.01);
  EXPECT_DOUBLE_EQ(plan.first_s, gather_s(5 * kMega));
  EXPECT_DOUBLE_EQ(plan.overhead_s, 2 * framework.bucket_overhead_s);
  EXPECT_DOUBLE_EQ(plan.overlapped_overhead_s, plan.overhead_s);
  framework.gather_by_tensor = true;  // buckets of a shard on each of 4 ranks
  plan = PlanGather(modules, Link(), 3 * kMega, framework);
  EXPECT_DOUBLE_EQ(plan.total_s, gather_s(10 * kMega));
  EXPECT_DOUBLE_EQ(plan.overlapped_s,
                   2 * (gather_s(4 * kMega) + gather_s(1 * kMega)));
  EXPECT_DOUBLE_EQ(plan.first_s, gather_s(1 * kMega));
  EXPECT_DOUBLE_EQ(plan.overhead_s, framework.bucket_overhead_s);
  EXPECT_DOUBLE_EQ(plan.overlapped_overhead_s, 4 * framework.bucket_overhead_s);
}

TEST(GradientSync, OneRankAndNoTensorGatherNothing) {
  GroupLink one = Link();
  one.size = 1;
  for (const bool by_tensor : {false, true}) {
    Framework framework;
    framework.gather_by_tensor = by_tensor;
    for (const GatherPlan& plan :
         {PlanGather(Modules(0.0), one, kMega, framework),
          PlanGather({}, Link(), kMega, framework)}) {
      EXPECT_EQ(plan.total_s, 0.0);
      EXPECT_EQ(plan.overlapped_s, 0.0);
      EXPECT_EQ(plan.first_s, 0.0);
      EXPECT_EQ(plan.overhead_s, 0.0);
      EXPECT_EQ(plan.overlapped_overhead_s, 0.0);
    }
  }
}

TEST(GradientSync, OneRankHasNothingToReduce) {
  GroupLink link = Link();
  link.size = 1;
  const SyncTime time = ReduceGradients(Modules(1.0), link, {}, {});
  EXPECT_EQ(time.exposed_s, 0.0);
  EXPECT_EQ(time.overhead_s, 0.0);
}

// A broadcast over four ranks of a host: three of four edges at a time.
TEST(GradientSync, WholeTensorsAreBroadcastByTheirOwners) {
  Framework framework;
  framework.broadcast_parameters = true;
  const double edge_s = 3.0 / 4 / 1e10;
  // Fewer tensors than ranks: a broadcast for each.
  const std::vector<SyncModule> two = {{.tensor_bytes = {4e9, 2e9}}};
  const GatherPlan few = PlanGather(two, Link(), 1.0, framework);
  EXPECT_NEAR(few.total_s, 6e9 * edge_s, 1e-3);
  EXPECT_NEAR(few.first_s, 2e9 * edge_s, 1e-3);  // of the module needed first
  EXPECT_DOUBLE_EQ(few.overhead_s, 2 * framework.bucket_overhead_s);
  // More: each of four owners sends its quarter at once.
  const std::vector<SyncModule> many = {
      {.tensor_bytes = {4e9, 2e9}, .count = 4}};
  const GatherPlan joined = PlanGather(many, Link(), 1.0, framework);
  EXPECT_NEAR(joined.total_s, 24e9 * edge_s, 1e-3);
  EXPECT_DOUBLE_EQ(joined.first_s, BroadcastsTime(Link(), 6e9, 1.0));
  EXPECT_DOUBLE_EQ(joined.overhead_s, 4 * framework.bucket_overhead_s);
  EXPECT_EQ(joined.overlapped_s, joined.total_s);
  EXPECT_EQ(joined.overlapped_overhead_s, joined.overhead_s);
  // Half the bytes where gradients are twice as wide as parameters.
  EXPECT_NEAR(PlanGather(many, Link(), 1.0, framework, 0.5).total_s,
              12e9 * edge_s, 1e-3);
}

// The equation of the header for two buckets: end_1 = ready_1 + p + t + u,
// end_2 = max(ready_2 + p, end_1) + t + u.
TEST(GradientSync, TwoBucketsEndWhenTheEquationSays) {
  Framework framework;
  framework.overlap_slowdown = 0.25;
  constexpr double kBytes = 1e8;
  const double send_s = 1.5 * kBytes / 1e10;  // a ring over four ranks
  const double pack_s = 1e-3;
  const double unpack_s = 2e-3;
  for (const double backward_s : {0.005, 0.1}) {
    const std::vector<SyncModule> modules(
        2, {.tensor_bytes = {kBytes}, .backward_s = backward_s});
    const SyncTime time =
        ReduceGradients(modules, Link(),
                        {.bucket_bytes = kBytes,
                         .overlap = true,
                         .pack_s_per_byte = pack_s / kBytes,
                         .unpack_s_per_byte = unpack_s / kBytes},
                        framework);
    const double one_s = send_s + unpack_s;
    const double first_end_s = backward_s + pack_s + one_s;
    const double end_s = std::max(2 * backward_s + pack_s, first_end_s) + one_s;
    const double after_s = std::min(2 * one_s, end_s - 2 * backward_s);
    EXPECT_NEAR(time.exposed_s,
                2 * pack_s + after_s + 0.25 * (2 * one_s - after_s), 2e-4);
    EXPECT_DOUBLE_EQ(time.overhead_s, 2 * framework.bucket_overhead_s);
  }
}

}  // namespace trials::gradient_sync_test
