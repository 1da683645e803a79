// Models whose first blocks are dense and whose other blocks have experts.

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "tests/trials/simulator/problem.h"
#include "trials/simulator/simulator.h"

namespace trials::mixed_blocks_test {

Model Moe(int dense_layers) {
  Model model = ReadModel(fakes::SourceFolder() / "experiments" / "workloads" /
                          "moe-32-experts.json");
  model.experts = 8;
  model.layers = 8;
  model.dense_layers = dense_layers;
  model.dense_ffn_size = 4096;
  return model;
}

StepReport Step(const Model& model, int checkpoint, int pp) {
  ParallelConfig config;
  config.pp = pp;
  config.dp = 8 / pp;
  config.microbatches = 4;
  config.grad_checkpoint = checkpoint;
  const Workload workload{"moe", model, 64, 512, Precision::kBf16};
  return Simulator(workload, SmallCluster(), {}).Simulate(config);
}

TEST(MixedBlocks, ADenseModelIsTheLimit) {
  for (const int checkpoint : {0, 1, 2}) {
    const StepReport mixed = Step(Moe(8), checkpoint, 2);
    const StepReport dense = Step(DenseModel(Moe(8)), checkpoint, 2);
    EXPECT_DOUBLE_EQ(mixed.step_time_s, dense.step_time_s);
    // Temporaries of a block with experts are still provided for.
    EXPECT_DOUBLE_EQ(mixed.memory.activations_bytes,
                     dense.memory.activations_bytes);
    EXPECT_DOUBLE_EQ(mixed.memory.parameters_bytes,
                     dense.memory.parameters_bytes);
  }
}

TEST(MixedBlocks, EveryDenseBlockChangesTheStepByTheSame) {
  const double none_s = Step(Moe(0), 1, 1).time.forward_s;
  const double one_s = Step(Moe(1), 1, 1).time.forward_s;
  for (const int blocks : {2, 5, 8}) {
    EXPECT_NEAR(Step(Moe(blocks), 1, 1).time.forward_s,
                none_s + blocks * (one_s - none_s), 1e-9 * none_s);
  }
}

TEST(MixedBlocks, DenseBlocksAreInTheFirstStage) {
  const StepReport mixed = Step(Moe(4), 0, 2);
  EXPECT_DOUBLE_EQ(mixed.first_stage_memory.activations_bytes,
                   Step(Moe(8), 0, 2).first_stage_memory.activations_bytes);
  EXPECT_DOUBLE_EQ(mixed.last_stage_memory.activations_bytes,
                   Step(Moe(0), 0, 2).last_stage_memory.activations_bytes);
}

}  // namespace trials::mixed_blocks_test
