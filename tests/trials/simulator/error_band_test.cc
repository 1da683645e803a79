#include "trials/simulator/error_band.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.h"

namespace trials::error_band_test {

using ::testing::HasSubstr;

ErrorBand Band(double low, double high, int rows) {
  return {.low = low,
          .high = high,
          .rows = rows,
          .sources = ErrorBands::kFewestSources};
}

const ErrorRegime kSeen{true, true, 1, 0};

TEST(ErrorBands, ARegimeWithFewRowsOrSourcesHasTheBandOfTheCoarserOne) {
  ErrorBands::ByRegime bands;
  bands["all"] = Band(0.5, 2.0, 100);
  EXPECT_EQ(ErrorBands::Of(bands, kSeen).high, 2.0);
  EXPECT_FALSE(ErrorBands::Of(bands, kSeen).validated);
  ErrorBand& finest = bands[kSeen.Names()[0]];
  finest = Band(0.9, 1.1, ErrorBands::kFewestRows - 1);
  bands[kSeen.Names()[2]] = Band(0.8, 1.2, ErrorBands::kFewestRows);
  EXPECT_EQ(ErrorBands::Of(bands, kSeen).high, 1.2);
  EXPECT_TRUE(ErrorBands::Of(bands, kSeen).validated);
  ++finest.rows;
  EXPECT_EQ(ErrorBands::Of(bands, kSeen).high, 1.1);
  --finest.sources;
  EXPECT_EQ(ErrorBands::Of(bands, kSeen).high, 1.2);
  EXPECT_EQ(ErrorBands::Of({}, kSeen).rows, 0);
}

TEST(ErrorBands, RegimesAreNamedFromTheFinestToAll) {
  const auto names = [](int hosts, int zero_stage) {
    return ErrorRegime{true, false, hosts, zero_stage}.Names();
  };
  EXPECT_THAT(names(8, 0),
              testing::ElementsAre(
                  "seen GPU, new framework, 2 to 32 hosts, ZeRO 0 to 2",
                  "seen GPU, new framework, 2 to 32 hosts",
                  "seen GPU, new framework", "seen GPU", "all"));
  EXPECT_EQ(names(2, 0), names(32, 2));
  EXPECT_NE(names(1, 0), names(2, 0));
  EXPECT_NE(names(32, 0), names(33, 0));
  EXPECT_THAT(names(2, 3)[0], HasSubstr("ZeRO 3"));
}

TEST(ErrorBands, TheShippedBandsCanBeRead) {
  EXPECT_FALSE(ReadErrorBands(ErrorBandsPath()).step_time.empty());
}

TEST(ErrorBands, AFileIsReadAsItWasWritten) {
  const fakes::TemporaryFolder folder;
  ErrorBands bands;
  bands.architectures = {"hopper"};
  bands.frameworks = {"nanotron", "megatron"};
  bands.step_time["all"] = Band(0.75, 1.5, 30);
  bands.peak_memory[kSeen.Names()[0]] = Band(0.9, 1.25, 40);
  fakes::WriteFile(folder.path() / "bands.toml", ToToml(bands));
  const ErrorBands read = ReadErrorBands(folder.path() / "bands.toml");
  EXPECT_EQ(ToToml(read), ToToml(bands));
  EXPECT_TRUE(read.RegimeOf("hopper", "nanotron", 1, 0).gpu_seen);
  EXPECT_FALSE(read.RegimeOf("volta", "nanotron", 1, 0).gpu_seen);
  EXPECT_FALSE(read.RegimeOf("hopper", "aceso", 1, 0).framework_validated);
}

TEST(ErrorBands, TheReportHasTheIntervalInItsUnits) {
  ErrorBands bands;
  bands.step_time["all"] = Band(0.75, 1.5, 30);
  StepReport report;
  report.step_time_s = 2.0;
  report.peak_memory_bytes = 10e9;
  const std::string text = FormatBands(bands, kSeen, report);
  EXPECT_THAT(text,
              HasSubstr("step time 2 s: 1.5 to 3 s in nine of ten cases (30 "
                        "published rows of 4 sources: all); not "
                        "validated: seen GPU, validated framework, one host"));
  EXPECT_THAT(text,
              HasSubstr("peak memory 10 GB: no comparable published rows"));
  bands.step_time["all"].sources = 1;
  EXPECT_THAT(FormatBands(bands, kSeen, report),
              HasSubstr("(30 published rows of 1 source: all)"));
}

TEST(ErrorBands, ABandWithoutRowsOrSourcesIsRefused) {
  const fakes::TemporaryFolder folder;
  const auto read = [&](int rows, int sources) {
    const std::filesystem::path path = folder.path() / "bands.toml";
    std::ofstream(path) << "architectures = []\nframeworks = []\n"
                        << "[step_time.all]\nlow = 0.5\nhigh = 2.0\nrows = "
                        << rows << "\nsources = " << sources << "\n";
    return ReadErrorBands(path);
  };
  EXPECT_EQ(read(1, 1).step_time.at("all").sources, 1);
  EXPECT_THROW((void)read(0, 1), common::InputError);
  EXPECT_THROW((void)read(1, 0), common::InputError);
}

}  // namespace trials::error_band_test
