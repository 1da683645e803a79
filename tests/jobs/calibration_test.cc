#include "jobs/calibration.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "jobs/plan.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs {
namespace {

using testing::HasSubstr;

std::vector<trials::ParallelConfig> Configs() {
  std::vector<trials::ParallelConfig> configs;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int zero : {1, 2, 3}) {
      configs.push_back({.dp = 8 / tp,
                         .tp = tp,
                         .zero_stage = tp == 8 ? 0 : zero,
                         .microbatches = 4,
                         .grad_checkpoint = trials::kRecomputeFull,
                         .sp = tp});
    }
  }
  return configs;
}

// Measurements on a machine whose computation and communication take these
// factors of the predicted times.
std::vector<MeasuredStep> Measured(const Job& job,
                                   double compute,
                                   double communication,
                                   double noise) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.0, noise);
  const Planner planner(job, {});
  std::vector<MeasuredStep> steps;
  for (const trials::ParallelConfig& config : Configs()) {
    const trials::StepReport report = planner.Report(config);
    const double communication_s = CommunicationTime(report.time);
    steps.push_back({config,
                     0,
                     (compute * (report.step_time_s - communication_s) +
                      communication * communication_s) *
                         std::exp(noise > 0.0 ? normal(random) : 0.0),
                     1.05 * report.peak_memory_bytes});
  }
  return steps;
}

TEST(Calibration, FindsTheFactorsThatMeasurementsWereMadeWith) {
  const Job job = LlamaJob("fsdp2", 1);
  const Calibration fit = Calibrate(job, Measured(job, 1.3, 1.8, 0.01));
  EXPECT_NEAR(fit.compute, 1.3, 0.05);
  EXPECT_NEAR(fit.communication, 1.8, 0.35);
  EXPECT_NEAR(fit.memory, 1.05, 0.02);
  EXPECT_EQ(fit.step_times, static_cast<int>(Configs().size()));
}

TEST(Calibration, TheBandShrinksWithMeasurementsAndContainsTheTruth) {
  const Job job = LlamaJob("fsdp2", 1);
  const auto steps = Measured(job, 1.2, 1.5, 0.05);
  const Planner sixteen(LlamaJob("fsdp2", 2), {});
  const trials::ParallelConfig config{
      .dp = 16, .zero_stage = 3, .microbatches = 16};
  const trials::TimeBreakdown time = sixteen.Report(config).time;
  const Calibration one = Calibrate(job, {steps.begin(), steps.begin() + 1});
  const Calibration all = Calibrate(job, steps);
  EXPECT_LT(all.BandFactor(time), one.BandFactor(time));
  const double communication_s = CommunicationTime(time);
  const double truth =
      1.2 * (time.Total() - communication_s) + 1.5 * communication_s;
  EXPECT_LT(std::abs(std::log(all.StepTime(time) / truth)),
            std::log(all.BandFactor(time)));
}

TEST(Calibration, AnEmptyOneChangesNothing) {
  const Planner planner(LlamaJob(), {});
  const trials::TimeBreakdown time =
      planner.Report({.dp = 16, .zero_stage = 3, .microbatches = 16}).time;
  EXPECT_DOUBLE_EQ(Calibration{}.StepTime(time), time.Total());
}

class MeasuredFile : public testing::Test {
 protected:
  std::vector<MeasuredStep> Read(const std::string& text) {
    fakes::WriteFile(folder_.path() / "t.csv", text);
    return ReadMeasuredSteps(folder_.path() / "t.csv");
  }
  std::string Error(const std::string& text) {
    try {
      (void)Read(text);
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "";
  }
  fakes::TemporaryFolder folder_;
};

TEST_F(MeasuredFile, ColumnsAreParametersAndRowsThatFailedAreLeftOut) {
  const auto steps = Read(
      "dp,mbs,mb,zero_stage,status,step_time_s,peak_memory_gb\n"
      "8,2,4,1,ok,1.5,40\n8,4,2,1,oom,,\n");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].batch_size, 64);
  EXPECT_EQ(
      steps[0].config,
      (trials::ParallelConfig{.dp = 8, .zero_stage = 1, .microbatches = 4}));
  EXPECT_DOUBLE_EQ(steps[0].peak_memory_bytes, 40e9);
}

TEST_F(MeasuredFile, OtherInputIsRefusedWithItsPlace) {
  EXPECT_THAT(Error("dp,seconds\n8,1\n"), HasSubstr("step_time_s is missing"));
  EXPECT_THAT(Error("dp,step_time_s\n8,-1\n"),
              HasSubstr("t.csv:2: invalid value '-1' for step_time_s"));
  EXPECT_THAT(Error("dp,step_time_s\nx,1\n"), HasSubstr("t.csv:2: "));
  EXPECT_THAT(Error("dp,step_time_s\n"), HasSubstr("no measured step time"));
}

}  // namespace
}  // namespace jobs
