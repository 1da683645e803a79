#include "jobs/plan/measured_steps.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "jobs/plan/forecast.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::calibration_test {

using testing::HasSubstr;
using testing::Not;

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

// All of them fit.
Job RoomyJob() {
  Job job = LlamaJob("fsdp2", 1);
  job.cluster.gpu.memory_bytes *= 2.0;
  return job;
}

using harness::StepParts;

StepParts PartsOn(const Job& job, const trials::ParallelConfig& config) {
  const Forecaster forecaster(job, {});
  return harness::StepPartsOf(forecaster.Report(config).time, config,
                              job.cluster);
}

// Measurements on a machine whose computation and other parts take these
// factors of the predicted times.
MeasuredSteps Measured(const Job& job, double compute, double other,
                       double noise) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.0, noise);
  const Forecaster forecaster(job, {});
  MeasuredSteps measured;
  for (const trials::ParallelConfig& config : Configs()) {
    StepParts factors = StepParts::Constant(other);
    factors[harness::kComputation] = compute;
    measured.steps.push_back(
        {config, 0,
         factors.dot(PartsOn(job, config)) *
             std::exp(noise > 0.0 ? normal(random) : 0.0),
         1.05 * forecaster.Report(config).peak_memory_bytes});
  }
  return measured;
}

double PredictedOn(const Job& job, const Calibration& calibration,
                   const trials::ParallelConfig& config) {
  return Forecaster(job, {.calibration = calibration})
      .Predict(config)
      .step_time_s;
}

const trials::ParallelConfig kOther = {
    .dp = 8, .zero_stage = 3, .microbatches = 32};

TEST(Calibration, FindsTheFactorsThatMeasurementsWereMadeWith) {
  const Job job = RoomyJob();
  MeasuredSteps measured = Measured(job, 1.3, 1.8, 0.01);
  const std::vector<MeasuredStep> once = measured.steps;
  for (int i = 0; i < 9; ++i) {  // enough to overcome the prior
    measured.steps.insert(measured.steps.end(), once.begin(), once.end());
  }
  const Calibration fit = Calibrate(job, measured);
  EXPECT_NEAR(fit.factors[harness::kComputation], 1.3, 0.05);
  EXPECT_NEAR(fit.factors[harness::kInHosts], 1.8, 0.35);
  EXPECT_NEAR(fit.memory, 1.05, 0.02);
  EXPECT_EQ(fit.step_times, static_cast<int>(10 * Configs().size()));
}

// It also says how much memory it needs at most, which is news where it is
// predicted to need more than there is.
TEST(Calibration, ARowThatRanIsEvidenceAgainstAForecastThatItDoesNot) {
  const trials::ParallelConfig config = Configs().front();
  for (const double share : {0.9, 3.0}) {
    Job job = RoomyJob();
    const trials::StepReport report = Forecaster(job, {}).Report(config);
    job.cluster.gpu.memory_bytes *=
        share * report.peak_memory_bytes / report.capacity_bytes;
    const Calibration fit =
        Calibrate(job, {{{config, 0, report.step_time_s, 0.0}}, ""});
    if (share < 1.0) {
      EXPECT_LT(fit.memory, share);
    } else {
      EXPECT_EQ(fit.memory_log_stddev, 0.0);  // nothing was learned
    }
  }
}

TEST(Calibration, AStalledRowAmongOthersMovesNothing) {
  const Job job = RoomyJob();
  MeasuredSteps measured = Measured(job, 1.0, 1.0, 0.02);
  const double before = PredictedOn(job, Calibrate(job, measured), kOther);
  measured.steps[4].step_time_s *= 10.0;
  const double after = PredictedOn(job, Calibrate(job, measured), kOther);
  EXPECT_NEAR(after / before, 1.0, 0.01);
}

TEST(Calibration, APredictionThatIsRightStays) {
  const Job job = RoomyJob();
  const MeasuredSteps all = Measured(job, 1.0, 1.0, 0.05);
  const double simulated = PredictedOn(job, {}, kOther);
  for (const int rows : {1, 3, 5, 10}) {
    const Calibration fit =
        Calibrate(job, {{all.steps.begin(), all.steps.begin() + rows}, ""});
    EXPECT_NEAR(PredictedOn(job, fit, kOther) / simulated, 1.0, 0.03) << rows;
  }
}

// Two runs that took 1.4 times as long may have been slow, or every layout is.
TEST(Calibration, WhatItDoesNotExplainIsSaid) {
  const Job job = RoomyJob();
  const auto text = [&](double factor, int rows) {
    const MeasuredSteps all = Measured(job, factor, factor, 0.0);
    return ToString(
        Calibrate(job, {{all.steps.begin(), all.steps.begin() + rows}, ""}));
  };
  EXPECT_THAT(text(1.3, 2), HasSubstr("took 1.30 times as long"));
  EXPECT_THAT(text(1.3, 8), Not(HasSubstr("times as long")));
  EXPECT_THAT(text(1.0, 2), Not(HasSubstr("times as long")));
}

// A framework without comparison may be off by much.
TEST(Calibration, OneRowTellsMoreAboutAGuess) {
  Job job = RoomyJob();
  const MeasuredSteps all = Measured(job, 1.25, 1.25, 0.0);
  const MeasuredSteps one = {{all.steps.front()}, ""};
  const double simulated = PredictedOn(job, {}, kOther);
  const auto moved = [&] {
    return PredictedOn(job, Calibrate(job, one), kOther) / simulated;
  };
  const double validated = moved();
  job.framework.framework.compared_with.clear();
  EXPECT_GT(moved() - 1.0, 2.0 * (validated - 1.0));
}

TEST(Calibration, AMeasuredRowMovesItsOwnConfigurationMost) {
  const Job job = RoomyJob();
  MeasuredSteps measured = Measured(job, 1.0, 1.0, 0.0);
  measured.steps[0].step_time_s *= 1.5;
  // Measured again, so that it is no stall.
  measured.steps.insert(measured.steps.end(), 4, measured.steps[0]);
  const Calibration fit = Calibrate(job, measured);
  const auto moved = [&](const trials::ParallelConfig& config) {
    const harness::CalibratedTimes times(fit, {config});
    return times.Of(config, PartsOn(job, config)).step_time_s /
           PredictedOn(job, {}, config);
  };
  EXPECT_GT(moved(Configs()[0]), 1.2);
  EXPECT_NEAR(moved(Configs().back()), 1.0, 0.1);
}

TEST(Calibration, ARowOutOfMemoryLowersTheChanceOfLargerOnes) {
  const Job job = LlamaJob("fsdp2", 1);
  const Forecaster forecaster(job, {});
  const auto by_chance = [&](double chance) {
    return *std::ranges::min_element(
        forecaster.space().configs(), {}, [&](const auto& config) {
          try {
            return std::abs(forecaster.Predict(config).fit_probability -
                            chance);
          } catch (const trials::InvalidPlan&) {
            return 1.0;
          }
        });
  };
  const trials::ParallelConfig failed = by_chance(0.7);
  const trials::ParallelConfig larger = by_chance(0.5);
  const Calibration fit = Calibrate(job, {{{.config = failed}}, ""});
  const Forecaster after(job, {.calibration = fit});
  for (const trials::ParallelConfig& config : {failed, larger}) {
    EXPECT_LT(after.Predict(config).fit_probability,
              forecaster.Predict(config).fit_probability);
    EXPECT_DOUBLE_EQ(after.Predict(config).step_time_s,
                     forecaster.Predict(config).step_time_s);
  }
}

TEST(Calibration, TheBandContainsTheTruthAndAnUnseenNetworkWidensIt) {
  const Job job = LlamaJob("fsdp2", 1);
  const MeasuredSteps steps = Measured(job, 1.2, 1.5, 0.05);
  const Calibration fit = Calibrate(job, steps);
  EXPECT_LT(CheckCalibration(job, fit, steps.steps).after.mean, 0.06);
  EXPECT_GT(CheckCalibration(job, fit, steps.steps).inside, 0.7);
  const harness::CalibratedTimes times(fit, {});
  StepParts parts_s = PartsOn(job, kOther);
  const double without = times.Of(kOther, parts_s).band;
  std::swap(parts_s[harness::kComputation], parts_s[harness::kNetwork]);
  EXPECT_GT(times.Of(kOther, parts_s).band, without);
}

TEST(Calibration, AnEmptyOneChangesNothing) {
  const Job job = LlamaJob();
  const trials::ParallelConfig config{
      .dp = 16, .zero_stage = 3, .microbatches = 16};
  const double step_s = Forecaster(job, {}).Report(config).step_time_s;
  EXPECT_DOUBLE_EQ(PredictedOn(job, {}, config), step_s);
  EXPECT_NEAR(PartsOn(job, config).sum(), step_s, 1e-9);
}

TEST(Calibration, ASavedOneMakesTheSameForecastForItsMachineOnly) {
  const Job job = LlamaJob("fsdp2", 1);
  const Calibration fit = Calibrate(job, Measured(job, 1.3, 1.8, 0.05));
  const fakes::TemporaryFolder folder;
  const auto path = folder.path() / "calibration.toml";
  fakes::WriteFile(path, ToToml(fit));
  const auto read = [&](const Job& other) {
    return harness::ReadCalibration(
        path, harness::CalibratedJob::Of(other.workload, other.cluster,
                                         other.framework.name));
  };
  const Calibration same = read(job);
  EXPECT_EQ(ToToml(same), ToToml(fit));
  EXPECT_EQ(same.note, "");
  EXPECT_DOUBLE_EQ(PredictedOn(job, same, kOther),
                   PredictedOn(job, fit, kOther));
  Job longer = job;
  longer.workload.sequence_length *= 2;
  EXPECT_THAT(read(longer).note, HasSubstr("another model"));
  EXPECT_THAT(read(longer).residuals, testing::IsEmpty());
  Job lora = job;
  lora.workload.training.lora_rank = 16;
  EXPECT_THAT(read(lora).note, HasSubstr("another model"));
  EXPECT_THROW((void)read(LlamaJob("megatron-core", 1)), common::InputError);
}

class MeasuredFile : public testing::Test {
 protected:
  std::vector<MeasuredStep> Read(const std::string& text) {
    fakes::WriteFile(folder_.path() / "t.csv", text);
    return ReadMeasuredSteps(folder_.path() / "t.csv", LlamaJob()).steps;
  }
  std::string Error(const std::string& text) {
    return fakes::ErrorOf([&] { return Read(text); });
  }
  fakes::TemporaryFolder folder_;
};

TEST_F(MeasuredFile, ColumnsAreParametersAndRowsThatCrashedAreLeftOut) {
  const auto steps = Read(
      "dp,mbs,mb,zero_stage,status,step_time_s,peak_memory_gb\n"
      "8,2,4,1,ok,1.5,40\n8,4,2,1,oom,,\n8,4,2,1,crash,,\n");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].step_time_s, 0.0);  // out of memory
  EXPECT_EQ(steps[0].batch_size, 64);
  EXPECT_EQ(steps[0].config, (trials::ParallelConfig{
                                 .dp = 8, .zero_stage = 1, .microbatches = 4}));
  EXPECT_DOUBLE_EQ(steps[0].peak_memory_bytes, 40e9);
}

TEST_F(MeasuredFile, MicrobatchesThatNoColumnHasFollowFromTheBatchOfTheJob) {
  const int batch_size = LlamaJob().workload.batch_size;
  const auto steps = Read("dp,mbs,step_time_s\n8,2,1.5\n");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].batch_size, batch_size);
  EXPECT_EQ(steps[0].config.microbatches, batch_size / 16);
  EXPECT_THAT(Error("dp,mbs,step_time_s\n8,7,1.5\n"),
              HasSubstr("does not divide --batch"));
}

TEST_F(MeasuredFile, RowsOfOtherSequencesAreRefused) {
  const int tokens = LlamaJob().workload.sequence_length;
  EXPECT_EQ(
      Read(fmt::format("dp,sequence_length,step_time_s\n8,{},1.5\n", tokens))
          .size(),
      1U);
  EXPECT_THAT(Error(fmt::format("dp,sequence_length,step_time_s\n8,{},1.5\n",
                                tokens / 2)),
              HasSubstr("give the --seq of the rows"));
}

TEST_F(MeasuredFile, UnitsAndNamesAreThoseOfAnImport) {
  const double batch_size = LlamaJob().workload.batch_size;
  const auto steps =
      Read(fmt::format("dp,step_time_ms,samples_per_s,peak_memory_mib,outcome\n"
                       "8,1500,,1024,completed\n4,,{},,\n2,,,,out_of_memory\n",
                       batch_size / 2.0));
  ASSERT_EQ(steps.size(), 3U);
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
  EXPECT_THAT(Error("dp,mbs,mb,step_time_s\n8,2000000000,1,1\n"),
              HasSubstr("t.csv: a step of 1.6e+10 sequences"));
  EXPECT_THAT(Error("dp,step_time_s\n"), HasSubstr("no measured step time"));
}

}  // namespace jobs::calibration_test
