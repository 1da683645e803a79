#include "planners/astra/astra_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "tests/fakes/decoders.h"

namespace planners::astra_model_test {

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
      1.0, 1e-9);
  EXPECT_NEAR(
      per_layer({.tp = 4}, false) / (sbh * (10.0 + (24.0 + scores) / 4.0)), 1.0,
      1e-9);
  EXPECT_NEAR(
      per_layer({.tp = 4, .sp = 4}, false) / (sbh * (34.0 + scores) / 4.0), 1.0,
      1e-9);
  // The inputs of all layers, and one layer while it is recomputed.
  EXPECT_NEAR(per_layer({.grad_checkpoint = trials::kRecomputeFull}, false) /
                  (sbh * (2.0 + (34.0 + scores) / gpt.layers)),
              1.0, 1e-9);
  EXPECT_NEAR(
      per_layer({.tp = 4, .grad_checkpoint = trials::kRecomputeFull, .sp = 4},
                true) /
          (sbh * (2.0 + 34.0 / gpt.layers) / 4.0),
      1.0, 1e-9);
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
      cost.reduction_s / (reduce_s - 2.0 / 3.0 * cost.stages[0].compute_s), 1.0,
      1e-9);
  // Within a host, links take no time.
  EXPECT_EQ(model.Cost({.dp = 4, .microbatches = 8}).reduction_s, 0.0);
  // A computation of no time hides nothing.
  machine.flops_per_s = 1e30;
  EXPECT_NEAR(
      Ideal(workload, machine).Cost({.dp = 8, .microbatches = 8}).reduction_s /
          reduce_s,
      1.0, 1e-9);
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
  // The fourth of eight stages sends to the other host, the fifth receives.
  const AstraCost eight =
      Ideal(gpt.Workload(), machine).Cost({.pp = 8, .microbatches = 64});
  for (std::size_t stage = 0; stage < 8; ++stage) {
    EXPECT_NEAR(eight.stages[stage].transfer_s / slow,
                stage == 3 || stage == 4 ? 1.0 : 0.0, 1e-9);
  }
  // A stage of a whole host or more.
  for (const AstraStage& stage :
       Ideal(gpt.Workload(), machine)
           .Cost({.tp = 8, .pp = 2, .microbatches = 64})
           .stages) {
    EXPECT_NEAR(stage.transfer_s / slow, 1.0, 1e-9);
  }
}

// Backward takes twice as long as forward. Full recomputation repeats the
// forward of a block and its collectives, selective recomputation the core of
// the other blocks.
TEST(AstraModel, ARecomputedBlockRunsItsForwardOnceMore) {
  AstraMachine machine = IdealMachine();
  machine.intra_node_bytes_per_s = 1e10;
  const AstraModel model =
      Ideal(fakes::Decoder{.vocabulary = 0}.Workload(), machine);
  ParallelConfig config{.tp = 2, .microbatches = 64};
  const AstraBlock block = model.BlockOf(config);
  const double pass_s = block.collective_s;
  ASSERT_GT(block.core_s, 0.0);
  ASSERT_GT(pass_s, 0.0);
  for (const auto& [blocks, recomputed] :
       {std::pair(24, 0), {24, 6}, {24, 24}, {1, 1}, {0, 0}}) {
    const AstraShare share{.blocks = blocks, .recomputed = recomputed};
    const double once = (3.0 * blocks + recomputed) * block.forward_s;
    config.grad_checkpoint = trials::kRecomputeNothing;
    const AstraStage some = model.StageOf(config, block, share);
    EXPECT_NEAR(some.compute_s, once, 1e-12 * once);
    EXPECT_NEAR(some.communicate_s, (2.0 * blocks + recomputed) * pass_s,
                1e-9 * pass_s);
    config.grad_checkpoint = trials::kRecomputeSelective;
    EXPECT_NEAR(model.StageOf(config, block, share).compute_s,
                once + (blocks - recomputed) * block.core_s, 1e-12 * once);
    config.grad_checkpoint = trials::kRecomputeFull;
    EXPECT_NEAR(model.StageOf(config, block, share).compute_s,
                4.0 * blocks * block.forward_s, 1e-12 * once);
  }
}

// Of 24 blocks: the input (2 s b h bytes) of each group, and all of a group
// while it is recomputed (34 s b h for each block).
TEST(AstraModel, GroupsOfBlocksKeepTheirInputsOnly) {
  AstraMachine machine = IdealMachine();
  machine.flash_attention = true;
  const fakes::Decoder gpt{.vocabulary = 0};
  const AstraModel model = Ideal(gpt.Workload(), machine);
  const ParallelConfig config{.microbatches = 64};
  const AstraBlock block = model.BlockOf(config);
  const auto stage = [&](int recomputed, int group) {
    return model.StageOf(
        config, block,
        {.blocks = 24, .recomputed = recomputed, .extras = {.group = group}});
  };
  const double sbh = gpt.sequence_length * gpt.hidden_size;
  const double states = stage(0, 1).memory_bytes - 24.0 * 34.0 * sbh;
  for (const auto& [group, groups] :
       {std::pair(2, 12), {3, 8}, {5, 5}, {24, 1}, {100, 1}}) {
    EXPECT_NEAR(stage(0, group).memory_bytes - states,
                (2.0 * groups + 34.0 * std::min(group, 24)) * sbh, 1e-3)
        << group;
    EXPECT_EQ(stage(0, group).compute_s, stage(24, 1).compute_s);
  }
  EXPECT_NEAR(stage(6, 1).memory_bytes - states,
              (2.0 * 6.0 + 34.0 * 18.0 + 34.0) * sbh, 1e-3);
}

// A decoder with grouped queries, gated feed-forward layers and experts.
trials::Workload Experts() {
  trials::Workload workload = fakes::Decoder{}.Workload();
  trials::Model& model = workload.model;
  model.kv_heads = 4;  // of 16
  model.gated_ffn = true;
  model.ffn_size = 1024;
  model.experts = 8;
  model.experts_per_token = 2;
  model.shared_ffn_size = 512;
  model.tied_embeddings = false;
  return workload;
}

// 6 FLOP for each token and parameter that it meets, and the attention.
TEST(AstraModel, ATokenMeetsItsExpertsAndFewerKeysAndValues) {
  const trials::Workload workload = Experts();
  const double h = 2048.0;
  const double s = 1024.0;
  const double tokens = 64.0 * s;
  const double met = 24.0 * (2.0 * h * h + 2.0 * h * h / 4.0 +
                             2.0 * 3.0 * 1024.0 * h + 3.0 * 512.0 * h) +
                     50'257.0 * h;
  const double attention = 24.0 * 12.0 * tokens * s * h;
  const auto time = [&](const ParallelConfig& config) {
    return Ideal(workload).Cost(config).step_time_s;
  };
  const double all = (6.0 * tokens * met + attention) / 1e12;
  EXPECT_NEAR(time({.microbatches = 16}) / all, 1.0, 1e-12);
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 4, .microbatches = 16},
        ParallelConfig{.dp = 4, .microbatches = 4, .micro_batch_size = 4},
        ParallelConfig{.tp = 4, .microbatches = 16},
        ParallelConfig{.microbatches = 16, .cp = 4}}) {
    EXPECT_NEAR(time(config) / (all / 4.0), 1.0, 1e-12) << ToString(config);
  }
  EXPECT_NEAR(time({.microbatches = 16,
                    .grad_checkpoint = trials::kRecomputeSelective}),
              all + attention / 3.0 / 1e12, 1e-9 * all);
}

// The distributed optimizer keeps 12 bytes of each parameter of a stage on one
// of its ranks.
TEST(AstraModel, StagesHaveTheirParametersAndTheLastAHeadOfItsOwn) {
  trials::Workload workload = Experts();
  const auto parameters = [&](ParallelConfig config, std::size_t stage) {
    const AstraModel model = Ideal(workload);
    config.dp = 2;
    config.microbatches = 32;
    const double without = model.Cost(config).stages[stage].memory_bytes;
    config.zero_stage = 1;
    return (without - model.Cost(config).stages[stage].memory_bytes) / 6.0;
  };
  const double vocabulary = 50'257.0 * 2048.0;
  for (const bool tied : {false, true}) {
    workload.model.tied_embeddings = tied;
    const auto all = static_cast<double>(ParameterCount(workload.model));
    const auto block = static_cast<double>(BlockParameters(workload.model));
    EXPECT_NEAR(parameters({}, 0) / all, 1.0, 1e-9);
    EXPECT_NEAR(parameters({.tp = 4}, 0) / (all / 4.0), 1.0, 1e-9);
    double sum = 0.0;
    for (std::size_t stage = 0; stage < 5; ++stage) {
      sum += parameters({.pp = 5}, stage);
    }
    // Without the final norm next to a copy of the embedding.
    EXPECT_NEAR(sum, tied ? all + vocabulary - 2048.0 : all, 1e-9 * all);
    // Blocks 4, 5, 5, 5 and 5 of 24, and the embedding.
    EXPECT_NEAR(parameters({.pp = 5}, 1) / (5.0 * block), 1.0, 1e-9);
    EXPECT_NEAR(parameters({.pp = 5}, 0) / (4.0 * block + vocabulary), 1.0,
                1e-9);
    // A quarter of the experts.
    const double experts =
        24.0 * 8.0 * static_cast<double>(ExpertParameters(workload.model));
    EXPECT_NEAR(parameters({.ep = 4}, 0) / (all - 0.75 * experts), 1.0, 1e-9);
  }
}

// Two stages of one microbatch each: all of their times in turn. Three more
// microbatches add the slowest stage three times.
TEST(AstraModel, AStepIsComputationCommunicationTransfersAndReduction) {
  AstraMachine machine = IdealMachine();
  machine.intra_node_bytes_per_s = 1e9;
  machine.inter_node_bytes_per_s = 1e9;
  const AstraModel model = Ideal(fakes::Decoder{}.Workload(), machine);
  for (const int microbatches : {1, 4}) {
    const AstraCost cost = model.Cost({.dp = 2,
                                       .tp = 2,
                                       .pp = 2,
                                       .microbatches = microbatches,
                                       .micro_batch_size = 1});
    double sum = 0.0;
    double slowest = 0.0;
    for (const AstraStage& stage : cost.stages) {
      EXPECT_GT(stage.communicate_s, 0.0);
      EXPECT_GT(stage.transfer_s, 0.0);
      const double stage_s =
          stage.compute_s + stage.communicate_s + stage.transfer_s;
      sum += stage_s;
      slowest = std::max(slowest, stage_s);
    }
    EXPECT_NEAR(cost.step_time_s,
                sum + (microbatches - 1) * slowest + cost.reduction_s,
                1e-9 * cost.step_time_s);
  }
}

// The last stage has its copy of the matrix (18 bytes per parameter) and logits
// in 2 and 4 bytes.
TEST(AstraModel, TheLastStageHasLogits) {
  const auto memory = [](int vocabulary, std::size_t stage) {
    return Ideal(fakes::Decoder{.vocabulary = vocabulary}.Workload())
        .Cost({.tp = 4, .pp = 2, .microbatches = 32})
        .stages[stage]
        .memory_bytes;
  };
  const double states = 18.0 * 1000.0 * 2048.0 / 4.0;
  const double logits = 2.0 * 1024.0 * 1000.0 * 6.0 / 4.0;
  EXPECT_NEAR(memory(1000, 0) - memory(0, 0), states, 1.0);
  EXPECT_NEAR(memory(1000, 1) - memory(0, 1), states + logits, 1.0);
}

// 1 + (p - 1) / (p m) times the microbatches of the other schedule.
// Source: Korthikanti et al. (2022), Sec. 4.2.3.
TEST(AstraModel, TheInterleavedScheduleKeepsMoreMicrobatches) {
  const AstraModel model = Ideal(fakes::Decoder{.vocabulary = 0}.Workload());
  const auto memory = [&](int chunks, int microbatches) {
    return model
        .Cost({.dp = 64 / microbatches,
               .pp = 4,
               .microbatches = microbatches,
               .model_chunks = chunks})
        .stages[0]
        .memory_bytes;
  };
  const double states = 18.0 *
                        static_cast<double>(ParameterCount(
                            fakes::Decoder{.vocabulary = 0}.Workload().model)) /
                        4.0;
  const double share = (memory(2, 64) - states) / (memory(1, 64) - states);
  EXPECT_NEAR(share, 1.0 + 3.0 / 8.0, 1e-3);
  EXPECT_EQ(memory(2, 4), memory(1, 4));  // there are only four
}

// 4 all-to-alls of a block for experts in two passes: each rank sends three
// quarters of two copies of its tokens.
TEST(AstraModel, ExpertParallelismSendsTokensToTheirExpertsAndBack) {
  AstraMachine machine = IdealMachine();
  machine.intra_node_bytes_per_s = 1e10;
  machine.inter_node_bytes_per_s = 1e9;
  machine.half_efficient_bytes = 0.0;
  machine.link_efficiency = 1.0;
  const AstraModel model = Ideal(Experts(), machine);
  const double bytes = 2.0 * 1024.0 * 2048.0;
  const auto communicate = [&](const ParallelConfig& config) {
    return model.Cost(config).stages[0].communicate_s;
  };
  const double within = 24.0 * 4.0 * 0.75 * 2.0 * bytes / 1e10;
  EXPECT_NEAR(communicate({.dp = 4, .microbatches = 16, .ep = 4}) / within, 1.0,
              1e-9);
  // Groups of 4 that are 4 ranks apart span hosts of 8.
  const double reduced = 24.0 * 4.0 * 2.0 * 0.75 * bytes / 1e10;
  EXPECT_NEAR(communicate({.dp = 4, .tp = 4, .microbatches = 16, .ep = 4}) /
                  (10.0 * within + reduced),
              1.0, 1e-9);
}

}  // namespace planners::astra_model_test
