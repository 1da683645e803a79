#include "trials/simulator/collectives.h"

#include <gtest/gtest.h>

namespace trials {
namespace {

GroupLink Link(int size, int hosts = 1) {
  return {.size = size,
          .hosts = hosts,
          .bandwidth_bytes_per_s = 1e10,
          .intra_latency_s = 1e-6,
          .inter_latency_s = 1e-5};
}

TEST(Collectives, ARingAllReduceMovesTwiceTheDataButItsOwnPart) {
  for (const int ranks : {1, 2, 3, 7, 8, 32}) {
    EXPECT_DOUBLE_EQ(RingAllReduceBytes(ranks, 1e6),
                     2.0 * (ranks - 1) / ranks * 1e6);
  }
}

// At a gigabyte latencies no longer count.
TEST(Collectives, LargeMessagesTakeTheTimeOfTheirBytes) {
  constexpr double kBytes = 1e10;
  for (const int ranks : {2, 3, 8}) {
    const GroupLink link = Link(ranks);
    const double ring_s = 2.0 * (ranks - 1) / ranks * kBytes / 1e10;
    EXPECT_NEAR(AllReduceTime(link, kBytes), ring_s, 1e-3 * ring_s);
    EXPECT_NEAR(ReduceScatterTime(link, kBytes), ring_s / 2, 1e-3 * ring_s);
    EXPECT_NEAR(AllGatherTime(link, kBytes), ring_s / 2, 1e-3 * ring_s);
  }
}

TEST(Collectives, TreesWinForSmallMessagesBetweenManyHosts) {
  const GroupLink link = Link(64, 64);
  const double ring_latency_s = 2 * 63 * 1e-5;
  EXPECT_LT(AllReduceTime(link, 1e3), ring_latency_s);
  // One way down and up six levels, with LL.
  EXPECT_GT(AllReduceTime(link, 1e3), 25e-6 + 2 * 6 * 0.3e-5);
}

TEST(Collectives, OneRankHasNothingToDo) {
  EXPECT_EQ(AllReduceTime(Link(1), 1e9), 0.0);
  EXPECT_EQ(ReduceScatterTime(Link(1), 1e9), 0.0);
  EXPECT_EQ(AllGatherTime(Link(1), 1e9), 0.0);
}

TEST(Collectives, MoreBandwidthLessBytesAndFewerRanksAreNeverSlower) {
  for (const double bytes : {1e2, 1e5, 1e8}) {
    for (const int ranks : {2, 4, 6, 16}) {
      GroupLink link = Link(ranks, 2);
      const double time_s = AllReduceTime(link, bytes);
      EXPECT_LE(time_s, AllReduceTime(link, 2 * bytes));
      EXPECT_LE(time_s, AllReduceTime(Link(2 * ranks, 2), bytes));
      link.bandwidth_bytes_per_s *= 2;
      EXPECT_LE(AllReduceTime(link, bytes), time_s);
    }
  }
}

// NCCL's LL and LL128 protocols trade bandwidth for latency.
TEST(Collectives, SmallMessagesAvoidTheLatencyOfLargeOnes) {
  GroupLink link = Link(64, 8);
  const double simple_s = 56 * 1e-6 + 7 * 1e-5;
  EXPECT_LT(AllGatherTime(link, 1e3), 25e-6 + 0.3 * simple_s);
  EXPECT_GT(AllGatherTime(link, 1e9), 25e-6 + simple_s);
  const double pcie_s = AllGatherTime(link, 1e6);
  link.nvlink = true;
  EXPECT_LT(AllGatherTime(link, 1e6), pcie_s);
}

TEST(Collectives, BroadcastsOfManyOwnersCostALatencyEachButTheSameBytes) {
  const GroupLink link = Link(64, 8);
  EXPECT_EQ(BroadcastsTime(Link(1), 1e9, 1.0), 0.0);
  const double one_s = BroadcastsTime(link, 64e6, 1.0);
  const double many_s = BroadcastsTime(link, 1e6, 64.0);
  EXPECT_GT(one_s, 7.0 / 8 * 64e6 / 1e10);
  EXPECT_GT(many_s, one_s + 63 * 25e-6);
  EXPECT_LT(BroadcastsTime(Link(64, 8), 1e6, 64.0),
            BroadcastsTime(Link(128, 16), 1e6, 64.0));
}

// vTrain's published table: A100 with NVLink, 2 ranks, 4 MB: 61 us.
TEST(Collectives, ASmallAllReduceOnNvlinkTakesAsLongAsMeasured) {
  GroupLink link = Link(2);
  link.bandwidth_bytes_per_s = 222e9;
  link.intra_latency_s = 3e-6;
  EXPECT_NEAR(AllReduceTime(link, 4.0 * 1024 * 1024), 61e-6, 15e-6);
}

}  // namespace
}  // namespace trials
