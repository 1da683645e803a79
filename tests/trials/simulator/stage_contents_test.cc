#include "trials/simulator/stage_contents.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"
#include "trials/simulator/plan_model.h"

namespace trials::stage_contents_test {

std::vector<StageCost> CostsOf(const char* config) {
  PlanModel model(SmallWorkload(), {SmallCluster()}, {});
  return model.StageCosts(model.PlanOf(ParseParallelConfig(config)));
}

// Eight blocks on eight, four or two stages.
TEST(StageContents, ABlockTakesItsShareOfTheStagesBackward) {
  const auto block_s = [](const char* config, int blocks) {
    const std::vector<SyncModule> modules = CostsOf(config)[1].modules;
    EXPECT_EQ(modules.front().count, blocks);
    return modules.front().backward_s;
  };
  const double one_s = block_s("pp=8,microbatches=8", 1);
  EXPECT_GT(one_s, 0.0);
  EXPECT_NEAR(block_s("pp=4,microbatches=8", 2), one_s, 0.05 * one_s);
}

TEST(StageContents, EveryParameterIsInAModuleAndATiedTableInTwo) {
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

}  // namespace trials::stage_contents_test
