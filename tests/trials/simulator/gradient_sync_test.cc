#include "trials/simulator/gradient_sync.h"

#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

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
    const SyncTime time =
        ReduceGradients(Modules(0.01),
                        Link(),
                        {.bucket_bytes = bucket_bytes, .overlap = true},
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
  const double plain_s = ExposeGather(plan, false, 1e9, framework).exposed_s;
  const double hidden_s = ExposeGather(plan, true, 1e9, framework).exposed_s;
  EXPECT_DOUBLE_EQ(plain_s, plan.total_s);
  EXPECT_GE(hidden_s, plan.first_s);
  EXPECT_LT(hidden_s, plain_s / 2);
}

TEST(GradientSync, OneRankHasNothingToReduce) {
  GroupLink link = Link();
  link.size = 1;
  const SyncTime time = ReduceGradients(Modules(1.0), link, {}, {});
  EXPECT_EQ(time.exposed_s, 0.0);
  EXPECT_EQ(time.overhead_s, 0.0);
}

}  // namespace
}  // namespace trials
