#include "jobs/calibration.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "jobs/forecast.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::calibration_test {

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
std::vector<MeasuredStep> Measured(const Job& job, double compute,
                                   double communication, double noise) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.0, noise);
  const Forecaster planner(job, {});
  std::vector<MeasuredStep> steps;
  for (const trials::ParallelConfig& config : Configs()) {
    const trials::StepReport report = planner.Report(config);
    const auto parts_s = PartsOf(report.time, config, job.cluster);
    steps.push_back({config, 0,
                     (compute * parts_s[0] + communication * parts_s[1]) *
                         std::exp(noise > 0.0 ? normal(random) : 0.0),
                     1.05 * report.peak_memory_bytes});
  }
  return steps;
}

TEST(Calibration, FindsTheFactorsThatMeasurementsWereMadeWith) {
  const Job job = LlamaJob("fsdp2", 1);
  const Calibration fit = Calibrate(job, Measured(job, 1.3, 1.8, 0.01));
  EXPECT_NEAR(fit.factors[0], 1.3, 0.05);
  EXPECT_NEAR(fit.factors[1], 1.8, 0.35);
  EXPECT_NEAR(fit.memory, 1.05, 0.02);
  EXPECT_EQ(fit.step_times, static_cast<int>(Configs().size()));
}

TEST(Calibration, TheBandShrinksWithMeasurementsAndContainsTheTruth) {
  const Job job = LlamaJob("fsdp2", 1);
  const auto steps = Measured(job, 1.2, 1.5, 0.05);
  const trials::ParallelConfig config{
      .dp = 8, .zero_stage = 3, .microbatches = 32};
  const Forecaster planner(job, {});
  const auto parts_s =
      PartsOf(planner.Report(config).time, config, job.cluster);
  const Calibration one = Calibrate(job, {steps.begin(), steps.begin() + 1});
  const Calibration all = Calibrate(job, steps);
  EXPECT_LT(all.BandFactor(parts_s), one.BandFactor(parts_s));
  const double truth = 1.2 * parts_s[0] + 1.5 * parts_s[1];
  EXPECT_LT(std::abs(std::log(all.StepTime(parts_s) / truth)),
            std::log(all.BandFactor(parts_s)));
}

TEST(Calibration, TrialsOnOneNodeLeaveTheNetworkUncertain) {
  const Job one_node = LlamaJob("fsdp2", 1);
  const Calibration fit =
      Calibrate(one_node, Measured(one_node, 1.0, 1.0, 0.01));
  EXPECT_DOUBLE_EQ(fit.factors[2], 1.0);
  const trials::ParallelConfig config{
      .dp = 16, .zero_stage = 3, .microbatches = 16};
  const Job two_nodes = LlamaJob("fsdp2", 2);
  const Forecaster planner(two_nodes, {});
  auto parts_s =
      PartsOf(planner.Report(config).time, config, two_nodes.cluster);
  EXPECT_GT(parts_s[2], 0.0);
  const double with_network = fit.BandFactor(parts_s);
  parts_s[1] += parts_s[2];
  parts_s[2] = 0.0;
  EXPECT_GT(with_network, fit.BandFactor(parts_s));
}

TEST(Calibration, AnEmptyOneChangesNothing) {
  const Forecaster planner(LlamaJob(), {});
  const trials::ParallelConfig config{
      .dp = 16, .zero_stage = 3, .microbatches = 16};
  const trials::StepReport report = planner.Report(config);
  EXPECT_DOUBLE_EQ(planner.Predict(config).step_time_s, report.step_time_s);
  EXPECT_NEAR(
      Calibration{}.StepTime(PartsOf(report.time, config, LlamaJob().cluster)),
      report.step_time_s, 1e-9);
}

class MeasuredFile : public testing::Test {
 protected:
  std::vector<MeasuredStep> Read(const std::string& text) {
    fakes::WriteFile(folder_.path() / "t.csv", text);
    return ReadMeasuredSteps(folder_.path() / "t.csv", LlamaJob().workload);
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
  EXPECT_EQ(steps[0].config, (trials::ParallelConfig{
                                 .dp = 8, .zero_stage = 1, .microbatches = 4}));
  EXPECT_DOUBLE_EQ(steps[0].peak_memory_bytes, 40e9);
}

TEST_F(MeasuredFile, UnitsAndNamesAreThoseOfAnImport) {
  const double batch_size = LlamaJob().workload.batch_size;
  const auto steps =
      Read(fmt::format("dp,step_time_ms,samples_per_s,peak_memory_mib,outcome\n"
                       "8,1500,,1024,completed\n4,,{},,\n2,,,,out_of_memory\n",
                       batch_size / 2.0));
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_DOUBLE_EQ(steps[0].step_time_s, 1.5);
  EXPECT_DOUBLE_EQ(steps[0].peak_memory_bytes, 1073741824.0);
  EXPECT_DOUBLE_EQ(steps[1].step_time_s, 2.0);
}

TEST_F(MeasuredFile, OtherInputIsRefusedWithItsPlace) {
  EXPECT_THAT(Error("dp,seconds\n8,1\n"),
              HasSubstr("'step_time_s' is missing"));
  EXPECT_THAT(
      Error("dp,step_time_s\n8,-1\n"),
      HasSubstr("t.csv:2: step_time_s must be a number above 0, not '-1'"));
  EXPECT_THAT(Error("dp,step_time_s\nx,1\n"), HasSubstr("t.csv:2: "));
  EXPECT_THAT(Error("dp,step_time_s\n"), HasSubstr("no measured step time"));
}

}  // namespace jobs::calibration_test
