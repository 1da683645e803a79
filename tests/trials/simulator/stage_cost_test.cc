#include "trials/simulator/stage_cost.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"
#include "trials/simulator/simulator.h"

namespace trials::stage_cost_test {

// One block to a microbatch: step times of the small cluster of two hosts.
class Pipelines {
 public:
  Framework framework;

  [[nodiscard]] StepReport Simulate(const std::string& config) const {
    Simulator::Options options;
    options.framework = framework;
    return Simulator(SmallWorkload(), SmallCluster(), options)
        .Simulate(ParseParallelConfig(config));
  }
  [[nodiscard]] double StepTime(const std::string& config) const {
    return Simulate(config).step_time_s;
  }
};

// A microbatch goes forward and back: two messages, one after the other.
TEST(StageCost, OneMicrobatchPaysTheOverheadOfTwoMessages) {
  Pipelines pipelines;
  pipelines.framework.pipeline.p2p_overhead_s = 0.0;
  const double without_s = pipelines.StepTime("dp=4,pp=2,microbatches=1");
  pipelines.framework.pipeline.p2p_overhead_s = 0.25;
  EXPECT_NEAR(pipelines.StepTime("dp=4,pp=2,microbatches=1") - without_s,
              2 * 0.25, 1e-9);
  // Messages that are issued during computation have none.
  pipelines.framework.pipeline.p2p_overhead_s = 0.0;
  const char* const overlapped =
      "dp=4,pp=2,microbatches=2,model_chunks=2,overlap_p2p=1";
  const double overlapped_s = pipelines.StepTime(overlapped);
  pipelines.framework.pipeline.p2p_overhead_s = 0.25;
  EXPECT_NEAR(pipelines.StepTime(overlapped), overlapped_s, 1e-12);
}

// A receive of NCCL that is posted ahead is a kernel, that of a thread is not.
TEST(StageCost, OnlyReceivesOfNcclTakeAPartOfTheGpu) {
  Pipelines pipelines;
  const char* const overlapped =
      "dp=4,pp=2,microbatches=2,model_chunks=2,overlap_p2p=1";
  const double nccl_s = pipelines.StepTime(overlapped);
  pipelines.framework.allocator.nccl_channel_bytes = 0.0;
  EXPECT_LT(pipelines.StepTime(overlapped), nccl_s);
}

// Hidden states of one microbatch: sequences x tokens x width x 2 bytes.
TEST(StageCost, AMessageHoldsTheHiddenStatesOfAMicrobatch) {
  Pipelines pipelines;
  pipelines.framework.pipeline.p2p_overhead_s = 0.0;
  Simulator::Options options;
  options.framework = pipelines.framework;
  Cluster slow = SmallCluster();
  slow.nodes = 1;
  slow.gpus_per_node = slow.gpus_per_switch = 2;
  Cluster fast = slow;
  slow.intra.bandwidth_bytes_per_s = 1e9;
  fast.intra.bandwidth_bytes_per_s = 2e9;
  const ParallelConfig config = ParseParallelConfig("pp=2,microbatches=1");
  const double bytes = 64.0 * 512 * 1024 * 2;
  const auto time_s = [&](const Cluster& cluster) {
    const StepReport report =
        Simulator(SmallWorkload(), cluster, options).Simulate(config);
    return report.step_time_s - report.time.data_s;  // of the tied table
  };
  EXPECT_NEAR(time_s(slow) - time_s(fast), 2 * (bytes / 1e9 - bytes / 2e9),
              0.02 * bytes / 1e9);
}

// A rank of the stage without tensor parallelism holds the whole table of a
// tied embedding; the other stage's tp 4 does not make its exchange shorter.
// Two ranks all-reduce the table over a quarter of a card.
TEST(StageCost, ATiedTableIsExchangedAtTheSizeOfItsLargerPart) {
  Framework framework;
  const Simulator simulator(SmallWorkload(), SmallCluster(),
                            {.framework = framework});
  Plan plan = UniformPlan(ParseParallelConfig("pp=2,microbatches=1"), 8);
  for (const int first : {0, 1}) {
    plan.stages.assign(2, {.dp = 1, .tp = 1});
    plan.stages[first].tp = 4;
    const StepReport report = simulator.Simulate(plan);
    const double bytes = 32000.0 * 1024 * framework.GradientBytes(2.0);
    const double time_s = bytes / (first == 0 ? 3e9 / 4 : 20e9);
    if (first == 0) {  // the stages are on two hosts
      EXPECT_NEAR(report.time.data_s, time_s, 0.01 * time_s);
    } else {
      EXPECT_GT(report.time.data_s, 0.99 * time_s);
    }
  }
}

TEST(StageCost, AStageSendsNothingToItself) {
  Plan plan = UniformPlan(ParseParallelConfig("dp=8,microbatches=2"), 8);
  const Simulator simulator(SmallWorkload(), SmallCluster());
  const double whole_s = simulator.Simulate(plan).time.pipeline_s;
  EXPECT_EQ(whole_s, 0.0);
  plan.shared.model_chunks = 2;
  plan.layers = {4, 4};
  EXPECT_EQ(simulator.Simulate(plan).time.pipeline_s, 0.0);
}

std::vector<StageCost> CostsOf(const char* config) {
  const Simulator simulator(SmallWorkload(), SmallCluster());
  return simulator.StageCosts(simulator.PlanOf(ParseParallelConfig(config)));
}

TEST(StageCost, EveryParameterIsInAModuleAndATiedTableInTwo) {
  const Model model = SmallLlama();
  for (const char* config :
       {"dp=8", "pp=2,microbatches=2", "pp=8,microbatches=8"}) {
    const std::vector<StageCost> stages = CostsOf(config);
    double elements = 0.0;
    double held = 0.0;
    for (const StageCost& stage : stages) {
      held += stage.memory.parameters;
      for (const SyncModule& module : stage.modules) {
        for (const double bytes : module.tensor_bytes) {
          elements += module.count * bytes / Framework{}.GradientBytes(2.0);
        }
      }
    }
    const double expected =
        static_cast<double>(ParameterCount(model)) +
        (stages.size() > 1 ? 1.0 * model.vocab_size * model.hidden_size : 0.0);
    EXPECT_EQ(elements, expected) << config;
    EXPECT_EQ(held, expected) << config;
  }
}

}  // namespace trials::stage_cost_test
