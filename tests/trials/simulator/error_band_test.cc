#include "trials/simulator/error_band.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::error_band_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// With variances of 0.01 between sources and within each.
ErrorBand Band(double mean, int rows) {
  ErrorBand band{.mean = mean,
                 .between = 0.01,
                 .within = 0.01,
                 .freedom = 3.0,
                 .rows = rows,
                 .sources = ErrorBands::kFewestSources};
  band.SetInterval();
  return band;
}

TEST(ErrorBands, AKindWithFewRowsOrSourcesHasTheBandOfAll) {
  ErrorBands::ByKind bands;
  const auto mean = [&] { return ErrorBands::Of(bands, "tuned").second.mean; };
  EXPECT_EQ(ErrorBands::Of(bands, "tuned").second.rows, 0);
  bands["all"] = Band(0.3, 100);
  EXPECT_EQ(mean(), 0.3);
  ErrorBand& tuned = bands["tuned"];
  tuned = Band(0.1, ErrorBands::kFewestRows - 1);
  EXPECT_EQ(mean(), 0.3);
  ++tuned.rows;
  EXPECT_EQ(mean(), 0.1);
  --tuned.sources;
  EXPECT_EQ(mean(), 0.3);
}

// Rows of the source itself move the band to their mean and make it narrower,
// down to the scatter within a source.
TEST(ErrorBands, OwnRowsNarrowTheBand) {
  const ErrorBand band = Band(0.0, 100);
  const ErrorBand one = band.After(std::array{0.4});
  EXPECT_NEAR(one.mean, 0.2, 1e-12);
  EXPECT_LT(one.high / one.low, band.high / band.low);
  const ErrorBand many = band.After(std::vector<double>(1000, 0.4));
  EXPECT_NEAR(many.mean, 0.4, 1e-3);
  EXPECT_NEAR(many.high / many.low, std::exp(2 * 1.645 * 0.1), 1e-2);
}

// Of one source, those that nine in ten keep; of more, wider ones.
TEST(ErrorBands, LimitsHoldForAllSourcesAtOnce) {
  ErrorBand band = Band(0.1, 100);
  band.sources = 1;
  EXPECT_NEAR(band.Limits().first, band.low, 1e-6);
  EXPECT_NEAR(band.Limits().second, band.high, 1e-6);
  band.sources = 8;
  EXPECT_LT(band.Limits().first, 0.95 * band.low);
  EXPECT_GT(band.Limits().second, 1.05 * band.high);
}

TEST(ErrorBands, LimitsAreThoseOfTheKindThatScattersMost) {
  const ErrorBands::ByKind one = {{"all", Band(0.0, 100)}};
  ErrorBands::ByKind two = one;
  two["slow"] = Band(0.5, 100);
  two["rare"] = Band(5.0, ErrorBands::kFewestRows - 1);
  const auto [low, high] = ErrorBands::Limits(two);
  EXPECT_DOUBLE_EQ(low, ErrorBands::Limits(one).first);
  EXPECT_DOUBLE_EQ(high, two["slow"].Limits().second);
}

TEST(ErrorBands, TheShippedBandsCanBeRead) {
  EXPECT_FALSE(ReadErrorBands(ErrorBandsPath()).step_time.empty());
}

TEST(ErrorBands, AGuessIsWhatTooFewRowsWereComparedWith) {
  Workload workload;
  workload.sequence_length = 4096;
  Gpu gpu;
  gpu.name = "GB200";
  gpu.validated = "steps";
  Framework framework;
  framework.compared_with = {"vtrain"};
  const auto kinds = [&] {
    std::vector<std::string> names;
    for (const Guess& guess : GuessesOf(workload, gpu, framework)) {
      names.push_back(guess.kind);
    }
    return names;
  };
  EXPECT_THAT(kinds(), IsEmpty());
  gpu.no_bf16 = true;  // no table has fused attention on such a GPU
  EXPECT_THAT(kinds(), ElementsAre("fused attention"));
  framework.kernels.cudnn_attention = true;  // not fused there
  EXPECT_THAT(kinds(), IsEmpty());
  gpu.no_bf16 = false;
  workload.model.experts = 8;
  EXPECT_THAT(kinds(), ElementsAre("experts"));
  workload.sequence_length = kLongSequence;
  gpu.validated = "";
  framework.compared_with.clear();
  EXPECT_THAT(kinds(),
              ElementsAre("experts", "long sequences", "GPU", "framework"));
}

// Of several guesses the largest counts, and a kind without rows has that of
// all.
TEST(ErrorBands, AGuessWidensTheBandByItsVariance) {
  ErrorBands bands;
  bands.step_time["all"] = Band(0.0, 100);
  bands.guess_step_time = {{"all", 0.02}, {"experts", 0.03}, {"GPU", 0.001}};
  const auto between = [&](const std::vector<Guess>& guesses) {
    return Widened(bands, guesses).step_time.at("all").between;
  };
  EXPECT_EQ(between({}), 0.01);
  EXPECT_NEAR(between({{"GPU", ""}, {"experts", ""}}), 0.04, 1e-12);
  EXPECT_NEAR(between({{"parts", ""}}), 0.03, 1e-12);
  EXPECT_GT(Widened(bands, {{"experts", ""}}).step_time.at("all").high,
            bands.step_time.at("all").high);
}

TEST(ErrorBands, AFileIsReadAsItWasWritten) {
  const fakes::TemporaryFolder folder;
  ErrorBands bands;
  bands.step_time["all"] = Band(0.1, 30);
  bands.peak_memory["tuned"] = Band(-0.1, 40);
  bands.guess_step_time = {{"all", 0.02}, {"long sequences", 0.03}};
  fakes::WriteFile(folder.path() / "bands.toml", ToToml(bands));
  const ErrorBands read = ReadErrorBands(folder.path() / "bands.toml");
  EXPECT_EQ(ToToml(read), ToToml(bands));
  EXPECT_EQ(read.step_time.at("all").high, bands.step_time.at("all").high);
}

TEST(ErrorBands, TheReportHasTheIntervalInItsUnits) {
  ErrorBands bands;
  bands.step_time["all"] = Band(0.0, 30);
  StepReport report;
  report.step_time_s = 2.0;
  report.peak_memory_bytes = 10e9;
  const std::string text = FormatBands(bands, "tuned", report);
  EXPECT_THAT(text,
              HasSubstr("step time 2 s: 1.5 to 2.66 s in nine of ten cases (30 "
                        "published rows of 2 sources: all kinds of code)"));
  EXPECT_THAT(text,
              HasSubstr("peak memory 10 GB: no comparable published rows"));
}

TEST(ErrorBands, ABandWithoutRowsOrSourcesIsRefused) {
  const fakes::TemporaryFolder folder;
  const auto read = [&](int rows, int sources) {
    const std::filesystem::path path = folder.path() / "bands.toml";
    std::ofstream(path) << "[step_time.all]\nmean = 0\nbetween = 0.01\n"
                        << "within = 0.01\nfreedom = 3\nrows = " << rows
                        << "\nsources = " << sources << "\n";
    return ReadErrorBands(path);
  };
  EXPECT_EQ(read(1, 1).step_time.at("all").sources, 1);
  EXPECT_THROW((void)read(0, 1), common::InputError);
  EXPECT_THROW((void)read(1, 0), common::InputError);
}

}  // namespace trials::error_band_test
