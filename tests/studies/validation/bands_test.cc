#include "studies/validation/bands.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace studies {
namespace {

// Rows of a source whose ratios spread evenly from `low` to `high`.
void Add(const std::string& source,
         double low,
         double high,
         int rows,
         std::vector<LeftOutRow>& all) {
  for (int i = 0; i < rows; ++i) {
    const double ratio = low + (high - low) * i / (rows - 1);
    all.push_back({.source = source,
                   .architecture = "hopper",
                   .framework = "nanotron",
                   .step_time = ratio,
                   .peak_memory = ratio});
  }
}

TEST(ErrorBands, NineOfTenRatiosAreInsideIfSourcesAreAlike) {
  std::vector<LeftOutRow> rows;
  for (const char* source : {"a", "b", "c", "d"}) {
    Add(source, 0.5, 1.5, 1001, rows);
  }
  const trials::ErrorBand band = BandsOf(rows).step_time.at("all");
  EXPECT_NEAR(band.low, 0.55, 2e-3);
  EXPECT_NEAR(band.high, 1.45, 2e-3);
  EXPECT_EQ(band.rows, 4004);
  EXPECT_NEAR(Calibrate(rows).back().step_time_inside, 0.9, 0.01);
}

TEST(ErrorBands, BandsAreWiderIfSourcesDiffer) {
  std::vector<LeftOutRow> alike;
  std::vector<LeftOutRow> differ;
  for (int i = 0; i < 6; ++i) {
    const std::string source(1, static_cast<char>('a' + i));
    Add(source, 0.9, 1.5, 200, alike);
    Add(source, 0.9 + 0.1 * i, 1.0 + 0.1 * i, 200, differ);
  }
  EXPECT_GT(BandsOf(differ).step_time.at("all").high,
            BandsOf(alike).step_time.at("all").high);
}

TEST(ErrorBands, APredictionIsInsideItsBand) {
  std::vector<LeftOutRow> rows;
  Add("a", 1.2, 1.4, 30, rows);
  EXPECT_EQ(BandsOf(rows).step_time.at("all").low, 1.0);
}

TEST(ErrorBands, ASourceWithManyRowsHasNoMoreWeight) {
  std::vector<LeftOutRow> rows;
  Add("many", 0.99, 1.01, 10000, rows);
  Add("few", 1.5, 2.5, 101, rows);
  const trials::ErrorBand band = BandsOf(rows).step_time.at("all");
  EXPECT_GT(band.high, 2.3);
  EXPECT_EQ(band.sources, 2);
}

TEST(ErrorBands, AMachineIsSeenIfAnotherSourceHasIt) {
  std::vector<LeftOutRow> rows;
  Add("a", 0.9, 1.1, 30, rows);
  EXPECT_TRUE(BandsOf(rows).step_time.contains("unseen GPU"));
  EXPECT_FALSE(BandsOf(rows).step_time.contains("seen GPU"));
  Add("b", 0.9, 1.1, 30, rows);
  EXPECT_TRUE(BandsOf(rows).step_time.contains("seen GPU"));
  EXPECT_TRUE(BandsOf(rows).step_time.contains(
      "seen GPU, validated framework, one host, ZeRO 0 to 2"));
}

TEST(ErrorBands, OperatorsAreNotSteps) {
  std::vector<LeftOutRow> rows;
  Add("a", 0.9, 1.1, 30, rows);
  Add("b", 2.0, 3.0, 30, rows);
  for (LeftOutRow& row : rows) {
    row.is_step = row.source == "a";
  }
  EXPECT_LT(BandsOf(rows).step_time.at("all").high, 1.2);
}

TEST(ErrorBands, CalibrationIsByTheBandsOfOtherSources) {
  std::vector<LeftOutRow> rows;
  Add("narrow", 0.98, 1.02, 100, rows);
  Add("wide", 0.5, 1.5, 100, rows);
  const std::vector<Calibration> all = Calibrate(rows);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].source, "narrow");
  EXPECT_EQ(all[0].step_time_inside, 1.0);
  EXPECT_EQ(all[1].source, "wide");
  EXPECT_LT(all[1].step_time_inside, 0.1);
  EXPECT_NEAR(all[2].step_time_inside, 0.52, 0.03);
}

}  // namespace
}  // namespace studies
