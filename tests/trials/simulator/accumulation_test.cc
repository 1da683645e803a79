// Gradient accumulation, against hand arithmetic.

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/model.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/simulator.h"

namespace trials::accumulation_test {

constexpr int kDp = 8;

// Two sequences per microbatch.
StepReport Step(int microbatches, int zero_stage, const Framework& framework) {
  Workload workload = SmallWorkload();
  workload.batch_size = 2 * kDp * microbatches;
  const Simulator simulator(workload, SmallCluster(), {framework});
  return simulator.Simulate({.dp = kDp,
                             .zero_stage = zero_stage,
                             .overlap_zero_comm = false,
                             .microbatches = microbatches});
}

Framework Fsdp(bool no_sync) {
  Framework framework;
  framework.sharding.fsdp = true;
  framework.gradients.fp32_gradients = true;
  framework.sharding.no_sync = no_sync;
  return framework;
}

// What one more microbatch adds to a component.
double Slope(double TimeBreakdown::*part, int zero_stage,
             const Framework& framework) {
  return Step(3, zero_stage, framework).time.*part -
         Step(2, zero_stage, framework).time.*part;
}

TEST(Accumulation, EveryMicrobatchAddsTheSameComputation) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    const double two_s = Step(2, zero_stage, {}).time.forward_s;
    EXPECT_NEAR(Step(4, zero_stage, {}).time.forward_s, 2.0 * two_s, 1e-9);
    const double added_s = Step(3, zero_stage, {}).step_time_s -
                           Step(2, zero_stage, {}).step_time_s;
    EXPECT_NEAR(Step(9, zero_stage, {}).step_time_s -
                    Step(2, zero_stage, {}).step_time_s,
                7.0 * added_s, 1e-9);
  }
}

TEST(Accumulation, ZeroOneReducesOncePerStepAndZeroTwoPerMicrobatch) {
  for (const int zero_stage : {0, 1}) {
    EXPECT_NEAR(Slope(&TimeBreakdown::data_s, zero_stage, {}), 0.0, 1e-12);
  }
  // ZeRO 2: m reductions and one gather, which is the same at any m.
  const double reduce_s = Slope(&TimeBreakdown::data_s, 2, {});
  EXPECT_GT(reduce_s, 0.0);
  EXPECT_NEAR(Step(5, 2, {}).time.data_s - Step(1, 2, {}).time.data_s,
              4.0 * reduce_s, 1e-9);
}

TEST(Accumulation, ZeroThreeGathersAndScattersInEveryMicrobatch) {
  const double one_s = Step(1, 3, {}).time.data_s;
  EXPECT_GT(one_s, 0.0);
  EXPECT_NEAR(Step(6, 3, {}).time.data_s, 6.0 * one_s, 1e-9);
}

TEST(Accumulation, WithoutSynchronizationFsdpScattersOncePerStep) {
  // All scatters of a step take as long as those of one microbatch.
  const auto data_s = [](int microbatches, bool no_sync) {
    return Step(microbatches, 3, Fsdp(no_sync)).time.data_s;
  };
  EXPECT_NEAR(data_s(1, true), data_s(1, false), 1e-12);
  EXPECT_LT(data_s(4, true), data_s(4, false));
  EXPECT_LT(Slope(&TimeBreakdown::data_s, 2, Fsdp(true)),
            Slope(&TimeBreakdown::data_s, 2, Fsdp(false)));
}

TEST(Accumulation, FsdpGathersInEveryMicrobatchAlsoWithZeroTwo) {
  // With no_sync, a microbatch more adds one gather and no reduction.
  const double gather_s = Slope(&TimeBreakdown::data_s, 2, Fsdp(true));
  EXPECT_GT(gather_s, 0.0);
  EXPECT_NEAR(
      Step(5, 2, Fsdp(true)).time.data_s - Step(1, 2, Fsdp(true)).time.data_s,
      4.0 * gather_s, 1e-9);
  EXPECT_EQ(Slope(&TimeBreakdown::data_s, 1, Fsdp(true)), 0.0);
}

TEST(Accumulation, WithoutSynchronizationGradientsAreWhole) {
  const double parameters =
      static_cast<double>(ParameterCount(SmallWorkload().model));
  for (const int zero_stage : {2, 3}) {
    const auto gradients = [&](int microbatches, bool no_sync) {
      return Step(microbatches, zero_stage, Fsdp(no_sync))
          .memory.gradients_bytes;
    };
    EXPECT_NEAR(gradients(2, true), 4.0 * parameters, 1.0);
    EXPECT_NEAR(gradients(2, false), 4.0 * parameters / kDp, 1.0);
    EXPECT_EQ(gradients(1, true), gradients(1, false));
  }
}

TEST(Accumulation, StagesOfAPipelineScatterFsdpsGradientsOncePerStep) {
  Workload workload = SmallWorkload();
  const auto step = [&](int microbatches, int zero_stage, bool no_sync) {
    workload.batch_size = kDp * microbatches;
    const Simulator simulator(workload, SmallCluster(), {Fsdp(no_sync)});
    return simulator.Simulate({.dp = kDp / 2,
                               .pp = 2,
                               .zero_stage = zero_stage,
                               .overlap_zero_comm = false,
                               .microbatches = microbatches});
  };
  for (const int zero_stage : {2, 3}) {
    EXPECT_EQ(step(4, zero_stage, false), step(4, zero_stage, true));
  }
  EXPECT_NEAR(step(4, 2, false).time.data_s, step(8, 2, false).time.data_s,
              1e-12);
  // What a backward pass gathers stays, as with ZeRO 2.
  workload.model.layers = 32;
  EXPECT_GE(step(4, 3, false).memory.buffers_bytes,
            step(4, 2, false).memory.parameters_bytes);
}

TEST(Accumulation, MoreMicrobatchesOfTheSameSizeNeedTheSameMemory) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    const StepReport two = Step(2, zero_stage, {});
    const StepReport eight = Step(8, zero_stage, {});
    EXPECT_EQ(two.peak_memory_bytes, eight.peak_memory_bytes);
    // The sums exist during the backward pass.
    EXPECT_GE(two.memory.gradients_bytes,
              Step(1, zero_stage, {}).memory.gradients_bytes);
  }
}

}  // namespace trials::accumulation_test
