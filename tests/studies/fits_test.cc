#include "studies/fits.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "surrogates/cost/predicted_prior.h"
#include "surrogates/cost/term.h"

namespace studies::fits_test {

using testing::HasSubstr;
using trials::FitRecord;

// Three fits of two surrogates; the last one is before trial 7.
std::vector<FitRecord> Records() {
  std::vector<FitRecord> records;
  for (const int trial : {5, 6, 7}) {
    const auto add = [&](const std::string& surrogate,
                         const std::string& parameter, double value) {
      records.push_back({trial, surrogate, parameter, value});
    };
    add("throughput", "length_scale[dp]", trial == 6 ? 2.0 : 0.5);
    add("throughput", "signal_stddev", 0.1 * trial);
    add("throughput", "family_stddev", 0.25);
    add("throughput", "prior[constant]", 0.01);
    add("throughput", "prior[DP volume; intra-node]", 0.5);
    add("throughput", "prior_log_stddev[DP volume; intra-node]", 0.2);
    add("throughput", "prior[TP latency; intra-node]", 0.008);
    add("throughput", "log_posterior", -3.0);
    add("memory", "prior[gradients]", 0.01);
    add("memory", "prior[model state]", 0.75);
    add("memory", "prior[constant]", 0.1);
    add("memory", "log_posterior", -3.0);
    add("choice", "cucb", 1.0);
    add("choice", "log_posterior", 0.0);
  }
  return records;
}

const FittedParameter& ByName(const std::vector<FittedParameter>& values,
                              const std::string& name) {
  for (const FittedParameter& value : values) {
    if (value.name == name) {
      return value;
    }
  }
  throw std::out_of_range(name);
}

// 1e9 parameters of 2 bytes, 16 layers, 2048 wide, 4096 tokens.
constexpr surrogates::JobSizes kSizes{.capacity_bytes = 24e9,
                                      .parameters = 1e9,
                                      .bytes_per_value = 2.0,
                                      .layers = 16.0,
                                      .hidden_size = 2048.0,
                                      .tokens = 4096.0};

TEST(FittedAt, TakesTheLastFitAndTheRangeOverTheOnesBefore) {
  const FittedRun run = FittedAt(Records());
  EXPECT_EQ(run.trial, 7);
  ASSERT_EQ(run.surrogates.size(), 2U);  // the choice is none
  const FittedParameter& dp = run.surrogates[0].length_scales.at(0);
  EXPECT_EQ(dp.name, "dp");
  EXPECT_EQ(dp.estimate.value, 0.5);
  EXPECT_EQ(dp.estimate.high, 2.0);
  EXPECT_EQ(
      FittedAt(Records(), 6).surrogates[0].length_scales[0].estimate.value,
      2.0);
  EXPECT_EQ(
      FittedAt(Records(), 0, 1).surrogates[0].length_scales[0].estimate.high,
      0.5);
}

TEST(FittedAt, IntervalOfACoefficientIsThatOfItsLogarithm) {
  const FittedRun run = FittedAt(Records());
  const common::Estimate& e =
      ByName(run.surrogates[0].coefficients, "DP volume; intra-node").estimate;
  EXPECT_NEAR(e.low, 0.5 * std::exp(-1.96 * 0.2), 1e-4);
  EXPECT_NEAR(e.high, 0.5 * std::exp(1.96 * 0.2), 1e-4);
}

TEST(FittedAt, WithoutAFitSaysSo) {
  EXPECT_THROW((void)FittedAt({}), common::InputError);
  EXPECT_THROW((void)FittedAt(Records(), 4), common::InputError);
}

// All gradients, 2 GB, go round the ring twice in 0.5 s: 8 GB/s.
TEST(PhysicalReading, VolumesAreBandwidthsWithTheirEndsExchanged) {
  const FittedSurrogate surrogate = FittedAt(Records()).surrogates[0];
  const FittedParameter& volume =
      ByName(surrogate.coefficients, "DP volume; intra-node");
  const auto reading = ReadingOf(surrogate, volume, kSizes);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->unit, "GB/s");
  EXPECT_NEAR(reading->estimate.value, 8.0, 1e-9);
  EXPECT_NEAR(reading->estimate.low, 4.0 / volume.estimate.high, 1e-9);
  EXPECT_LT(reading->estimate.low, reading->estimate.high);
}

// 64 all-reduces in 8 ms of latency: 125 us each.
TEST(PhysicalReading, LatenciesAreThoseOfOneMessage) {
  const FittedSurrogate surrogate = FittedAt(Records()).surrogates[0];
  const auto reading = ReadingOf(
      surrogate, ByName(surrogate.coefficients, "TP latency; intra-node"),
      kSizes);
  EXPECT_NEAR(reading->estimate.value, 125.0, 1e-9);
  EXPECT_EQ(reading->unit, "us");
}

TEST(PhysicalReading, MemoryIsInBytesBesideWhatTheModelSays) {
  const FittedSurrogate surrogate = FittedAt(Records()).surrogates[1];
  const auto reading = ReadingOf(
      surrogate, ByName(surrogate.coefficients, "model state"), kSizes);
  EXPECT_NEAR(reading->estimate.value, 18.0, 1e-9);
  EXPECT_NEAR(*reading->expected, 16.0, 1e-9);
}

// So that a term which is added to the cost model is also explained.
TEST(PhysicalReading, EveryTermOfTheCostModelsHasAMeaning) {
  const surrogates::ClusterShape shape{.gpus = 16, .gpus_per_node = 4};
  const auto expect = [](const std::string& name,
                         const std::vector<surrogates::CostTerm>& terms) {
    FittedSurrogate surrogate{.name = name};
    for (const surrogates::CostTerm& term : terms) {
      std::string recorded = term.name;
      std::replace(recorded.begin(), recorded.end(), ',', ';');
      surrogate.coefficients.push_back({recorded, {1.0, 1.0, 1.0}});
    }
    for (const FittedParameter& value : surrogate.coefficients) {
      EXPECT_NE(MeaningOf(surrogate, value.name), "") << name << value.name;
    }
  };
  expect("throughput", surrogates::PhysicalTimeTerms(shape));
  expect("throughput", surrogates::PrintedTimeTerms(shape));
  expect("memory",
         surrogates::PhysicalMemoryTerms({.sp = true, .attention = true}));
  expect("memory", surrogates::PrintedMemoryTerms(shape));
}

// They have any sign, so that their intervals are not those of logarithms.
TEST(PhysicalReading, EveryTermAroundPredictionsIsExplainedAsANumber) {
  const Eigen::VectorXd line = Eigen::VectorXd::LinSpaced(4, 0.0, 1.0);
  std::vector<FitRecord> records;
  for (const auto& coefficient :
       surrogates::PredictedMean(line, line, false, 0.0, 1.0, line)
           .coefficients) {
    records.push_back(
        {1, "memory", fmt::format("prior[{}]", coefficient.name), 1.0});
    records.push_back({1, "memory",
                       fmt::format("prior_log_stddev[{}]", coefficient.name),
                       1.0});
  }
  records.push_back({1, "memory", "log_posterior", 0.0});
  const FittedSurrogate surrogate = FittedAt(records).surrogates.at(0);
  ASSERT_EQ(surrogate.coefficients.size(), 4U);
  for (const FittedParameter& value : surrogate.coefficients) {
    EXPECT_NE(MeaningOf(surrogate, value.name), "") << value.name;
    EXPECT_NEAR(value.estimate.low, 1.0 - 1.96, 1e-3) << value.name;
  }
}

TEST(FitsText, NamesPhysicalUnitsIntervalsAndWhatIsMissing) {
  const trials::RunInfo run{.experiment = "e", .method = "oppa", .repeat = 2};
  const std::string text = FitsText(run, FittedAt(Records()), kSizes, "a note");
  EXPECT_THAT(text, HasSubstr("e/oppa/2, before trial 7 (not finished)"));
  EXPECT_THAT(text, testing::ContainsRegex("8 +GB/s +5.41 - 11.8"));
  EXPECT_THAT(text, HasSubstr("all-reduce of all gradients within a host"));
  EXPECT_THAT(text, HasSubstr("shared by a family of configurations"));
  EXPECT_THAT(text, HasSubstr("a note"));
  for (const std::string_view line : common::Split(text, '\n')) {
    EXPECT_LE(line.size(), 120U) << line;
  }
}

TEST(FitsJson, HoldsTheSameNumbers) {
  const auto json = nlohmann::json::parse(
      FitsJson({.method = "oppa"}, FittedAt(Records()), kSizes, ""));
  const auto& throughput = json["surrogates"]["throughput"];
  EXPECT_EQ(throughput["length_scales"]["dp"]["value"], 0.5);
  EXPECT_EQ(throughput["coefficients"][1]["physical"]["unit"], "GB/s");
  EXPECT_FALSE(json.contains("note"));
}

}  // namespace studies::fits_test
