#include "trials/flop.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"

namespace trials {
namespace {

Cluster TwoGpus() {
  Cluster cluster;
  cluster.gpus_per_node = 2;
  cluster.gpu.name = "GPU";
  cluster.gpu.half_flop_per_s = 1e12;
  cluster.gpu.single_flop_per_s = 1e11;
  cluster.gpu.memory_bytes = 1e9;
  return cluster;
}

TEST(MeasurementLimits, AStepIsNoShorterThanItsWorkAtThePeakRateOfAllGpus) {
  const Workload workload = SmallWorkload();
  const MeasurementLimits limits = LimitsOf(workload, TwoGpus());
  const double flop = LeastFlopPerToken(workload) * workload.batch_size *
                      workload.sequence_length;
  EXPECT_DOUBLE_EQ(limits.least_step_s, flop / 2e12);
  for (const double share : {0.99, 1.01}) {
    Measurement trial{.outcome = Outcome::kCompleted,
                      .step_times_s = {2.0 * limits.least_step_s,
                                       share * limits.least_step_s}};
    RejectImplausible(trial, limits);
    EXPECT_EQ(trial.outcome == Outcome::kFailed, share < 1.0);
    EXPECT_EQ(trial.step_times_s.empty(), share < 1.0);
    EXPECT_EQ(trial.message.find("peak rate of 2 GPU") == std::string::npos,
              share > 1.0);
  }
}

TEST(MeasurementLimits, SingleAndEightBitPrecisionHaveTheirTensorCores) {
  Workload workload = SmallWorkload();
  Cluster cluster = TwoGpus();
  const double half = LimitsOf(workload, cluster).least_step_s;
  workload.precision = Precision::kFp32;  // TF32 has half of the rate
  EXPECT_DOUBLE_EQ(LimitsOf(workload, cluster).least_step_s, 2.0 * half);
  workload.precision = Precision::kFp8;
  cluster.gpu.fp8_flop_per_s = 4e12;
  EXPECT_DOUBLE_EQ(LimitsOf(workload, cluster).least_step_s, 0.25 * half);
}

TEST(MeasurementLimits, NoRankHasMoreMemoryThanItsGpu) {
  const MeasurementLimits limits = LimitsOf(SmallWorkload(), TwoGpus());
  for (const double bytes : {0.9e9, 1.2e9}) {
    Measurement trial{.outcome = Outcome::kCompleted,
                      .step_times_s = {limits.least_step_s},
                      .peak_memory_bytes = bytes};
    RejectImplausible(trial, limits);
    EXPECT_EQ(trial.outcome == Outcome::kFailed, bytes > 1e9) << bytes;
  }
}

TEST(MeasurementLimits, ARankHasItsWeights) {
  Workload workload = SmallWorkload();
  const auto is_refused = [&workload](double bytes) {
    const MeasurementLimits limits = LimitsOf(workload, TwoGpus());
    Measurement trial{.outcome = Outcome::kCompleted,
                      .step_times_s = {limits.least_step_s},
                      .peak_memory_bytes = bytes};
    RejectImplausible(trial, limits);
    return trial.outcome == Outcome::kFailed;
  };
  const auto weights = static_cast<double>(ParameterCount(workload.model));
  EXPECT_TRUE(is_refused(30.0)) << "gigabytes that were read as bytes";
  EXPECT_TRUE(is_refused(0.24 * weights));
  EXPECT_FALSE(is_refused(0.26 * weights));
  EXPECT_FALSE(is_refused(0.0)) << "unknown";
  workload.training.offload = {true, true};
  EXPECT_FALSE(is_refused(30.0));
}

TEST(MeasurementLimits, AnUnknownGpuLimitsNothing) {
  Cluster cluster = TwoGpus();
  cluster.gpu = {};
  const MeasurementLimits limits = LimitsOf(SmallWorkload(), cluster);
  EXPECT_EQ(limits.least_step_s, kLeastStepSeconds);
  EXPECT_EQ(limits.most_memory_bytes, kMostMemoryBytes);
}

}  // namespace
}  // namespace trials
