#include "trials/simulator/simulator.h"

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"

namespace trials::simulator_test {

using ::testing::HasSubstr;

// A few hundred configurations of 8 GPUs, every knob turned.
std::vector<ParallelConfig> Configs() {
  std::vector<ParallelConfig> configs;
  for (const auto& [dp, tp, pp] : {std::array{8, 1, 1},
                                   {4, 2, 1},
                                   {4, 1, 2},
                                   {2, 2, 2},
                                   {2, 1, 4},
                                   {1, 2, 4},
                                   {1, 1, 8},
                                   {1, 8, 1}}) {
    for (const int zero : {0, 1, 2, 3}) {
      for (const int rounds : {1, 2}) {
        for (const int chunks : {1, 2}) {
          for (const int flags : {0, 1, 2, 3, 4, 7}) {
            ParallelConfig config;
            config.dp = dp;
            config.tp = tp;
            config.pp = pp;
            config.zero_stage = zero;
            config.microbatches = rounds * pp;
            config.model_chunks = pp > 1 && pp * chunks <= 8 ? chunks : 1;
            config.zero_bucket_mb = config.dp_bucket_mb = flags > 3 ? 4 : 256;
            config.overlap_zero_comm = (flags & 1) != 0;
            config.overlap_zero_allgather = (flags & 2) != 0;
            config.overlap_p2p = (flags & 1) != 0;
            config.grad_checkpoint = (flags & 4) != 0;
            config.sp = (flags & 2) != 0 ? tp : 1;
            configs.push_back(config);
          }
        }
      }
    }
  }
  return configs;
}

Simulator Small() { return {SmallWorkload(), SmallCluster()}; }

ParallelConfig Config(const std::string& text) {
  return ParseParallelConfig(text);
}

TEST(Simulator, PartsAddUpToTheStepAndToThePeak) {
  const Simulator simulator = Small();
  for (const ParallelConfig& config : Configs()) {
    const StepReport report = simulator.Simulate(config);
    EXPECT_NEAR(report.time.Total(), report.step_time_s,
                1e-9 * report.step_time_s)
        << ToString(config);
    EXPECT_DOUBLE_EQ(report.memory.Total(), report.peak_memory_bytes);
    EXPECT_GE(report.time.bubble_s, 0.0);
    EXPECT_GE(report.time.data_s, 0.0);
  }
}

// Sharding within groups costs memory and saves gathering.
TEST(Simulator, SmallerZeroGroupsHoldMoreAndGatherLess) {
  Cluster cluster = SmallCluster();
  cluster.nodes = 2;
  for (const char* text : {"dp=8,zero_stage=1", "dp=8,zero_stage=2"}) {
    const ParallelConfig config = Config(text);
    Simulator::Options options;
    double last_bytes = 0.0;
    double last_s = 1e9;
    for (const int ranks : {0, 4, 2}) {
      options.framework.zero_group_ranks = ranks;
      const StepReport report =
          Simulator(SmallWorkload(), cluster, options).Simulate(config);
      EXPECT_GT(report.memory.optimizer_bytes, last_bytes) << text;
      if (config.zero_stage == 1) {
        EXPECT_LT(report.time.data_s, last_s);
      }
      last_bytes = report.memory.optimizer_bytes;
      last_s = report.time.data_s;
    }
  }
}

// Owners of whole tensors cannot share the largest one.
TEST(Simulator, WholeTensorsAreShardedUnevenly) {
  Simulator::Options options;
  const ParallelConfig config = Config("dp=8,zero_stage=1");
  const StepReport split = Small().Simulate(config);
  options.framework.broadcast_parameters = true;
  const StepReport whole =
      Simulator(SmallWorkload(), SmallCluster(), options).Simulate(config);
  EXPECT_GE(whole.memory.optimizer_bytes, split.memory.optimizer_bytes);
  EXPECT_GE(whole.time.optimizer_s, split.time.optimizer_s);
}

StepReport With(const Framework& framework, const std::string& config) {
  return Simulator(SmallWorkload(), SmallCluster(), {.framework = framework})
      .Simulate(Config(config));
}

// All but one of tp chunks overlap with the products beside them.
TEST(Simulator, TensorParallelOverlapLeavesAChunkAndTheSlowdown) {
  Framework framework;
  const char* text = "dp=2,tp=4,sp=4";
  const double plain_s = With(framework, text).time.tensor_s;
  framework.tp_overlap = true;
  const double overlapped_s = With(framework, text).time.tensor_s;
  EXPECT_LT(overlapped_s, plain_s);
  EXPECT_GT(overlapped_s, plain_s / 4);
  // Without sequence parallelism there are only all-reduces.
  EXPECT_EQ(With(framework, "dp=2,tp=4").time.tensor_s,
            With({}, "dp=2,tp=4").time.tensor_s);
}

TEST(Simulator, GradientsReducedInThePipelineHideInTheLastBackward) {
  Framework framework;
  framework.bucket_pack_bytes = framework.bucket_unpack_bytes = 0.0;
  for (const char* text :
       {"dp=4,pp=2,microbatches=4", "dp=4,pp=2,microbatches=4,zero_stage=1"}) {
    framework.reduce_in_pipeline = false;
    const double after_s = With(framework, text).time.data_s;
    framework.reduce_in_pipeline = true;
    EXPECT_LT(With(framework, text).time.data_s, after_s) << text;
  }
}

TEST(Simulator, ScatteringTheGradientsOfZero1IsCheaperThanReducingThem) {
  Framework framework;
  const char* text = "dp=8,zero_stage=1,overlap_zero_comm=0";
  const double reduced_s = With(framework, text).time.data_s;
  framework.scatter_gradients = true;
  EXPECT_LT(With(framework, text).time.data_s, reduced_s);
}

// Buckets of the framework replace those of the configuration.
TEST(Simulator, ABucketOfTheFrameworkIsNoKnob) {
  Framework framework;
  framework.zero_bucket_bytes = 1e8;
  EXPECT_EQ(With(framework, "dp=8,zero_stage=1,zero_bucket_mb=1"),
            With(framework, "dp=8,zero_stage=1,zero_bucket_mb=64"));
}

// Blocks that wait for the CPU hide the head, unless the GPU waits at the loss.
TEST(Simulator, WaitingAtTheLossAddsTheHeadToBlocksThatWaitForTheCpu) {
  Simulator::Options options;
  options.framework.dispatch_s = options.framework.dispatch_backward_s = 0.0;
  options.framework.block_dispatch_s = 0.1;
  options.framework.block_backward_dispatch_s = 0.1;
  const auto simulate = [&](double loss_overhead_s) {
    options.framework.loss_overhead_s = loss_overhead_s;
    return Simulator(SmallWorkload(), SmallCluster(), options)
        .Simulate(Config("dp=8,tp=1,pp=1"));
  };
  const StepReport hidden = simulate(0.0);
  const StepReport waiting = simulate(0.003);
  ASSERT_GT(hidden.time.head_s, 0.0);
  EXPECT_NEAR(waiting.step_time_s - hidden.step_time_s,
              hidden.time.head_s + 0.003, 1e-6);
}

// Every way to split a model with experts over the 8 GPUs.
TEST(Simulator, PartsAddUpWithContextsExpertsAndRecomputation) {
  Workload workload = SmallWorkload();
  workload.model.experts = 8;
  workload.model.experts_per_token = 2;
  for (const bool stored_scores : {false, true}) {
    Simulator::Options options;
    options.framework.flash_attention = !stored_scores;
    options.framework.fp32_gradients = stored_scores;
    options.framework.fsdp = stored_scores;
    const Simulator simulator(workload, SmallCluster(), options);
    for (const char* sizes :
         {"dp=8,ep=8", "dp=8,ep=2", "dp=4,tp=2,ep=4,sp=2",
          "dp=2,cp=2,tp=2,sp=2", "dp=2,pp=2,cp=2,microbatches=4,ep=2",
          "cp=4,pp=2,microbatches=4"}) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int recomputation : {0, 1, 2}) {
          ParallelConfig config = ParseParallelConfig(sizes);
          config.zero_stage = config.dp > 1 ? zero : 0;
          config.grad_checkpoint = recomputation;
          const StepReport report = simulator.Simulate(config);
          EXPECT_NEAR(report.time.Total(), report.step_time_s,
                      1e-9 * report.step_time_s)
              << ToString(config);
          EXPECT_EQ(config.cp > 1, report.time.context_s > 0.0);
          EXPECT_EQ(config.ep > 1, report.time.expert_s > 0.0);
          EXPECT_DOUBLE_EQ(report.memory.Total(), report.peak_memory_bytes);
        }
      }
    }
  }
}

TEST(Simulator, FirstAndLastStageHaveMemoriesOfTheirOwn) {
  const StepReport report =
      Small().Simulate(Config("dp=2,pp=4,microbatches=8"));
  EXPECT_EQ(report.first_stage_memory.logits_bytes, 0.0);
  EXPECT_GT(report.last_stage_memory.logits_bytes, 0.0);
  // Four microbatches in flight before one.
  EXPECT_GT(report.first_stage_memory.activations_bytes,
            3.0 * report.last_stage_memory.activations_bytes);
  EXPECT_LE(report.first_stage_memory.Total(), report.peak_memory_bytes);
  EXPECT_LE(report.last_stage_memory.Total(), report.peak_memory_bytes);
}

TEST(Simulator, OutputsThatAreFreedWhenSentAreNotKept) {
  Simulator::Options options;
  const auto activations = [&] {
    const Simulator simulator(SmallWorkload(), SmallCluster(), options);
    return simulator.Simulate(Config("dp=2,pp=4,microbatches=8"))
        .first_stage_memory.activations_bytes;
  };
  const double kept = activations();
  options.framework.keep_outputs = false;
  // Half-precision hidden states of four microbatches of four sequences.
  EXPECT_DOUBLE_EQ(kept - activations(), 4.0 * 4 * 512 * 1024 * 2);
}

TEST(Simulator, MemoryThatCannotBeUsedDoesNotCount) {
  const ParallelConfig config = Config("dp=8");
  const StepReport plain = Small().Simulate(config);
  Simulator::Options options;
  const auto fits = [&](double share) {
    options.framework.usable_memory = share;
    const Simulator simulator(SmallWorkload(), SmallCluster(), options);
    return simulator.Simulate(config).fits;
  };
  const double needed = plain.peak_memory_bytes / plain.capacity_bytes;
  EXPECT_TRUE(fits(1.01 * needed));
  EXPECT_FALSE(fits(0.99 * needed));
}

TEST(Simulator, AFullPipelineIsAskedForWhereTheFrameworkDoes) {
  Simulator::Options options;
  options.framework.full_pipeline = true;
  const Simulator simulator(SmallWorkload(), SmallCluster(), options);
  const ParallelConfig two = Config("dp=2,pp=4,microbatches=2");
  EXPECT_NO_THROW((void)simulator.Simulate(Config("dp=1,pp=8,microbatches=8")));
  EXPECT_NO_THROW((void)simulator.Simulate(Config("dp=4,pp=2,microbatches=1")));
  EXPECT_NO_THROW((void)Small().Simulate(two));
  EXPECT_THROW((void)simulator.Simulate(two), std::invalid_argument);
}

TEST(Simulator, SelectiveRecomputationLiesBetweenNoneAndFull) {
  Workload workload{"gpt", Gpt(), 64, 1024, Precision::kFp16};
  Simulator::Options options;
  options.framework.flash_attention = false;
  options.framework.fused_operators = true;
  const Simulator simulator(workload, SmallCluster(), options);
  const auto report = [&](const char* recomputation) {
    return simulator.Simulate(Config(
        std::string("dp=2,tp=2,pp=2,microbatches=8,sp=2,") + recomputation));
  };
  const StepReport none = report("grad_checkpoint=0");
  const StepReport selective = report("grad_checkpoint=2");
  const StepReport full = report("grad_checkpoint=1");
  EXPECT_LT(none.step_time_s, selective.step_time_s);
  EXPECT_LT(selective.step_time_s, full.step_time_s);
  EXPECT_GT(none.memory.activations_bytes, selective.memory.activations_bytes);
  EXPECT_GT(selective.memory.activations_bytes, full.memory.activations_bytes);
}

TEST(Simulator, FsdpPrefetchesBlockByBlockWhateverTheFlags) {
  Simulator::Options options;
  options.framework.fsdp = true;
  const Simulator simulator(SmallWorkload(), SmallCluster(), options);
  const StepReport on =
      simulator.Simulate(Config("dp=8,zero_stage=3,overlap_zero_allgather=1"));
  const StepReport off = simulator.Simulate(
      Config("dp=8,zero_stage=3,overlap_zero_comm=0,zero_bucket_mb=1"));
  EXPECT_EQ(on.step_time_s, off.step_time_s);
  EXPECT_EQ(on.peak_memory_bytes, off.peak_memory_bytes);
  EXPECT_GT(on.time.data_s, 0.0);  // the first unit has nothing before it
}

TEST(Simulator, WhatItRemembersChangesNoResult) {
  const std::vector<ParallelConfig> configs = Configs();
  const Simulator used = Small();
  for (const ParallelConfig& config : configs) {
    (void)used.Simulate(config);
  }
  for (auto config = configs.rbegin(); config != configs.rend(); ++config) {
    const StepReport fresh = Small().Simulate(*config);
    const StepReport again = used.Simulate(*config);
    ASSERT_EQ(fresh, again) << ToString(*config);
  }
}

// All values of a short range, otherwise powers of two.
std::vector<int> ValuesOf(const Knob& knob) {
  std::vector<int> values = {knob.minimum};
  if (knob.maximum < 8) {
    while (values.back() < knob.maximum) {
      values.push_back(values.back() + 1);
    }
    return values;
  }
  for (int value = 1; value <= 64; value *= 2) {
    values.push_back(value);
  }
  return values;
}

// Calls visit(knob, config) for every valid configuration in which this knob
// and at most one other have another value than in `center`.
template <typename Visit>
void VisitNeighbors(const Simulator& simulator, const ParallelConfig& center,
                    const Visit& visit) {
  for (const Knob& knob : BuiltInKnobs()) {
    for (const Knob& other : BuiltInKnobs()) {
      for (const int other_value : ValuesOf(other)) {
        for (const int value : ValuesOf(knob)) {
          ParallelConfig config = center;
          other.Set(config, other_value);
          knob.Set(config, value);
          try {
            (void)simulator.Simulate(config);
          } catch (const std::invalid_argument&) {  // not of this problem
            continue;
          }
          visit(knob, config);
        }
      }
    }
  }
}

// Plans are not memoized by the knobs: where a key lacks a knob, the plan and
// the configuration differ. A new knob is covered without a change.
TEST(Simulator, EveryKnobThatHasAnEffectIsInTheMemosKeys) {
  Workload workload = SmallWorkload();
  workload.model.experts = 8;
  workload.model.experts_per_token = 2;
  const Simulator simulator(workload, SmallCluster());
  std::set<std::string_view> alone;      // can change without another knob
  std::set<std::string_view> effective;  // and changes the step
  for (const char* center : {"dp=8", "dp=8,zero_stage=1", "dp=8,zero_stage=3",
                             "dp=4,tp=2,zero_stage=2,microbatches=2",
                             "dp=2,tp=2,cp=2,overlap_zero_comm=0",
                             "dp=4,pp=2,microbatches=4,model_chunks=2"}) {
    std::map<std::pair<std::string_view, ParallelConfig>, ParallelConfig> first;
    VisitNeighbors(
        simulator, Config(center),
        [&](const Knob& knob, const ParallelConfig& config) {
          const StepReport report = simulator.Simulate(config);
          const Plan plan = UniformPlan(config, workload.model.layers);
          EXPECT_TRUE(report == simulator.Simulate(plan)) << ToString(config);
          ParallelConfig others = config;
          knob.Set(others, knob.minimum);
          const auto [at, is_new] =
              first.try_emplace({knob.name, others}, config);
          if (at->second != config) {
            alone.insert(knob.name);
            if (simulator.Simulate(at->second).step_time_s !=
                report.step_time_s) {
              effective.insert(knob.name);
            }
          }
        });
  }
  // Its value follows from the others.
  EXPECT_EQ(alone.erase("micro_batch_size"), 1U);
  EXPECT_EQ(alone, effective);
}

TEST(Simulator, ABiggerModelOrBatchTakesLonger) {
  Workload deep = SmallWorkload();
  deep.model.layers *= 2;
  Workload wide = SmallWorkload();
  wide.model.hidden_size *= 2;
  wide.model.head_size *= 2;
  Workload batch = SmallWorkload();
  batch.batch_size *= 2;
  Workload longer = SmallWorkload();
  longer.sequence_length *= 2;
  const Simulator small = Small();
  for (const Workload& workload : {deep, wide, batch, longer}) {
    const Simulator larger(workload, SmallCluster());
    for (const ParallelConfig& config : Configs()) {
      EXPECT_GT(larger.Simulate(config).step_time_s,
                small.Simulate(config).step_time_s)
          << ToString(config);
    }
  }
}

TEST(Simulator, MoreBandwidthIsNeverSlower) {
  Cluster intra = SmallCluster();
  intra.intra.bandwidth_bytes_per_s *= 2;
  Cluster uplink = SmallCluster();
  uplink.uplink.bandwidth_bytes_per_s *= 2;
  Cluster inter = SmallCluster();
  inter.inter.bandwidth_bytes_per_s *= 2;
  Cluster nics = SmallCluster();
  nics.nics_per_node = 4;
  Cluster memory = SmallCluster();
  memory.gpu.memory_bandwidth_bytes_per_s *= 2;
  const Simulator slow = Small();
  for (const Cluster& cluster : {intra, uplink, inter, nics, memory}) {
    const Simulator fast(SmallWorkload(), cluster);
    for (const ParallelConfig& config : Configs()) {
      const double slow_s = slow.Simulate(config).step_time_s;
      EXPECT_LE(fast.Simulate(config).step_time_s, slow_s * (1 + 1e-12))
          << ToString(config);
    }
  }
}

TEST(Simulator, MemoryFallsWithZeroRecomputationAndStages) {
  const Simulator simulator = Small();
  const auto peak = [&](const std::string& config) {
    return simulator.Simulate(Config(config)).peak_memory_bytes;
  };
  const std::string zero = "dp=8,microbatches=2,zero_bucket_mb=1,zero_stage=";
  EXPECT_GT(peak(zero + "0"), peak(zero + "1"));
  EXPECT_GT(peak(zero + "1"), peak(zero + "2"));
  EXPECT_GE(peak(zero + "2"), peak(zero + "3"));
  EXPECT_GT(peak("dp=4,pp=2,microbatches=8"),
            peak("dp=4,pp=2,microbatches=8,grad_checkpoint=1"));
  EXPECT_GT(peak("dp=4,pp=2,microbatches=4"),
            peak("dp=4,pp=2,microbatches=16"));
  EXPECT_GT(peak("dp=8"), peak("dp=1,pp=8,microbatches=64"));
}

TEST(Simulator, RecomputationCostsTimeOfItsOwn) {
  const Simulator simulator = Small();
  const StepReport without = simulator.Simulate(Config("dp=8"));
  const StepReport with = simulator.Simulate(Config("dp=8,grad_checkpoint=1"));
  EXPECT_EQ(without.time.recompute_s, 0.0);
  EXPECT_NEAR(with.time.recompute_s, with.time.forward_s, 1e-12);
  EXPECT_GT(with.step_time_s, without.step_time_s);
}

TEST(Simulator, AKnobWithoutEffectHasNone) {
  const Simulator simulator = Small();
  const auto step_s = [&](const std::string& config) {
    return simulator.Simulate(Config(config)).step_time_s;
  };
  // DDP's bucket under ZeRO or with a pipeline; overlapped transfers without
  // interleaving.
  EXPECT_EQ(step_s("dp=8,zero_stage=1,dp_bucket_mb=1"),
            step_s("dp=8,zero_stage=1,dp_bucket_mb=512"));
  EXPECT_EQ(step_s("dp=4,pp=2,microbatches=4,dp_bucket_mb=1"),
            step_s("dp=4,pp=2,microbatches=4,dp_bucket_mb=512"));
  EXPECT_EQ(step_s("dp=4,pp=2,microbatches=4,overlap_p2p=0"),
            step_s("dp=4,pp=2,microbatches=4,overlap_p2p=1"));
}

TEST(Simulator, AKnobWithEffectHasOne) {
  const Simulator simulator = Small();
  const auto step_s = [&](const std::string& config) {
    return simulator.Simulate(Config(config)).step_time_s;
  };
  EXPECT_NE(step_s("dp=8,dp_bucket_mb=1"), step_s("dp=8,dp_bucket_mb=64"));
  EXPECT_NE(step_s("dp=8,zero_stage=1,zero_bucket_mb=1"),
            step_s("dp=8,zero_stage=1,zero_bucket_mb=64"));
  EXPECT_LT(step_s("dp=8,zero_stage=1,overlap_zero_comm=1"),
            step_s("dp=8,zero_stage=1,overlap_zero_comm=0"));
  EXPECT_LT(step_s("dp=8,zero_stage=1,overlap_zero_allgather=1"),
            step_s("dp=8,zero_stage=1"));
  const std::string interleaved =
      "dp=4,pp=2,microbatches=4,model_chunks=2,overlap_p2p=";
  EXPECT_LT(step_s(interleaved + "1"), step_s(interleaved + "0"));
}

TEST(Simulator, TheVocabularyHeadMakesTheLastStageCritical) {
  Workload workload = SmallWorkload();
  workload.model.vocab_size = 150000;
  const Simulator simulator(workload, SmallCluster());
  const StepReport report =
      simulator.Simulate(Config("dp=2,pp=4,microbatches=8"));
  EXPECT_EQ(report.critical_rank, 3);
  EXPECT_GT(report.time.head_s, report.time.forward_s);
}

TEST(Simulator, TiedTablesOnTwoStagesAreSynchronised) {
  Workload untied = SmallWorkload();
  untied.model.tied_embeddings = false;
  const ParallelConfig config = Config("dp=1,pp=8,microbatches=16");
  const StepReport tied = Small().Simulate(config);
  EXPECT_GT(tied.time.data_s, 0.0);
  EXPECT_EQ(Simulator(untied, SmallCluster()).Simulate(config).time.data_s,
            0.0);
}

TEST(Simulator, AStatedMicroBatchSizeMustMakeUpTheBatch) {
  const Simulator simulator = Small();
  EXPECT_EQ(simulator.Simulate(Config("dp=8,microbatches=8,micro_batch_size=1"))
                .step_time_s,
            simulator.Simulate(Config("dp=8,microbatches=8")).step_time_s);
  EXPECT_THROW((void)simulator.Simulate(
                   Config("dp=8,microbatches=8,micro_batch_size=4")),
               std::invalid_argument);
}

TEST(Simulator, ZeroTwoScattersTheGradientsOfEveryMicrobatch) {
  const Simulator simulator = Small();
  const auto data_s = [&](const std::string& config) {
    return simulator.Simulate(Config(config)).time.data_s;
  };
  const std::string zero =
      "dp=8,overlap_zero_comm=0,zero_bucket_mb=64,zero_stage=";
  EXPECT_LT(data_s(zero + "2"), data_s(zero + "1"));
  EXPECT_GT(data_s(zero + "2,microbatches=4"),
            data_s(zero + "1,microbatches=4"));
}

TEST(Simulator, RefusesWhatIsNoConfigurationOfTheProblem) {
  const Simulator simulator = Small();
  for (const std::string text :
       {"dp=4", "dp=8,microbatches=3", "pp=8,microbatches=8,model_chunks=2",
        "dp=2,pp=4,microbatches=2,model_chunks=2", "dp=4,ep=2,tp=2"}) {
    EXPECT_THROW((void)simulator.Simulate(Config(text)), std::invalid_argument)
        << text;
  }
}

TEST(Simulator, ATrialCostsSetUpStepsAndTearDown) {
  Simulator simulator = Small();
  TrialRequest request;
  request.candidate = Config("dp=8,zero_stage=1");
  request.max_steps = 5;
  const Measurement measurement = simulator.Run(request);
  const double step_s =
      simulator.Simulate(request.candidate.config()).step_time_s;
  EXPECT_EQ(measurement.outcome, Outcome::kCompleted);
  EXPECT_EQ(measurement.step_times_s, std::vector<double>(5, step_s));
  EXPECT_DOUBLE_EQ(measurement.setup_s, simulator.SetupTime());
  EXPECT_NEAR(measurement.duration_s,
              simulator.SetupTime() + 5 * step_s + Framework{}.teardown_s,
              1e-9);
  EXPECT_EQ(simulator.ExactThroughput(request.candidate.config()),
            1.0 / step_s);
  EXPECT_EQ(measurement.peak_memory_bytes,
            simulator.Simulate(request.candidate.config()).peak_memory_bytes);
}

TEST(Simulator, ATrialStopsWhenTheCallerHasSeenEnough) {
  Simulator simulator = Small();
  TrialRequest request;
  request.candidate = Config("dp=8");
  request.max_steps = 10;
  int seen = 0;
  request.on_step = [&](double) { return ++seen < 3; };
  const Measurement measurement = simulator.Run(request);
  EXPECT_EQ(measurement.outcome, Outcome::kTerminatedEarly);
  EXPECT_EQ(measurement.step_times_s.size(), 3u);
  request.max_steps = 4;  // one step is left
  seen = 0;
  EXPECT_EQ(simulator.Run(request).outcome, Outcome::kTerminatedEarly);
  EXPECT_EQ(seen, 3);
}

TEST(Simulator, OutOfMemoryIsAnOutcomeThatNamesTheCulprit) {
  Cluster cluster = SmallCluster();
  TrialRequest request;
  request.candidate = Config("dp=8,zero_stage=1");
  cluster.gpu.memory_bytes =
      0.99 * Small().Simulate(request.candidate.config()).peak_memory_bytes;
  Simulator simulator(SmallWorkload(), cluster);
  request.max_steps = 5;
  const Measurement measurement = simulator.Run(request);
  EXPECT_EQ(measurement.outcome, Outcome::kOutOfMemory);
  EXPECT_TRUE(measurement.step_times_s.empty());
  EXPECT_FALSE(measurement.peak_memory_bytes.has_value());
  EXPECT_THAT(measurement.message, HasSubstr("in the first step"));
  EXPECT_GT(measurement.duration_s,
            simulator.SetupTime() + Framework{}.failure_s);
  EXPECT_EQ(simulator.ExactThroughput(request.candidate.config()), 0.0);

  cluster.gpu.memory_bytes = 1e9;
  Simulator tiny(SmallWorkload(), cluster);
  const Measurement at_once = tiny.Run(request);
  EXPECT_THAT(at_once.message, HasSubstr("during set-up"));
  EXPECT_DOUBLE_EQ(at_once.duration_s,
                   tiny.SetupTime() + Framework{}.failure_s);
  EXPECT_THAT(
      at_once.message,
      HasSubstr(fmt::format(
          "needs {:.2f} GB of 1.00 GB",
          1e-9 * tiny.Simulate(request.candidate.config()).peak_memory_bytes)));
}

TEST(Simulator, APlanHasTheThroughputOfItsStepIfItFits) {
  const Plan plan = UniformPlan(Config("dp=8"), SmallWorkload().model.layers);
  Cluster cluster = SmallCluster();
  const Simulator simulator(SmallWorkload(), cluster);
  EXPECT_DOUBLE_EQ(simulator.ExactThroughput(plan).value_or(0.0) *
                       simulator.Simulate(plan).step_time_s,
                   1.0);
  cluster.gpu.memory_bytes = 1e9;
  EXPECT_EQ(Simulator(SmallWorkload(), cluster).ExactThroughput(plan), 0.0);
}

TEST(Simulator, ALargerModelOnMoreRanksTakesLongerToSetUp) {
  Workload larger = SmallWorkload();
  larger.model.layers *= 4;
  Cluster hosts = SmallCluster();
  hosts.nodes *= 4;
  const double small_s = Small().SetupTime();
  EXPECT_GT(Simulator(larger, SmallCluster()).SetupTime(), small_s);
  EXPECT_GT(Simulator(SmallWorkload(), hosts).SetupTime(), small_s);
}

TEST(Simulator, TheReportShowsEveryPartAndTheTotals) {
  const ParallelConfig config = Config("dp=4,pp=2,microbatches=4");
  const std::string text =
      FormatReport(ToString(config), Small().Simulate(config));
  for (const char* part :
       {"dp=4", "forward", "pipeline bubble", "data-parallel communication",
        "total", "peak memory", "optimizer", "CUDA and NCCL context"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Simulator, ZeroBubbleIsFasterWithAPipelineAndChangesNothingElse) {
  Framework framework;
  framework.zero_bubble = true;
  const Simulator with(SmallWorkload(), SmallCluster(), {framework});
  const Simulator without = Small();
  for (const ParallelConfig& config : Configs()) {
    const StepReport split = with.Simulate(config);
    const StepReport whole = without.Simulate(config);
    if (config.pp == 1 || config.model_chunks > 1) {
      EXPECT_EQ(split, whole) << ToString(config);
    } else {
      EXPECT_LT(split.time.bubble_s, whole.time.bubble_s) << ToString(config);
      EXPECT_NEAR(split.time.Total(), split.step_time_s, 1e-9);
    }
  }
}

TEST(Simulator, AnOffloadedOptimizerTakesTheTimeOfTheHost) {
  Framework framework;
  framework.offload_optimizer = true;
  const auto optimizer_s = [&](const std::string& config) {
    return Simulator(SmallWorkload(), SmallCluster(), {framework})
        .Simulate(Config(config))
        .time.optimizer_s;
  };
  const double parameters =
      static_cast<double>(ParameterCount(SmallWorkload().model));
  // Two hosts share the optimizer.
  EXPECT_NEAR(optimizer_s("dp=8,zero_stage=2"),
              parameters / 2 / framework.host_optimizer_elements_per_s +
                  2 * parameters / 8 / framework.host_bytes_per_s,
              1e-3 * optimizer_s("dp=8,zero_stage=2"));
  EXPECT_GT(optimizer_s("dp=8,zero_stage=2,overlap_zero_comm=0"),
            optimizer_s("dp=8,zero_stage=2"));
}

TEST(Simulator, ATrialThatIsStoppedAtItsLastStepIsComplete) {
  Simulator simulator = Small();
  TrialRequest request;
  request.candidate = Config("dp=8");
  request.max_steps = 3;
  int seen = 0;
  request.on_step = [&](double) { return ++seen < 3; };
  const Measurement measurement = simulator.Run(request);
  EXPECT_EQ(measurement.outcome, Outcome::kCompleted);
  EXPECT_EQ(measurement.step_times_s.size(), 3u);
}

// Two hosts of four GPUs.
TEST(Simulator, SetUpIsTheSumOfItsPartsTimesTheFrameworksFactor) {
  Framework framework;
  framework.setup_factor = 2.0;
  const auto setup_s = [&] {
    return Simulator(SmallWorkload(), SmallCluster(), {.framework = framework})
        .SetupTime();
  };
  const double weights_s =
      4.0 * static_cast<double>(ParameterCount(SmallWorkload().model)) / 1e9;
  framework.weights_bytes_per_s = 1e9;
  framework.launch_process_s = framework.launch_per_local_rank_s = 0.0;
  framework.group_init_s = framework.group_init_per_rank_s = 0.0;
  EXPECT_DOUBLE_EQ(setup_s(), 2 * weights_s);
  framework.launch_process_s = 1.0;
  EXPECT_DOUBLE_EQ(setup_s(), 2 * (weights_s + 1));
  framework.launch_per_local_rank_s = 1.0;
  EXPECT_DOUBLE_EQ(setup_s(), 2 * (weights_s + 1 + 4));
  framework.group_init_s = 1.0;
  EXPECT_DOUBLE_EQ(setup_s(), 2 * (weights_s + 1 + 4 + 1));
  framework.group_init_per_rank_s = 1.0;
  EXPECT_DOUBLE_EQ(setup_s(), 2 * (weights_s + 1 + 4 + 1 + 8));
}

}  // namespace trials::simulator_test
