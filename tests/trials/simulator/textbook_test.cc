// Published formulae and worked examples, in the special cases that they
// assume.

#include <algorithm>
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
  // Worked examples.
  EXPECT_NEAR(BubbleFraction(4, 16, 1), 0.158, 0.0005);
  EXPECT_NEAR(BubbleFraction(8, 32, 1), 0.179, 0.0005);
  EXPECT_NEAR(BubbleFraction(16, 285, 1), 0.05, 1e-12);
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

// A stage's ten layers of `hidden` columns with tp 4, and what is published of
// them in GB: states by kind, activations of a layer, and all of it, with about
// 2 GB of buffers, if layers are recomputed one at a time.
struct Example {
  double parameters;
  int dp;
  double sequences;
  int hidden;
  double weights, optimizer, layer, total;
};

TEST(Textbook, MemoryOfStagesOfTenLayers) {
  for (const Example& e :
       {Example{30e9, 16, 4.0, 7168, 3.75, 1.41, 0.998, 13.0},
        Example{13e9, 4, 8.0, 5120, 1.63, 2.44, 1.43, 11.0}}) {
    const MemoryBreakdown states = States(e.parameters, e.dp);
    EXPECT_NEAR(states.parameters_bytes / 1e9, e.weights, 0.006);
    EXPECT_NEAR(states.gradients_bytes / 1e9, e.weights, 0.006);
    EXPECT_NEAR(states.optimizer_bytes / 1e9, e.optimizer, 0.005);
    const LayerCosts layers = Block(e.sequences, e.hidden);
    EXPECT_NEAR(layers.block.saved_bytes / 1e9, e.layer, 0.005);
    const double recomputed =
        10 * layers.boundary_bytes + layers.block.saved_bytes;
    EXPECT_LE(recomputed, 2 * layers.block.saved_bytes);
    const double rest = states.parameters_bytes + states.gradients_bytes +
                        states.optimizer_bytes + 2e9;
    EXPECT_NEAR((rest + recomputed) / 1e9, e.total, 0.1 * e.total);
  }
}

}  // namespace trials::textbook_test
