#include "trials/command/trial_report.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

using testing::ElementsAre;

TEST(TrialReport, ReadsSteps) {
  const auto report = ParseTrialReport("oppa {\"step_time_s\": 0.25}\r");
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->step_time_s, 0.25);
}

TEST(TrialReport, ReadsMemoryAndStatus) {
  const auto report = ParseTrialReport(
      R"(oppa {"peak_memory_bytes": 7, "status": "out_of_memory", "message": "m"})");
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->peak_memory_bytes, 7.0);
  EXPECT_EQ(report->status, Outcome::kOutOfMemory);
  EXPECT_EQ(report->message, "m");
}

TEST(TrialReport, OtherLinesAreOutput) {
  for (const char* line : {"",
                           "oppa",
                           "oppa ",
                           "oppa is here",
                           "step 3: 0.4 s",
                           "{\"step_time_s\": 1}",
                           " oppas {}"}) {
    EXPECT_FALSE(ParseTrialReport(line).has_value()) << line;
  }
}

TEST(TrialReport, RefusesWhatCannotBe) {
  for (const char* line : {"oppa {",
                           "oppa {\"step_time_s\": -1}",
                           "oppa {\"step_time_s\": 0}",
                           "oppa {\"step_time_s\": 1e999}",
                           "oppa {\"step_time_s\": \"1\"}",
                           "oppa {\"step_time_s\": NaN}",
                           "oppa {\"step_time\": 1}",
                           "oppa {\"peak_memory_bytes\": -1}",
                           "oppa {\"status\": \"fine\"}",
                           "oppa {} {}"}) {
    EXPECT_THROW((void)ParseTrialReport(line), std::invalid_argument) << line;
  }
}

TEST(LineReader, PutsPiecesTogetherAndBoundsALine) {
  LineReader reader;
  std::vector<std::string> lines;
  const auto take = [&lines](std::string_view line) {
    lines.emplace_back(line);
  };
  reader.Take("a", take);
  reader.Take("b\n\ncd", take);
  EXPECT_THAT(lines, ElementsAre("ab", ""));
  reader.Take(std::string(3 * LineReader::kLongest, 'x'), take);
  reader.Finish(take);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2].size(), LineReader::kLongest);
}

}  // namespace
}  // namespace trials
