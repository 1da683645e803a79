#include "trials/simulator/collectives.h"

#include <gtest/gtest.h>

namespace trials::collectives_test {

GroupLink Link(int size, int hosts = 1) {
  return {.size = size,
          .hosts = hosts,
          .bandwidth_bytes_per_s = 1e10,
          .intra_latency_s = 1e-6,
          .inter_latency_s = 1e-5};
}

// At a gigabyte latencies no longer count.
TEST(Collectives, LargeMessagesTakeTheTimeOfTheirBytes) {
  constexpr double kBytes = 1e10;
  for (const int ranks : {1, 2, 3, 8}) {  // one has nothing to do
    const GroupLink link = Link(ranks);
    const double ring_s = 2.0 * (ranks - 1) / ranks * kBytes / 1e10;
    EXPECT_NEAR(AllReduceTime(link, kBytes), ring_s, 1e-3 * ring_s);
    EXPECT_NEAR(ReduceScatterTime(link, kBytes), ring_s / 2, 1e-3 * ring_s);
    EXPECT_NEAR(AllGatherTime(link, kBytes), ring_s / 2, 1e-3 * ring_s);
  }
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

// A ring over `hosts` with one rank each or, with one host, over `ranks`, at
// the latencies of NCCL's Simple protocol.
GroupLink AtSimpleLatency(int ranks, int hosts) {
  GroupLink link = Link(ranks, hosts);
  link.intra_latency_s = 3.4e-6;
  link.inter_latency_s = 14e-6;
  link.nvlink = true;
  return link;
}

// What the 17th rank adds to an all-gather in which every rank sends `bytes`.
double OneMoreStep(double bytes, bool between_hosts) {
  const auto time_s = [&](int ranks) {
    return AllGatherTime(AtSimpleLatency(ranks, between_hosts ? ranks : 1),
                         bytes * ranks / (ranks - 1));
  };
  return time_s(17) - time_s(16);
}

// NCCL, src/graph/tuning.cc: latencies of a ring's step, NVLink and network.
TEST(Collectives, AStepOfARingTakesTheLatencyOfItsProtocol) {
  EXPECT_NEAR(OneMoreStep(0.0, false), 0.6e-6, 1e-12);  // LL
  EXPECT_NEAR(OneMoreStep(0.0, true), 2.7e-6, 1e-12);
  EXPECT_NEAR(OneMoreStep(1e6, false), 1.9e-6, 1e-12);  // LL128
  EXPECT_NEAR(OneMoreStep(1e6, true), 4.0e-6, 1e-12);
  EXPECT_NEAR(OneMoreStep(1e9, false), 3.4e-6, 1e-12);  // Simple
  EXPECT_NEAR(OneMoreStep(1e9, true), 14e-6, 1e-12);
}

// A tree has a level more from 2^k hosts to 2^k + 1, and goes up and down.
TEST(Collectives, ALevelOfATreeTakesTheLatencyOfItsProtocolTwice) {
  const auto level_s = [](int hosts, double bytes) {
    return AllReduceTime(AtSimpleLatency(hosts + 1, hosts + 1), bytes) -
           AllReduceTime(AtSimpleLatency(hosts, hosts), bytes);
  };
  EXPECT_NEAR(level_s(64, 0.0), 2 * 5.0e-6, 1e-12);   // LL
  EXPECT_NEAR(level_s(64, 1e6), 2 * 8.5e-6, 1e-12);   // LL128
  EXPECT_NEAR(level_s(1024, 5e7), 2 * 14e-6, 1e-12);  // Simple
  const auto local_s = [](int hosts, double bytes) {
    return AllReduceTime(AtSimpleLatency(2 * hosts, hosts), bytes) -
           AllReduceTime(AtSimpleLatency(hosts, hosts), bytes);
  };
  EXPECT_NEAR(local_s(64, 0.0), 2 * 0.6e-6, 1e-12);
  EXPECT_NEAR(local_s(64, 1e6), 2 * 1.25e-6, 1e-12);
  EXPECT_NEAR(local_s(1024, 5e7), 2 * 3.4e-6, 1e-12);
}

// The network's own latency, beyond 14 us, comes once for the data of LL and
// LL128 and twice with Simple.
TEST(Collectives, ASlowNetworkCostsSimpleTwiceWhatItCostsLl) {
  const auto slower_s = [](double bytes) {
    GroupLink link = AtSimpleLatency(2, 2);
    const double time_s = AllGatherTime(link, bytes);
    link.inter_latency_s += 10e-6;
    return AllGatherTime(link, bytes) - time_s;
  };
  EXPECT_NEAR(slower_s(0.0), 5e-6, 1e-12);
  EXPECT_NEAR(slower_s(1e9), 10e-6, 1e-12);
}

TEST(Collectives, AMessageTakesTheLatencyOfItsWay) {
  EXPECT_DOUBLE_EQ(MessageTime(Link(2, 1), 1e10), 1.0 + 1e-6);
  EXPECT_DOUBLE_EQ(MessageTime(Link(2, 2), 1e10), 1.0 + 1e-5);
}

// In microseconds, with the latencies of NCCL's tables (src/graph/tuning.cc):
// base 6.6 (ring) and 6.8 (tree) with LL, 14 with LL128, 8.4 with Simple, here
// beyond 25 - 8.4 for the launch; within a host 0.6, 1.9 (tree: 1.25) and 3.4,
// between hosts 2.7 (tree: 5), 4 (8.5) and 14.
class NcclTimes : public testing::Test {
 protected:
  GroupLink link_{.size = 8,
                  .hosts = 1,
                  .bandwidth_bytes_per_s = 100e9,
                  .intra_latency_s = 3.4e-6,
                  .inter_latency_s = 14e-6,
                  .nvlink = true};

  void ExpectAllReduce(double bytes, double microseconds) const {
    EXPECT_NEAR(AllReduceTime(link_, bytes) * 1e6, microseconds, 1e-3) << bytes;
  }
};

// 14 steps of a ring move 7 / 4 n, a tree's 14 steps 2 n.
TEST_F(NcclTimes, NvlinkPassesFromLlToLl128ToSimple) {
  ExpectAllReduce(1e3, 25 - 1.8 + 14 * 0.6 + 1.75e3 / 39e3);
  ExpectAllReduce(1e6, 25 + 5.6 + 14 * 1.25 + 2e6 / (7.0 / 9 * 100e3));
  ExpectAllReduce(4e6, 25 + 5.6 + 14 * 1.9 + 7e6 / 92e3);
  ExpectAllReduce(1e9, 25 + 14 * 3.4 + 1.75e9 / 100e3);
  link_.nvlink = false;
  ExpectAllReduce(4e6, 25 + 14 * 3.4 + 7e6 / 100e3);
}

}  // namespace trials::collectives_test
