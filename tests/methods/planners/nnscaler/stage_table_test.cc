// Work, states and costs of stages, worked by hand.

#include "methods/planners/nnscaler/stage_table.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/methods/planners/profiled_layers.h"

namespace methods::stage_table_test {

// Two hosts of two GPUs. Stages of layers: {first, layer}, {layer}, ...,
// {layer, last}.
OperatorModel Model(int layers) {
  std::vector<ProfiledOperator> rows;
  const auto add = [&rows](const char* name, int micro_batch, int tp,
                           double forward_us, double weights_mb,
                           double input_mb, double output_mb) {
    rows.push_back({name,
                    micro_batch,
                    tp,
                    0,
                    {.forward_us = forward_us,
                     .backward_us = 2.0 * forward_us,
                     .input_mb = input_mb,
                     .output_mb = output_mb,
                     .weights_mb = weights_mb,
                     .activations_mb = 7.0}});
  };
  add(kFirst, 1, 1, 300.0, 10.0, 4.0, 10.0);
  add(kLayer, 1, 1, 10.0, 20.0, 10.0, 20.0);
  add(kLast, 1, 1, 10.0, 30.0, 20.0, 2.0);
  add(kFirst, 2, 1, 100.0, 10.0, 8.0, 20.0);
  add(kLayer, 2, 1, 200.0, 20.0, 20.0, 40.0);
  add(kLast, 2, 1, 100.0, 30.0, 40.0, 4.0);
  for (const int micro_batch : {1, 2}) {
    add(kFirst, micro_batch, 2, 10.0, 6.0, 4.0, 10.0);
    add(kLayer, micro_batch, 2, 20.0, 11.0, 10.0, 20.0);
    add(kLast, micro_batch, 2, 30.0, 16.0, 20.0, 2.0);
  }
  return ModelOfRows(rows, {.layers = layers,
                            .batch = 8,
                            .gpus = 4,
                            .gpus_per_node = 2,
                            .memory_limit_mb = 1e6,
                            .copies = {.master = 3.0, .optimizer = 5.0}});
}

const PlanConstraints kHalf{1.0, 0.5, 8, {}};

TEST(NnScalerStages, BeginAtLayersAndCoverAllOperators) {
  const OperatorModel model = Model(3);
  const StageTable table(model, kHalf, 1, false);
  ASSERT_EQ(table.layers(), 3);
  EXPECT_EQ(table.Operator(0), 0);
  EXPECT_EQ(table.Operator(1), 2);
  EXPECT_EQ(table.Operator(2), 3);
  EXPECT_EQ(table.Operator(3), 5);
}

// 2 + 3 + 5 copies of the weights on one GPU: 10 + 20 + 20 + 20 + 30 MB.
TEST(NnScalerStages, StatesAreAllCopiesOfTheWeightsOverTheGpus) {
  const OperatorModel model = Model(3);
  const StageTable table(model, kHalf, 1, false);
  EXPECT_NEAR(table.StatesMb(0, 1, 1), 300.0, 1e-9);
  EXPECT_NEAR(table.StatesMb(1, 2, 2), 100.0, 1e-9);
  EXPECT_NEAR(table.StatesMb(2, 3, 1), 500.0, 1e-9);
  EXPECT_NEAR(table.StatesMb(0, 3, 4), 250.0, 1e-9);
}

// Two sequences take 800 us: 300, 200 and 300 us.
TEST(NnScalerStages, AreBalancedByTheirTimePerGpuOverItsMean) {
  const OperatorModel model =
      ModelOfRows({{kFirst, 1, 1, 0, {.forward_us = 300.0}},
                   {kLayer, 1, 1, 0, {.forward_us = 10.0}},
                   {kLast, 1, 1, 0, {.forward_us = 10.0}},
                   {kFirst, 2, 1, 0, {.forward_us = 100.0}},
                   {kLayer, 2, 1, 0, {.forward_us = 200.0}},
                   {kLast, 2, 1, 0, {.forward_us = 100.0}}},
                  {.layers = 3, .batch = 8, .gpus = 4, .gpus_per_node = 4});
  const StageTable table(model, kHalf, 2, false);
  EXPECT_TRUE(table.IsBalancedStage(1, 2, 1, 2));  // exactly half of 400 us
  EXPECT_FALSE(table.IsBalancedStage(1, 2, 2, 2));
  EXPECT_TRUE(table.IsBalancedStage(1, 2, 1, 8));  // exactly twice 100 us
  EXPECT_FALSE(table.IsBalancedStage(0, 1, 1, 8));
  EXPECT_TRUE(table.IsBalancedStage(0, 1, 2, 8));
  EXPECT_TRUE(table.IsBalancedStage(0, 3, 4, 4));
}

// 10 copies of 20 MB, as much reserved, and 10 + 7 MB of each microbatch.
TEST(NnScalerStages, KeepAMicrobatchMoreForEachStageBehind) {
  const OperatorModel model = Model(3);
  StageTable table(model, kHalf, 1, false);
  const SolvedStage& stage = table.StageOf(1, 2, 1);
  EXPECT_NEAR(stage.last_mb, 200.0 + 20.0 + 17.0, 1e-9);
  EXPECT_NEAR(stage.more_mb, 17.0, 1e-9);
  EXPECT_NEAR(stage.MemoryMb(3), 237.0 + 3 * 17.0, 1e-9);
}

}  // namespace methods::stage_table_test
