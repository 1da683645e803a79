#include "trials/simulator/action_time.h"

#include <set>

#include <gtest/gtest.h>

#include "trials/simulator/collectives.h"
#include "trials/simulator/framework.h"

namespace trials::action_time_test {

GroupLink Group(int ranks, int hosts = 1) {
  return {.size = ranks,
          .hosts = hosts,
          .bandwidth_bytes_per_s = 1e10,
          .intra_latency_s = 1e-6,
          .inter_latency_s = 1e-5};
}

TEST(DispatchOverhead, IsTheExcessOfTheCpuOrThatOfANorm) {
  Framework framework;
  framework.dispatch.dispatch_norm = 0.0;
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 2.0), 0.0);
  EXPECT_EQ(DispatchOverhead(framework, 3.0, 5.0), 2.0);
  framework.dispatch.dispatch_norm = 1.0;  // one after the other
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 2.0), 2.0);
  framework.dispatch.dispatch_norm = 2.0;  // 3, 4, 5
  EXPECT_DOUBLE_EQ(DispatchOverhead(framework, 3.0, 4.0), 2.0);
  EXPECT_EQ(DispatchOverhead(framework, 0.0, 4.0), 4.0);
  EXPECT_EQ(DispatchOverhead(framework, 4.0, 0.0), 0.0);
  framework.dispatch.dispatch_norm = 200.0;  // almost the maximum
  EXPECT_NEAR(DispatchOverhead(framework, 3.0, 5.0), 2.0, 1e-9);
}

// Three of four chunks run beside a product, which hides as much as it takes.
TEST(CollectiveTime, OverlapLeavesAChunkAndTheSlowdown) {
  Framework framework;
  framework.collectives.overlap_slowdown = 0.25;
  framework.collectives.tp_overlap = true;
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

// Brute force over the hosts of three experts.
TEST(HostsOfToken, IsTheMeanOverAllChoices) {
  Model model;
  model.experts_per_token = 3;
  const auto mean = [](int hosts) {
    double sum = 0.0;
    for (int a = 0; a < hosts; ++a) {
      for (int b = 0; b < hosts; ++b) {
        for (int c = 0; c < hosts; ++c) {
          sum += static_cast<double>(std::set<int>{a, b, c}.size());
        }
      }
    }
    return sum / (hosts * hosts * hosts);
  };
  EXPECT_NEAR(HostsOfToken(model, 4), mean(4), 1e-12);
  // DeepSeek-V3: four of eight groups.
  model.expert_groups = 8;
  model.groups_per_token = 4;
  EXPECT_NEAR(HostsOfToken(model, 8), mean(4), 1e-12);
  EXPECT_NEAR(HostsOfToken(model, 2), 1.0, 1e-12);
}

TEST(IssueTime, GrowsWithMessagesHostsAndContention) {
  Framework framework;
  framework.collectives.message_dispatch_s = 3.0;
  framework.collectives.message_host_s = 2.0;
  const Collectives six{
      .all_reduces = 1.0, .gathers_and_scatters = 2.0, .hidden_gathers = 3.0};
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(4), six, false), 6 * 3.0);
  framework.collectives.network_contention = 0.5;
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(16, 4), six, false),
                   6 * (3.0 + 3 * 2.0));
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(16, 4), six, true),
                   6 * (3.0 * 0.5 * 4 + 3 * 2.0));
  // Never shorter than without contention.
  EXPECT_DOUBLE_EQ(IssueTime(framework, Group(2), six, true), 6 * 3.0);
}

}  // namespace trials::action_time_test
