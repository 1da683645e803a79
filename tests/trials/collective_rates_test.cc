#include "trials/collective_rates.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/cluster.h"
#include "trials/data_folder.h"
#include "trials/simulator/collectives.h"

namespace trials::collective_rates_test {

using Kind = CollectiveRates::Kind;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kMebi = 1048576.0;

// 10 and 20 GB/s for 1 and 2 MiB over two ranks, 40 and 60 over eight.
std::string Text() {
  std::string text =
      "bandwidth_gb_per_s = 100\nleast_mib = 1\nranks = [2, 8]\n";
  for (const char* kind :
       {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}) {
    text +=
        std::string("[") + kind + "]\nranks_2 = [10, 20]\nranks_8 = [40, 60]\n";
  }
  return text;
}

class Rates : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path Written(const std::string& text) const {
    const std::filesystem::path path = folder_.path() / "link.toml";
    fakes::WriteFile(path, text);
    return path;
  }

  const fakes::TemporaryFolder folder_;
};

TEST_F(Rates, AreInterpolatedAsTimesOverBytesAndOverTheLogarithmOfRanks) {
  const CollectiveRates rates = ReadCollectiveRates(Written(Text()));
  const auto rate = [&](int ranks, double mebi) {
    return rates.BytesPerSecond(Kind::kAllGather, ranks, mebi * kMebi, 100e9);
  };
  EXPECT_NEAR(rate(2, 1.0), 10e9, 1.0);
  EXPECT_NEAR(rate(2, 1.5), 15e9, 1.0);  // both messages take 0.1
  // Half of the way from 1 / 40 to 2 / 60.
  EXPECT_NEAR(rate(8, 1.5), 1.5e9 / ((1 / 40.0 + 2 / 60.0) / 2), 1.0);
  EXPECT_NEAR(rate(8, 2.0), 60e9, 1.0);
  EXPECT_NEAR(rate(4, 1.0), 25e9, 1.0);  // half of the way from 2 to 8
  // Beyond the table: the time of the smallest message, the rate of the
  // largest one, and that of the most ranks.
  EXPECT_NEAR(rate(2, 0.25), 10e9 / 4, 1.0);
  EXPECT_NEAR(rate(2, 64.0), 20e9, 1.0);
  EXPECT_NEAR(rate(16, 1.0), 40e9, 1.0);
  EXPECT_NEAR(rates.BytesPerSecond(Kind::kAllReduce, 2, kMebi, 50e9), 5e9, 1.0);
}

TEST_F(Rates, GiveTheTimesOfCollectivesWithinAHostOnly) {
  const CollectiveRates rates = ReadCollectiveRates(Written(Text()));
  GroupLink link{.size = 8, .bandwidth_bytes_per_s = 100e9, .rates = &rates};
  const double sent = 7.0 / 8.0 * 2.0 * kMebi;
  EXPECT_NEAR(AllReduceTime(link, 2.0 * kMebi), 2.0 * sent / 60e9, 1e-12);
  for (const auto time : {AllGatherTime, ReduceScatterTime, AllToAllTime}) {
    EXPECT_NEAR(time(link, 2.0 * kMebi), sent / 60e9, 1e-12);
  }
  link.hosts = 2;
  const double several_s = AllReduceTime(link, 2.0 * kMebi);
  link.rates = nullptr;
  EXPECT_EQ(several_s, AllReduceTime(link, 2.0 * kMebi));
}

TEST_F(Rates, ErrorsNameTheLine) {
  std::string text = Text();
  text.replace(text.find("[40, 60]"), 8, "[40]");
  EXPECT_THAT(fakes::ErrorOf([&] { (void)ReadCollectiveRates(Written(text)); }),
              AllOf(HasSubstr("link.toml:6:"), HasSubstr("ranks_8")));
}

TEST(ShippedRates, LargerMessagesTakeLongerOverEveryLink) {
  for (const std::string& name : DataFileNames("links")) {
    const CollectiveRates& rates = FindCollectiveRates(name);
    for (const Kind kind : {Kind::kAllReduce, Kind::kAllGather,
                            Kind::kReduceScatter, Kind::kAllToAll}) {
      for (const int ranks : {2, 3, 4, 8}) {
        double before_s = 0.0;
        for (double bytes = kMebi / 8; bytes < 1024 * kMebi; bytes *= 1.25) {
          const double time_s =
              bytes / rates.BytesPerSecond(kind, ranks, bytes,
                                           rates.bandwidth_bytes_per_s);
          EXPECT_GE(time_s, (1 - 1e-3) * before_s)
              << name << " " << ranks << " " << bytes;
          before_s = time_s;
        }
      }
    }
  }
}

TEST(ShippedRates, BelongToTheirLinkAndCanBeIgnored) {
  const auto file = FindDataFile("clusters", "a100-selene");
  Cluster cluster = ReadCluster(file);
  ASSERT_NE(cluster.intra.rates, nullptr);
  EXPECT_EQ(cluster.intra.rates->name, "nvlink3");
  EXPECT_EQ(PartFiles(cluster).back(), FindDataFile("links", "nvlink3"));
  ReadChanges(
      common::TomlTable::ParseString("constant_rates = true\n", "m.toml"),
      cluster);
  EXPECT_EQ(cluster.intra.rates, nullptr);
}

}  // namespace trials::collective_rates_test
