#include "trials/simulator/step_report.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::step_report_test {

using ::testing::HasSubstr;
using ::testing::Not;

StepReport Report() {
  StepReport report;
  report.step_time_s = 2.0;
  report.critical_rank = 6;
  report.time.forward_s = 0.5;
  report.time.bubble_s = 1.5;
  report.peak_memory_bytes = 12e9;
  report.capacity_bytes = 24e9;
  report.peak_rank = 3;
  report.fits = true;
  report.memory.parameters_bytes = 3e9;
  report.memory.activations_bytes = 9e9;
  return report;
}

TEST(StepReport, PrintsPartsInMillisecondsGigabytesAndPercent) {
  const std::string text = FormatReport("a step", Report());
  EXPECT_THAT(text, HasSubstr("step time 2 s, 0.5 steps/s; critical rank 6"));
  EXPECT_THAT(text, HasSubstr("500.000 ms   25.0 %"));
  EXPECT_THAT(text, HasSubstr("1500.000 ms   75.0 %"));
  EXPECT_THAT(text, HasSubstr("2000.000 ms\n"));
  EXPECT_THAT(text,
              HasSubstr("peak memory 12.00 GB of 24.00 GB on rank 3: fits"));
  EXPECT_THAT(text, HasSubstr("9.000 GB   75.0 %"));
  EXPECT_THAT(text, HasSubstr("12.000 GB\n"));
}

TEST(StepReport, LeavesOutOptionalPartsThatAreZeroOnly) {
  StepReport report = Report();
  const std::string without = FormatReport("a step", report);
  EXPECT_THAT(without, Not(HasSubstr("context-parallel ring")));
  EXPECT_THAT(without, Not(HasSubstr("waiting to be freed")));
  EXPECT_THAT(without, HasSubstr("recomputation"));  // zero, not optional
  report.time.context_s = 0.1;
  report.memory.pending_bytes = 1e9;
  const std::string with = FormatReport("a step", report);
  EXPECT_THAT(with, HasSubstr("context-parallel ring"));
  EXPECT_THAT(with, HasSubstr("waiting to be freed"));
}

TEST(StepReport, NamesTheLargestPartOfTheMemory) {
  MemoryBreakdown memory = Report().memory;
  EXPECT_EQ(LargestComponent(memory), "activations");
  memory.parameters_bytes = 10e9;
  EXPECT_EQ(LargestComponent(memory), "parameters");
}

}  // namespace trials::step_report_test
