#include "planners/operators/link_table.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace planners::link_table_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

LinkTable Read(const std::string& rows) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "links.csv",
                   "p2p_inter_node,1,2,4,8\np2p_inter_node,1,2,3,4\n"
                   "p2p_intra_node,1,2,4,8\np2p_intra_node,10,20,30,40\n" +
                       rows);
  return LinkTable::Read(folder.path() / "links.csv", "tiny");
}

// That of the next smaller size: from 4 MB on that of 2 MB. A GB/s is a
// thousandth of a MB per us.
TEST(LinkTable, TransfersHaveTheBandwidthOfTheirSize) {
  const LinkTable table = Read("");
  EXPECT_EQ(table.TransferUs(0.0, false), 0.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(0.05, false), 5.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(1.0, false), 100.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(3.9, false), 390.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(4.0, false), 200.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(9.0, false), 300.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(16.0, false), 400.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(100.0, false), 2500.0);
  EXPECT_DOUBLE_EQ(table.TransferUs(100.0, true), 25'000.0);
  EXPECT_DOUBLE_EQ(LinkTable::Uniform(5.0, 1.0, 8).TransferUs(10.0, true),
                   10'000.0);
}

// Profiled in whole MB: the nearest size, or the one below it.
TEST(LinkTable, CollectivesTakeTheTimeOfTheirSizeAndRanks) {
  const LinkTable table = Read(
      "prim_tiny_all_gather_2gpus,data_size(MB),time(ms)\n"
      "prim_tiny_all_gather_2gpus,4,0.5\n"
      "prim_tiny_all_gather_16gpus,4,0.75\n"
      "prim_tiny_all_gather_90gpus,4,2\n"
      "prim_tiny_all_gather_4,4,7\n"
      "prim_tiny_all_to_all_2gpus,4,0.25\n"
      "prim_tiny_all_gather_2servers,4,9\n"
      "prim_other_all_gather_4gpus,4,1\n");
  const auto gather = [&](int ranks, double mb) {
    return table.CollectiveUs(Collective::kAllGather, ranks, mb);
  };
  EXPECT_EQ(gather(2, 4.0), 500.0);
  EXPECT_EQ(gather(2, 4.4), 500.0);
  EXPECT_EQ(gather(2, 3.6), 500.0);
  EXPECT_EQ(gather(2, 5.0), 500.0);
  EXPECT_EQ(gather(2, 3.0), kInfinity);
  EXPECT_EQ(gather(2, 6.0), kInfinity);
  EXPECT_EQ(gather(2, 4.6), 500.0);  // 5, and 4 below it
  EXPECT_EQ(gather(16, 4.0), 750.0);
  EXPECT_EQ(gather(90, 4.0), 2000.0);
  EXPECT_EQ(gather(4, 4.0), kInfinity);
  EXPECT_EQ(gather(1, 4.0), kInfinity);
  EXPECT_EQ(table.CollectiveUs(Collective::kAllToAll, 2, 4.0), 250.0);
  EXPECT_EQ(table.CollectiveUs(Collective::kSplit, 4, 4.0), 0.0);
}

// Four GPUs with 6 MB each at 2 MB per ms: three tensors, or three quarters of
// one; eight GPUs on two hosts at 1 MB per ms.
TEST(LinkTable, CollectivesOverUniformLinksReceiveWhatTheOthersHave) {
  const LinkTable table = LinkTable::Uniform(2.0, 1.0, 4);
  EXPECT_DOUBLE_EQ(table.CollectiveUs(Collective::kAllGather, 4, 6.0), 9000.0);
  EXPECT_DOUBLE_EQ(table.CollectiveUs(Collective::kAllToAll, 4, 6.0), 2250.0);
  EXPECT_DOUBLE_EQ(table.CollectiveUs(Collective::kAllGather, 8, 6.0),
                   42'000.0);
  EXPECT_EQ(table.CollectiveUs(Collective::kSplit, 4, 6.0), 0.0);
}

// Rows of Aceso's profiles of GPT-1.3B and 6.7B on V100, whose transfers of
// such sizes reach 42 GB/s. That a size is one GPU's is what the times say: of
// all GPUs together, the all-gathers would be 3 to 4 times as fast as measured.
TEST(LinkTable, UniformCollectivesAreWithinTwiceTheProfiledOnes) {
  const LinkTable table = LinkTable::Uniform(42.0, 5.4, 8);
  struct Measured {
    Collective kind;
    int ranks;
    double mb;
    double ms;
  };
  for (const Measured& row : {Measured{Collective::kAllGather, 2, 512, 18.473},
                              {Collective::kAllGather, 4, 288, 15.437},
                              {Collective::kAllGather, 8, 192, 15.528},
                              {Collective::kAllToAll, 2, 164, 2.586},
                              {Collective::kAllToAll, 4, 672, 10.602}}) {
    const double ratio =
        table.CollectiveUs(row.kind, row.ranks, row.mb) * 1e-3 / row.ms;
    EXPECT_GT(ratio, 0.5) << row.ranks << " GPUs, " << row.mb << " MB";
    EXPECT_LT(ratio, 2.1) << row.ranks << " GPUs, " << row.mb << " MB";
  }
}

TEST(LinkTable, NeedsTheBandwidthsWithinAndBetweenHosts) {
  const fakes::TemporaryFolder folder;
  const auto read = [&folder](const std::string& rows) {
    fakes::WriteFile(folder.path() / "links.csv", rows);
    (void)LinkTable::Read(folder.path() / "links.csv", "tiny");
  };
  EXPECT_THROW(read("p2p_inter_node,1\np2p_inter_node,5\n"),
               common::InputError);
  EXPECT_THROW(read("p2p_intra_node,1\np2p_intra_node,5\n"),
               common::InputError);
  EXPECT_NO_THROW(read("p2p_intra_node,1\np2p_inter_node,5\n"));
}

TEST(LinkTable, NamesTheLineOfAMistake) {
  const auto error = [](const std::string& rows) -> std::string {
    return fakes::ErrorOf([&] { return Read(rows); });
  };
  EXPECT_THAT(error("prim_tiny_all_gather_2gpus,4,0.5,1\n"),
              testing::HasSubstr("links.csv:5: must have a size and a time"));
  EXPECT_THAT(error("prim_tiny_all_gather_2gpus,4,-1\n"),
              testing::HasSubstr("'-1': must be a number, at least 0"));
  EXPECT_EQ(error("prim_tiny_all_gather_2gpus,4,0\n"), "no error");
}

}  // namespace planners::link_table_test
