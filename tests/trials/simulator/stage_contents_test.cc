#include "trials/simulator/stage_contents.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trials/simulator/stage_of_five.h"
#include "trials/knobs.h"
#include "trials/simulator/plan_model.h"

namespace trials::stage_contents_test {

using ::testing::ElementsAre;

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

// The only stage of a pipeline, with an action of 105 s.
class ContentsOfFive : public StageOfFive {
 protected:
  ContentsOfFive() {
    problem_.workload.model.tied_embeddings = false;
    chunk_.first = chunk_.last = true;
    layers_.block.parameters = {30.0, 10.0};
    layers_.dense_block.parameters = {50.0};
    layers_.embedding.parameters = {7.0};
    layers_.head.parameters = {2.0, 1.0};
    links_.shards.within.size = 6;
    plan_.stages[0] = {.dp = 3, .tp = 2};
  }

  [[nodiscard]] StageCost Cost() const {
    StageCost cost;
    AddContents(Stage(), {chunk_}, {{.backward_s = 105.0}}, cost);
    return cost;
  }
};

// Five blocks share what head and embedding leave of 105 s.
TEST_F(ContentsOfFive, ModulesAreInTheOrderOfBackward) {
  const std::vector<SyncModule> modules = Cost().modules;
  ASSERT_EQ(modules.size(), 4);
  EXPECT_EQ(modules[0].backward_s, 4.25);
  EXPECT_THAT(modules[0].tensor_bytes, ElementsAre(2.0, 4.0));
  EXPECT_EQ(modules[1].count, 3);
  EXPECT_EQ(modules[1].backward_s, 20.0);
  EXPECT_THAT(modules[1].tensor_bytes, ElementsAre(20.0, 60.0));
  EXPECT_EQ(modules[2].count, 2);
  EXPECT_EQ(modules[2].backward_s, 20.0);
  EXPECT_THAT(modules[2].tensor_bytes, ElementsAre(100.0));
  EXPECT_EQ(modules[3].backward_s, 0.75);
  EXPECT_EQ(Cost().tensors, 2 + 3 * 2 + 2 * 1 + 1);
  EXPECT_EQ(Cost().memory.parameters, 3.0 + 3 * 40 + 2 * 50 + 7);
  EXPECT_EQ(Cost().memory.largest_tensor, 50.0);
  EXPECT_EQ(Cost().memory.largest_module, 50.0);
  EXPECT_EQ(Cost().memory.shard_ranks, 6);
  EXPECT_EQ(Cost().memory.dp, 3);
  EXPECT_EQ(Cost().memory.tp, 2);
  chunk_ = {.blocks = 5};
  EXPECT_EQ(Cost().modules.size(), 1);
  chunk_ = {.blocks = 1, .dense = 1};
  EXPECT_EQ(Cost().modules.size(), 1);
  problem_.framework.fp32_gradients = true;
  EXPECT_THAT(Cost().modules[0].tensor_bytes, ElementsAre(200.0));
}

// On one rank, experts are tensors of their block; on several they have
// modules, parameters and an optimizer of their own.
TEST_F(ContentsOfFive, ExpertsOnSeveralRanksAreApart) {
  layers_.block.expert_parameters = {80.0};
  const double others = 230.0;
  StageCost cost = Cost();
  EXPECT_THAT(cost.modules[1].tensor_bytes, ElementsAre(160.0, 20.0, 60.0));
  EXPECT_TRUE(cost.expert_modules.empty());
  EXPECT_EQ(cost.memory.parameters, others + 3 * 80);
  EXPECT_EQ(cost.memory.expert_parameters, 0.0);
  EXPECT_EQ(cost.memory.largest_module, 120.0);
  EXPECT_EQ(cost.expert_optimizer_s, 0.0);
  plan_.shared.ep = 2;
  cost = Cost();
  EXPECT_THAT(cost.modules[1].tensor_bytes, ElementsAre(20.0, 60.0));
  ASSERT_EQ(cost.expert_modules.size(), 1);
  EXPECT_THAT(cost.expert_modules[0].tensor_bytes, ElementsAre(160.0));
  EXPECT_EQ(cost.expert_modules[0].count, 3);
  EXPECT_EQ(cost.memory.parameters, others);
  EXPECT_EQ(cost.memory.expert_parameters, 3 * 80.0);
  EXPECT_EQ(cost.tensors, 11 + 3);
  EXPECT_DOUBLE_EQ(cost.optimizer_s, gpu_.MemoryTime(36.0 * others));
  EXPECT_DOUBLE_EQ(cost.expert_optimizer_s, gpu_.MemoryTime(36.0 * 240));
}

// fp32: weight, gradient and two moments are read and three of them written.
TEST_F(ContentsOfFive, AdamInFp32MovesSevenNumbersOfAParameter) {
  const GpuModel fp32(SmallCluster().gpu, Precision::kFp32, 0.0);
  StageCost cost;
  AddContents({problem_, plan_, 0, fp32, layers_, links_, false}, {chunk_},
              {{.backward_s = 105.0}}, cost);
  EXPECT_DOUBLE_EQ(cost.optimizer_s, fp32.MemoryTime(7 * 4.0 * 230));
}

// What 5 blocks, 2 of them without experts, keep of one microbatch.
TEST_F(ContentsOfFive, BlocksKeepWhatTheyDoNotRecompute) {
  layers_.block.saved_bytes = 1000.0;
  layers_.block.selective_bytes = 300.0;
  layers_.dense_block.saved_bytes = 600.0;
  layers_.dense_block.selective_bytes = 100.0;
  layers_.embedding.saved_bytes = 7.0;
  layers_.head.saved_bytes = 5.0;
  layers_.boundary_bytes = 20.0;
  const auto kept = [&](int recomputed, bool selective) {
    chunk_.recomputed = recomputed;
    chunk_.selective = selective;
    return Cost().memory.activations_bytes;
  };
  EXPECT_EQ(kept(0, false), 4200.0 + 12);
  EXPECT_EQ(kept(1, false), 20 + 3600.0 + 12);
  EXPECT_EQ(kept(3, false), 3 * 20 + 2000.0 + 12);
  EXPECT_EQ(kept(0, true), 4200.0 - 3 * 300 - 2 * 100 + 12);
  EXPECT_EQ(kept(1, true), 20 + 3600.0 - 3 * 300 - 100 + 12);
  // A chunk with a successor keeps its output, too.
  chunk_.last = false;
  EXPECT_EQ(kept(0, false), 4200.0 + 7 + 20);
  problem_.framework.keep_outputs = false;
  EXPECT_EQ(kept(0, false), 4200.0 + 7);
}

// The largest block that is recomputed is there again as a whole.
TEST_F(ContentsOfFive, TemporariesAreThoseOfTheLargestBlock) {
  layers_.block.working_bytes = 11.0;
  layers_.dense_block.working_bytes = 17.0;
  layers_.block.saved_bytes = 1000.0;
  layers_.block.selective_bytes = 300.0;
  layers_.dense_block.saved_bytes = 1600.0;
  layers_.dense_block.selective_bytes = 400.0;
  const auto working = [&](int dense, int recomputed, bool selective) {
    chunk_.dense = dense;
    chunk_.recomputed = recomputed;
    chunk_.selective = selective;
    return Cost().memory.working_bytes;
  };
  EXPECT_EQ(working(0, 0, false), 11.0);
  EXPECT_EQ(working(1, 0, false), 17.0);
  EXPECT_EQ(working(0, 1, false), 11.0 + 1000);
  EXPECT_EQ(working(1, 1, false), 17.0 + 1600);
  EXPECT_EQ(working(0, 0, true), 11.0 + 300);
  EXPECT_EQ(working(1, 0, true), 17.0 + 400);
  EXPECT_EQ(working(1, 1, true), 17.0 + 1600);
  layers_.dense_block.working_bytes = 5.0;
  layers_.dense_block.saved_bytes = 500.0;
  EXPECT_EQ(working(1, 1, false), 11.0 + 1000);
}

TEST_F(ContentsOfFive, TheLastStageHoldsTheHeadsLogitsAndPlaceholders) {
  layers_.head.logits_bytes = 9.0;
  layers_.head.placeholder_bytes = 3.0;
  layers_.block.placeholder_bytes = 40.0;
  layers_.dense_block.placeholder_bytes = 50.0;
  layers_.block.collective_bytes = 13.0;
  EXPECT_EQ(Cost().memory.logits_bytes, 9.0);
  EXPECT_EQ(Cost().memory.placeholder_bytes, 93.0);
  EXPECT_EQ(Cost().memory.collective_bytes, 13.0);
  plan_.shared.pp = 2;
  EXPECT_EQ(Cost().memory.logits_bytes, 0.0);
  EXPECT_EQ(Cost().memory.placeholder_bytes, 90.0);
  chunk_.dense = 0;
  EXPECT_EQ(Cost().memory.placeholder_bytes, 40.0);
}

// 32000 x 1024 weights over two tensor-parallel ranks.
TEST_F(ContentsOfFive, ATiedTableIsOnBothEndsOfAPipeline) {
  problem_.workload.model.tied_embeddings = true;
  EXPECT_EQ(SharedTableElements(Stage()), 0.0);
  EXPECT_EQ(Cost().modules.size(), 4);
  plan_.shared.pp = 2;
  EXPECT_EQ(SharedTableElements(Stage()), 32000.0 * 1024 / 2);
  ASSERT_EQ(Cost().modules.size(), 5);
  EXPECT_THAT(Cost().modules[1].tensor_bytes, ElementsAre(32000.0 * 1024));
  problem_.workload.model.pooler = true;
  EXPECT_EQ(SharedTableElements(Stage()), 0.0);
}

}  // namespace trials::stage_contents_test
