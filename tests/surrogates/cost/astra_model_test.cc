#include "surrogates/cost/astra_model.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/decoders.h"

namespace surrogates {
namespace {

using trials::ParallelConfig;

// Links take no time, and products reach the peak of 1 TFLOP/s.
AstraMachine IdealMachine() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {.flops_per_s = 1e12,
          .intra_node_bytes_per_s = kInfinity,
          .inter_node_bytes_per_s = kInfinity,
          .flash_attention = false};
}
AstraModel Ideal(const trials::Workload& workload,
                 const AstraMachine& machine = IdealMachine()) {
  return {workload, machine, [](const MatrixProduct&) { return 1.0; }};
}

// 72 B s l h^2 (1 + s / (6 h) + V / (12 l h)), forward and backward of a GPT.
// Source: Narayanan et al. (2021), appendix, without recomputation.
TEST(AstraModel, ComputationIsThatOfTheProductsOfAGpt) {
  const fakes::Decoder gpt{.layers = 24, .hidden_size = 2048};
  const double b = gpt.batch_size;
  const double s = gpt.sequence_length;
  const double h = gpt.hidden_size;
  const double l = gpt.layers;
  const double flops = 72.0 * b * s * l * h * h *
                       (1.0 + s / (6.0 * h) + gpt.vocabulary / (12.0 * l * h));
  const AstraCost cost = Ideal(gpt.Workload()).Cost({.microbatches = 16});
  EXPECT_NEAR(cost.step_time_s / (flops / 1e12), 1.0, 1e-12);
}

TEST(AstraModel, FlashAttentionHalvesTheCoreOfACausalModel) {
  const fakes::Decoder gpt{};
  AstraMachine machine = IdealMachine();
  const double with_scores =
      Ideal(gpt.Workload(), machine).Cost({.microbatches = 16}).step_time_s;
  machine.flash_attention = true;
  const double without =
      Ideal(gpt.Workload(), machine).Cost({.microbatches = 16}).step_time_s;
  const double core = 12.0 * gpt.batch_size * gpt.sequence_length *
                      gpt.sequence_length * gpt.layers * gpt.hidden_size / 1e12;
  EXPECT_NEAR((with_scores - without) / (0.5 * core), 1.0, 1e-9);
}

TEST(AstraModel, APipelineOfEqualStagesHasTheUsualBubble) {
  // Without a head all stages are alike.
  const auto workload = fakes::Decoder{.vocabulary = 0}.Workload();
  const AstraModel model = Ideal(workload);
  const double serial = model.Cost({.microbatches = 16}).step_time_s;
  const auto time = [&](int chunks) {
    return model.Cost({.pp = 4, .microbatches = 16, .model_chunks = chunks})
        .step_time_s;
  };
  EXPECT_NEAR(time(1) / (serial / 4 * (1.0 + 3.0 / 16)), 1.0, 1e-12);
  EXPECT_NEAR(time(2) / (serial / 4 * (1.0 + 3.0 / 32)), 1.0, 1e-12);
}

// s b h (10 + 24 / t + 5 a s / (h t)) per layer and microbatch.
// Source: Korthikanti et al. (2022), Eqs. 1-4.
TEST(AstraModel, ActivationsAreThoseOfKorthikanti) {
  const fakes::Decoder gpt{.vocabulary = 0};
  const double a = gpt.heads;
  const double s = gpt.sequence_length;
  const double h = gpt.hidden_size;
  const double sbh = 2.0 * s * h;  // microbatches of 2 sequences
  const auto per_layer = [&](ParallelConfig config, bool flash) {
    // The difference of the memory for two microbatch sizes has no states.
    AstraMachine machine = IdealMachine();
    machine.flash_attention = flash;
    const AstraModel model = Ideal(gpt.Workload(), machine);
    config.microbatches = 32;
    const double two = model.Cost(config).peak_memory_bytes;
    config.microbatches = 64;
    return 2.0 * (two - model.Cost(config).peak_memory_bytes) / gpt.layers;
  };
  const double scores = 5.0 * a * s / h;
  EXPECT_NEAR(per_layer({}, false) / (sbh * (34.0 + scores)), 1.0, 1e-9);
  EXPECT_NEAR(per_layer({}, true) / (sbh * 34.0), 1.0, 1e-9);
  EXPECT_NEAR(
      per_layer({.grad_checkpoint = trials::kRecomputeSelective}, false) /
          (sbh * 34.0),
      1.0,
      1e-9);
  EXPECT_NEAR(
      per_layer({.tp = 4}, false) / (sbh * (10.0 + (24.0 + scores) / 4.0)),
      1.0,
      1e-9);
  EXPECT_NEAR(
      per_layer({.tp = 4, .sp = 4}, false) / (sbh * (34.0 + scores) / 4.0),
      1.0,
      1e-9);
  // The inputs of all layers, and one layer while it is recomputed.
  EXPECT_NEAR(per_layer({.grad_checkpoint = trials::kRecomputeFull}, false) /
                  (sbh * (2.0 + (34.0 + scores) / gpt.layers)),
              1.0,
              1e-9);
}

TEST(AstraModel, TheFirstStageKeepsAsManyMicrobatchesAsThereAreStages) {
  const auto workload = fakes::Decoder{.vocabulary = 0}.Workload();
  const AstraModel model = Ideal(workload);
  const auto memory = [&](int microbatches, std::size_t stage) {
    return model
        .Cost({.dp = 64 / microbatches, .pp = 4, .microbatches = microbatches})
        .stages[stage]
        .memory_bytes;
  };
  // One sequence per microbatch; a stage holds 4, 3, 2 and 1 of them.
  const double one = memory(64, 0) - memory(64, 1);
  EXPECT_GT(one, 0.0);
  EXPECT_NEAR((memory(64, 1) - memory(64, 2)) / one, 1.0, 1e-3);
  EXPECT_NEAR((memory(64, 2) - memory(64, 3)) / one, 1.0, 1e-3);
  // There are only two.
  EXPECT_NEAR((memory(2, 0) - memory(2, 1)) / one, 0.0, 1e-3);
}

TEST(AstraModel, TheDistributedOptimizerDividesItsStates) {
  const auto workload = fakes::Decoder{.vocabulary = 0}.Workload();
  const AstraModel model = Ideal(workload);
  const auto memory = [&](int zero_stage) {
    return model.Cost({.dp = 8, .zero_stage = zero_stage, .microbatches = 8})
        .peak_memory_bytes;
  };
  const auto parameters = static_cast<double>(ParameterCount(workload.model));
  EXPECT_NEAR((memory(0) - memory(1)) / (12.0 * parameters * 7 / 8), 1.0, 1e-9);
  EXPECT_NEAR((memory(1) - memory(2)) / (4.0 * parameters * 7 / 8), 1.0, 1e-9);
  EXPECT_NEAR((memory(2) - memory(3)) / (2.0 * parameters * 7 / 8), 1.0, 1e-9);
}

TEST(AstraModel, CommunicationIsHiddenByTheLastBackwardOnly) {
  const auto workload = fakes::Decoder{}.Workload();
  AstraMachine machine = IdealMachine();
  machine.inter_node_bytes_per_s = 1e9;
  machine.half_efficient_bytes = 0.0;
  machine.link_efficiency = 0.5;
  machine.gpus_per_node = 4;
  const AstraModel model = Ideal(workload, machine);
  const AstraCost cost = model.Cost({.dp = 8, .microbatches = 8});
  const auto parameters = static_cast<double>(ParameterCount(workload.model));
  const double reduce_s = 2.0 * 4.0 * parameters * 7 / 8 / 0.5e9;
  EXPECT_NEAR(
      cost.reduction_s / (reduce_s - 2.0 / 3.0 * cost.stages[0].compute_s),
      1.0,
      1e-9);
  // Within a host, links take no time.
  EXPECT_EQ(model.Cost({.dp = 4, .microbatches = 8}).reduction_s, 0.0);
}

TEST(AstraModel, TensorParallelismReducesTwoOutputsPerLayerAndPass) {
  const fakes::Decoder gpt{};
  AstraMachine machine = IdealMachine();
  machine.intra_node_bytes_per_s = 1e10;
  machine.half_efficient_bytes = 0.0;
  machine.link_efficiency = 1.0;
  const AstraModel model = Ideal(gpt.Workload(), machine);
  // Microbatches of one sequence; two passes, three with recomputation.
  const double bytes = 2.0 * gpt.sequence_length * gpt.hidden_size;
  const double pass = gpt.layers * 2.0 * 2.0 * 3.0 / 4.0 * bytes / 1e10;
  const auto communicate = [&](int checkpoint) {
    return model
        .Cost({.tp = 4, .microbatches = 64, .grad_checkpoint = checkpoint})
        .stages[0]
        .communicate_s;
  };
  EXPECT_NEAR(communicate(trials::kRecomputeNothing) / (2.0 * pass), 1.0, 1e-9);
  EXPECT_NEAR(communicate(trials::kRecomputeFull) / (3.0 * pass), 1.0, 1e-9);
}

// Four stages on two hosts: the middle boundary is between them.
TEST(AstraModel, OnlyTransfersBetweenHostsUseTheSlowLink) {
  const fakes::Decoder gpt{};
  AstraMachine machine = IdealMachine();
  machine.inter_node_bytes_per_s = 1e9;
  machine.half_efficient_bytes = 0.0;
  machine.link_efficiency = 1.0;
  machine.gpus_per_node = 4;
  const AstraCost cost = Ideal(gpt.Workload(), machine)
                             .Cost({.tp = 2, .pp = 4, .microbatches = 64});
  const double slow = 2.0 * gpt.sequence_length * gpt.hidden_size / 1e9;
  EXPECT_EQ(cost.stages[0].transfer_s, 0.0);
  EXPECT_NEAR(cost.stages[1].transfer_s / slow, 1.0, 1e-9);
  EXPECT_NEAR(cost.stages[2].transfer_s / slow, 1.0, 1e-9);
  EXPECT_EQ(cost.stages[3].transfer_s, 0.0);
  // A stage of a whole host or more.
  for (const AstraStage& stage :
       Ideal(gpt.Workload(), machine)
           .Cost({.tp = 8, .pp = 2, .microbatches = 64})
           .stages) {
    EXPECT_NEAR(stage.transfer_s / slow, 1.0, 1e-9);
  }
}

TEST(AstraModel, LargeProductsAreMoreEfficientThanSmallOnes) {
  const ProductEfficiency efficiency = AnalyticEfficiency(0.8);
  EXPECT_NEAR(efficiency({512, 512, 512}), 0.4, 1e-12);
  EXPECT_GT(efficiency({4096, 4096, 4096}), 0.7);
  EXPECT_LT(efficiency({1e9, 1e9, 1e9}), 0.8);
}

}  // namespace
}  // namespace surrogates
