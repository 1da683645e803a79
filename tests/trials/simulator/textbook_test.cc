// Published formulae and worked examples, in the special cases that they
// assume.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/memory.h"
#include "trials/simulator/pipeline.h"

namespace trials::textbook_test {

double End(const std::vector<StageTimeline>& stages) {
  double end_s = 0.0;
  for (const StageTimeline& stage : stages) {
    end_s = std::max(end_s, stage.end_s);
  }
  return end_s;
}

// Astra, Sec. 3.4, Eq. 22: the forward passes of K microbatches through stages
// that take t_i and send for h_i last
//
//   sum_i (t_i + h_i) + (K - 1) max_i (t_i + h_i).
//
// Its special case: backward takes no time and senders wait.
TEST(Textbook, ForwardsThroughUnequalStagesTakeAstrasTime) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> time_s(0.1, 1.0);
  for (const int stages : {1, 2, 3, 5, 8}) {
    for (const int microbatches : {1, 2, 7, 8, 32}) {
      PipelineTimes times;
      std::vector<double> both_s;
      for (int i = 0; i < stages; ++i) {
        times.forward_s.push_back(time_s(random));
        times.send_forward_s.push_back(i + 1 < stages ? time_s(random) / 5
                                                      : 0.0);
        both_s.push_back(times.forward_s.back() + times.send_forward_s.back());
      }
      times.backward_s.assign(both_s.size(), 0.0);
      times.send_backward_s.assign(both_s.size(), 0.0);
      const double sum_s = std::accumulate(both_s.begin(), both_s.end(), 0.0);
      const double most_s = *std::max_element(both_s.begin(), both_s.end());
      const double expected_s = sum_s + (microbatches - 1) * most_s;
      EXPECT_NEAR(End(RunPipeline({stages, microbatches, 1}, times)),
                  expected_s, 1e-12 * expected_s)
          << stages << " stages, " << microbatches << " microbatches";
    }
  }
}

// Share of the step that a stage of a uniform pipeline waits.
double BubbleFraction(int stages, int microbatches, int chunks) {
  const auto all = static_cast<std::size_t>(stages * chunks);
  const auto each = static_cast<std::size_t>(stages);
  const PipelineTimes times{std::vector<double>(all, 1.0 / chunks),
                            std::vector<double>(all, 2.0 / chunks),
                            std::vector<double>(each, 0.0),
                            std::vector<double>(each, 0.0), false};
  const double end_s = End(RunPipeline({stages, microbatches, chunks}, times));
  return 1.0 - 3.0 * microbatches / end_s;
}

// (p - 1) / (m v + p - 1) of p stages, m microbatches and v chunks.
TEST(Textbook, BubblesAreTheirShareOfTheStep) {
  for (const int stages : {2, 4, 8}) {
    for (const int rounds : {1, 2, 4}) {
      for (const int chunks : {1, 2, 4}) {
        const int microbatches = rounds * stages;
        EXPECT_NEAR(BubbleFraction(stages, microbatches, chunks),
                    (stages - 1.0) / (microbatches * chunks + stages - 1.0),
                    1e-12);
      }
    }
  }
}

// The fewest microbatches with a bubble of at most this share.
int MicrobatchesForBubble(int stages, double fraction) {
  int microbatches = 1;
  while (BubbleFraction(stages, microbatches, 1) > fraction + 1e-12) {
    ++microbatches;
  }
  return microbatches;
}

// A worked example: 4 stages with 16 microbatches wait for 15.8 % of the step,
// 8 stages with 32 for 17.9 %, and 8 stages need 38 to wait less than the 4.
TEST(Textbook, MicrobatchesThatADeeperPipelineNeeds) {
  EXPECT_NEAR(BubbleFraction(4, 16, 1), 0.158, 0.0005);
  EXPECT_NEAR(BubbleFraction(8, 32, 1), 0.179, 0.0005);
  EXPECT_EQ(MicrobatchesForBubble(8, BubbleFraction(4, 16, 1)), 38);
  EXPECT_EQ(MicrobatchesForBubble(4, 0.10), 27);
  EXPECT_EQ(MicrobatchesForBubble(8, 0.10), 63);
  EXPECT_EQ(MicrobatchesForBubble(16, 0.10), 135);
  EXPECT_EQ(MicrobatchesForBubble(4, 0.05), 57);
  EXPECT_EQ(MicrobatchesForBubble(8, 0.05), 133);
  EXPECT_EQ(MicrobatchesForBubble(16, 0.05), 285);
}

// A GPU's memory for a model of `parameters` in all, of which one of 16 (tp 4,
// pp 4) is on it, with ZeRO 1 over dp: bf16 parameters and gradients, fp32
// master weights and moments.
MemoryBreakdown States(double parameters, int dp) {
  ParallelConfig config;
  config.pp = 4;
  config.zero_stage = 1;
  config.microbatches = 4;
  StageMemory stage;
  stage.dp = dp;
  stage.tp = 4;
  stage.parameters = parameters / (4 * 4);
  stage.activations_bytes = 1e12;  // backward is the peak
  return RankMemory{config, stage, 2.0, Framework{}}.Peak();
}

// A GPT block of this width with 4-way tensor and sequence parallelism whose
// attention keeps no scores: 34 s b h / 4 bytes a microbatch.
LayerCosts Block(double sequences, int hidden) {
  Workload workload{"gpt", Gpt(), 64, 4096, Precision::kBf16};
  workload.model.hidden_size = hidden;
  workload.model.attention_heads = workload.model.kv_heads = hidden / 128;
  workload.model.ffn_size = 4 * hidden;
  Framework framework;
  framework.kernels.fused_operators = true;
  const GpuModel gpu(SmallCluster().gpu, workload.precision,
                     framework.kernels.launch_s);
  return ComputeLayerCosts(workload, framework, gpu,
                           {.sequences = sequences, .tp = 4, .sp = true});
}

// Ten layers of one microbatch, of which each keeps its input and one is
// recomputed at a time.
double CheckpointedBytes(const LayerCosts& layers) {
  return 10 * layers.boundary_bytes + layers.block.saved_bytes;
}

// 30B parameters, 40 layers of 7168, tp 4, pp 4, dp 16, 4 sequences of 4096
// tokens: 3.75 + 3.75 + 1.41 GB of states, 997 MB of activations a layer, 9.97
// GB for the stage's ten. Recomputation leaves at most two layers' worth.
TEST(Textbook, MemoryOfA30BModelOn256Gpus) {
  const MemoryBreakdown states = States(30e9, 16);
  EXPECT_NEAR(states.parameters_bytes, 3.75e9, 1.0);
  EXPECT_NEAR(states.gradients_bytes, 3.75e9, 1.0);
  EXPECT_NEAR(states.optimizer_bytes, 1.41e9, 0.005e9);
  const LayerCosts layers = Block(4.0, 7168);
  EXPECT_NEAR(layers.block.saved_bytes, 0.998e9, 0.001e9);
  EXPECT_NEAR(10 * layers.block.saved_bytes, 9.98e9, 0.01e9);
  EXPECT_LE(CheckpointedBytes(layers), 2 * layers.block.saved_bytes);
  // About 13 GB with and 21 GB without recomputation, 2 GB of buffers included.
  const double rest = states.parameters_bytes + states.gradients_bytes +
                      states.optimizer_bytes + 2e9;
  EXPECT_NEAR(rest + CheckpointedBytes(layers), 13e9, 0.6e9);
  EXPECT_NEAR(rest + 10 * layers.block.saved_bytes, 21e9, 0.2e9);
}

// 13B parameters, 40 layers of 5120, tp 4, pp 4, dp 4, 8 sequences of 4096
// tokens: 1.63 + 1.63 + 2.44 GB of states, 1.43 GB of activations a layer, 11
// GB in all with recomputation.
TEST(Textbook, MemoryOfA13BModelOn64Gpus) {
  const MemoryBreakdown states = States(13e9, 4);
  EXPECT_NEAR(states.parameters_bytes, 1.63e9, 0.006e9);
  EXPECT_NEAR(states.gradients_bytes, 1.63e9, 0.006e9);
  EXPECT_NEAR(states.optimizer_bytes, 2.44e9, 0.005e9);
  const LayerCosts layers = Block(8.0, 5120);
  EXPECT_NEAR(layers.block.saved_bytes, 1.43e9, 0.005e9);
  EXPECT_LE(CheckpointedBytes(layers), 2 * layers.block.saved_bytes);
  const double total = states.parameters_bytes + states.gradients_bytes +
                       states.optimizer_bytes + 2e9 + CheckpointedBytes(layers);
  EXPECT_NEAR(total, 11e9, 1.1e9);
}

}  // namespace trials::textbook_test
