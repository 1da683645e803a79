#include "trials/simulator/gradient_sync.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trials::gradient_sync_test {

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

// Every bucket has an overhead.
TEST(GradientSync, ATensorThatNoLongerFitsClosesTheBucket) {
  Framework framework;
  framework.gradients.bucket_overhead_s = 1.0;
  const auto buckets = [&](std::vector<double> tensors, double bucket_bytes) {
    return ReduceGradients({{.tensor_bytes = std::move(tensors)}}, Link(),
                           {.bucket_bytes = bucket_bytes}, framework)
        .overhead_s;
  };
  EXPECT_EQ(buckets({3, 3, 3, 9, 1}, 6), 4.0);  // 6, 3, 9 and 1
  EXPECT_EQ(buckets({3, 3}, 0), 2.0);
  EXPECT_EQ(buckets({1, 1}, 1), 2.0);
  EXPECT_EQ(buckets({1, 1}, 2), 1.0);
  EXPECT_EQ(buckets({}, 6), 0.0);
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

TEST(GradientSync, AnOverlappedGatherHasAMessagePerTensor) {
  Framework framework;
  std::vector<SyncModule> modules = Modules(0.0);
  modules.push_back({.tensor_bytes = std::vector<double>(100, 1e3)});
  const GatherPlan plan = PlanGather(modules, Link(), 100 * kMega, framework);
  EXPECT_GT(plan.overlapped_s, plan.total_s + 100 * 20e-6);
  EXPECT_LT(ExposeGather(plan, false, 0.0).exposed_s,
            ExposeGather(plan, true, 0.0).exposed_s);
  framework.sharding.gather_by_tensor = false;
  const GatherPlan buckets =
      PlanGather(modules, Link(), 100 * kMega, framework);
  EXPECT_DOUBLE_EQ(buckets.overlapped_s, buckets.total_s);
}

TEST(GradientSync, OneRankCommunicatesNothing) {
  GroupLink one = Link();
  one.size = 1;
  const GatherPlan gather = PlanGather(Modules(0.0), one, kMega, {});
  EXPECT_EQ(gather.total_s + gather.overhead_s, 0.0);
  EXPECT_EQ(gather.overlapped_s + gather.overlapped_overhead_s, 0.0);
  const SyncTime reduce = ReduceGradients(Modules(1.0), one, {}, {});
  EXPECT_EQ(reduce.exposed_s + reduce.overhead_s, 0.0);
}

// The equation of the header for two buckets: end_1 = ready_1 + p + t + u,
// end_2 = max(ready_2 + p, end_1) + t + u.
TEST(GradientSync, TwoBucketsEndWhenTheEquationSays) {
  Framework framework;
  framework.collectives.overlap_slowdown = 0.25;
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
    EXPECT_DOUBLE_EQ(time.overhead_s,
                     2 * framework.gradients.bucket_overhead_s);
  }
}

}  // namespace trials::gradient_sync_test
