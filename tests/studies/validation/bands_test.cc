#include "studies/validation/bands.h"

#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace studies::bands_test {

void Add(const std::string& source, double log_ratio,
         std::vector<LeftOutRow>& all) {
  all.push_back({.source = source,
                 .kind = "CPU-bound",
                 .step_time = std::exp(log_ratio),
                 .peak_memory = std::exp(log_ratio)});
}

// Of the standard normal distribution, by Box and Muller.
double Normal(std::mt19937_64& bits) {
  const auto uniform = [&bits] {
    return (static_cast<double>(bits() >> 11) + 0.5) * 0x1p-53;
  };
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

// Rows of a source whose ratios spread evenly from `low` to `high`.
void Add(const std::string& source, double low, double high, int rows,
         std::vector<LeftOutRow>& all) {
  for (int i = 0; i < rows; ++i) {
    Add(source, std::log(low + (high - low) * i / (rows - 1)), all);
  }
}

// Four sources with means of the logarithms m = 0, 0.1, 0.2 and 0.3, and
// variances of 0.05^2 within each.
TEST(ErrorBands, AreThePredictionIntervalsOfARandomEffectsModel) {
  std::vector<LeftOutRow> rows;
  for (int i = 0; i < 4; ++i) {
    Add({'a', static_cast<char>('0' + i)}, std::exp(0.1 * i - 0.05),
        std::exp(0.1 * i + 0.05), 2, rows);
  }
  const trials::ErrorBand band = BandsOf(rows).step_time.at("all");
  const double between = (0.15 * 0.15 + 0.05 * 0.05) * 2.0 / 3.0;
  const double half =
      std::hypot(2.3534 * std::sqrt(between * 1.25), 1.645 * 0.05);
  EXPECT_NEAR(std::log(band.low), 0.15 - half, 2e-3);
  EXPECT_NEAR(std::log(band.high), 0.15 + half, 2e-3);
  EXPECT_EQ(band.rows, 8);
  EXPECT_EQ(band.sources, 4);
}

TEST(ErrorBands, NineOfTenRowsOfANewSourceAreInside) {
  std::mt19937_64 bits(1);
  constexpr int kDraws = 60;
  double inside = 0.0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<LeftOutRow> rows;
    for (int source = 0; source < 8; ++source) {
      const double mean = 0.1 + 0.2 * Normal(bits);
      for (int i = 0; i < 10; ++i) {
        Add("s" + std::to_string(source), mean + 0.1 * Normal(bits), rows);
      }
    }
    inside += Calibrate(rows).back().step_time_inside / kDraws;
  }
  EXPECT_NEAR(inside, 0.9, 0.02);
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
  Add("a", 0.9, 1.1, 30, rows);
  Add("b", 1.5, 2.5, 30, rows);
  const trials::ErrorBand once = BandsOf(rows).step_time.at("all");
  for (int i = 0; i < 9; ++i) {
    Add("a", 0.9, 1.1, 30, rows);
  }
  const trials::ErrorBand often = BandsOf(rows).step_time.at("all");
  EXPECT_NEAR(often.low, once.low, 1e-12);
  EXPECT_NEAR(often.high, once.high, 1e-12);
  EXPECT_EQ(often.rows, 330);
}

// Few sources of one kind say little about how much these differ.
TEST(ErrorBands, TheVariancesOfAKindAreModeratedByThoseOfAll) {
  std::vector<LeftOutRow> rows;
  for (int i = 0; i < 6; ++i) {
    Add(std::string(1, static_cast<char>('a' + i)), 0.7 + 0.1 * i,
        0.9 + 0.1 * i, 30, rows);
  }
  for (LeftOutRow& row : rows) {
    row.kind = row.source < "c" ? "ordinary" : "tuned";
  }
  const trials::ErrorBands::ByKind bands = BandsOf(rows).step_time;
  EXPECT_LT(bands.at("ordinary").mean, bands.at("tuned").mean);
  EXPECT_EQ(bands.at("ordinary").freedom, 1 + trials::ErrorBand::kPrior);
  EXPECT_GT(bands.at("ordinary").between, 0.01);
  EXPECT_LT(bands.at("ordinary").between, bands.at("all").between * 1.5);
}

// Rows of experts deviate by +-0.3 beyond what usual rows do.
TEST(ErrorBands, RowsOfAGuessWidenItsBandAndNoOther) {
  std::vector<LeftOutRow> rows;
  for (const char* source : {"a", "b", "c", "d"}) {
    Add(source, 0.9, 1.1, 30, rows);
  }
  const trials::ErrorBands usual = BandsOf(rows);
  EXPECT_TRUE(usual.guess_step_time.empty());
  for (const double log_ratio : {-0.3, 0.3}) {
    Add("e", log_ratio, rows);
    rows.back().guesses = {{"experts", "experts"}};
    rows.back().gpu = "H100";
  }
  const trials::ErrorBands bands = BandsOf(rows);
  const trials::ErrorBand& all = bands.step_time.at("all");
  EXPECT_EQ(all.high, usual.step_time.at("all").high);
  EXPECT_NEAR(bands.guess_step_time.at("experts"),
              0.09 + all.mean * all.mean - all.between - all.within, 1e-12);
  const std::vector<Calibration> calibration = Calibrate(rows);
  EXPECT_EQ(calibration.at(5).source, "guess: experts");
  EXPECT_EQ(calibration.at(5).step_time_rows, 2);
}

TEST(ErrorBands, OperatorsAreNotSteps) {
  std::vector<LeftOutRow> rows;
  Add("a", 0.9, 1.1, 30, rows);
  Add("b", 2.0, 3.0, 30, rows);
  for (LeftOutRow& row : rows) {
    row.is_step = row.source == "a";
  }
  EXPECT_LT(BandsOf(rows).step_time.at("all").high, 1.5);
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
  EXPECT_LT(all[1].step_time_inside, 0.2);
  EXPECT_DOUBLE_EQ(all[2].step_time_inside,
                   0.5 * (1.0 + all[1].step_time_inside));
}

// Of rows with a probability of 0.75, two of three ran.
TEST(Reliability, IsTheShareThatRanByThePredictedProbability) {
  std::vector<LeftOutRow> rows;
  Add("a", 0.9, 1.1, 3, rows);
  for (LeftOutRow& row : rows) {
    row.fit_probability = 0.75;
  }
  rows.front().ran = false;
  Add("always ran", 0.9, 1.1, 3, rows);
  const plots::Panel panel = Reliability(rows).panels.at(0);
  ASSERT_EQ(panel.series.size(), 2U);
  EXPECT_EQ(panel.series[0].label, "a (3 rows, Brier 0.229)");
  EXPECT_DOUBLE_EQ(panel.series[0].band.y[7].median, 2.0 / 3.0);
  EXPECT_EQ(panel.series[1].name, "all");
}

}  // namespace studies::bands_test
