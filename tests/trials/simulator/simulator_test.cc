#include "trials/simulator/simulator.h"

#include <map>
#include <numeric>
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
#include "trials/search_space.h"

namespace trials::simulator_test {

using ::testing::HasSubstr;

Simulator Small() { return {SmallWorkload(), SmallCluster()}; }

ParallelConfig Config(const std::string& text) {
  return ParseParallelConfig(text);
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
      options.framework.sharding.zero_group_ranks = ranks;
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

StepReport With(const Framework& framework, const std::string& config) {
  return Simulator(SmallWorkload(), SmallCluster(), {.framework = framework})
      .Simulate(Config(config));
}

// A configuration's knob is the framework's constant, in one simulator too.
TEST(Simulator, KnobsOfTheFrameworkReplaceItsConstants) {
  Cluster cluster = SmallCluster();
  cluster.nodes = 2;
  Workload workload = SmallWorkload();
  workload.model.experts = 4;
  workload.model.experts_per_token = 2;
  Framework usual;
  usual.kernels.fused_operators = true;
  const Simulator simulator(workload, cluster, {.framework = usual});
  const auto expect = [&](const char* knobs, const char* others,
                          const auto& change) {
    SCOPED_TRACE(knobs);
    Framework framework = usual;
    change(framework);
    const Simulator changed(workload, cluster, {.framework = framework});
    const std::string both = std::string(others) + "," + knobs;
    EXPECT_EQ(simulator.Simulate(Config(both)),
              changed.Simulate(Config(others)));
    EXPECT_NE(simulator.Simulate(Config(both)),
              simulator.Simulate(Config(others)));
    EXPECT_EQ(simulator.PeakMemory(Config(both)).memory,
              changed.Simulate(Config(others)).memory);
  };
  expect("dp_replicate=2", "dp=8,zero_stage=2",
         [](Framework& f) { f.sharding.zero_group_ranks = 4; });
  expect("etp=1", "dp=4,tp=2,ep=4",
         [](Framework& f) { f.experts.whole_experts = true; });
  expect("torch_compile=1", "dp=8", [](Framework& f) {
    f.kernels.fused_operators = f.kernels.fused_gate = false;
  });
}

// What few bits hold is gathered in them, without a gradient.
TEST(Simulator, FrozenWeightsInFewBitsAreGatheredInFewBits) {
  Framework framework;
  framework.sharding.fsdp = true;
  const auto buffers = [&](double bits) {
    Workload workload = SmallWorkload();
    workload.model.vocab_size = 256;  // the blocks are the largest modules
    workload.training.lora_rank = 4;
    workload.training.frozen_bits = bits;
    return Simulator(workload, SmallCluster(), {.framework = framework})
        .Simulate(Config("dp=8,zero_stage=3"))
        .memory.buffers_bytes;
  };
  EXPECT_LT(buffers(4.0), 0.5 * buffers(16.0));
}

TEST(Simulator, UpcastNearlyDoublesWhatBlocksKeep) {
  const auto kept = [](bool upcast) {
    Workload workload = SmallWorkload();
    workload.training.lora_rank = 4;
    workload.training.frozen_bits = 4.0;
    workload.training.upcast = upcast;
    return Simulator(workload, SmallCluster())
        .Simulate(Config("dp=8,grad_checkpoint=1"))
        .memory.activations_bytes;
  };
  EXPECT_GT(kept(true), 1.7 * kept(false));  // some of it is fp32 anyway
  EXPECT_LE(kept(true), 2.0 * kept(false));
}

TEST(Simulator, AnOffloadedOptimizerTakesTheTimeOfTheHost) {
  const auto optimizer_s = [](double link, int microbatches) {
    Workload workload = SmallWorkload();
    workload.training.offload = {true, false};
    Cluster cluster = SmallCluster();
    cluster.gpu.host_bytes_per_s = link;
    ParallelConfig config = Config("dp=8,zero_stage=2,overlap_zero_comm=0");
    config.microbatches = microbatches;
    return Simulator(workload, cluster).Simulate(config).time.optimizer_s;
  };
  EXPECT_GT(optimizer_s(1e9, 1), optimizer_s(1e11, 1));
  EXPECT_GT(optimizer_s(1e9, 2), optimizer_s(1e9, 1));  // gradients of each
}

TEST(Simulator, GradientsReducedInThePipelineHideInTheLastBackward) {
  Framework framework;
  framework.gradients.bucket_pack_bytes =
      framework.gradients.bucket_unpack_bytes = 0.0;
  for (const char* text :
       {"dp=4,pp=2,microbatches=4", "dp=4,pp=2,microbatches=4,zero_stage=1"}) {
    framework.gradients.reduce_in_pipeline = false;
    const double after_s = With(framework, text).time.data_s;
    framework.gradients.reduce_in_pipeline = true;
    EXPECT_LT(With(framework, text).time.data_s, after_s) << text;
  }
}

TEST(Simulator, ScatteringTheGradientsOfZero1IsCheaperThanReducingThem) {
  Framework framework;
  const char* text = "dp=8,zero_stage=1,overlap_zero_comm=0";
  const double reduced_s = With(framework, text).time.data_s;
  framework.gradients.scatter_gradients = true;
  EXPECT_LT(With(framework, text).time.data_s, reduced_s);
}

// Qwen3-235B with TP 2, EP 32, DP 16 and PP 8, DeepSeek-V3 with TP 2, EP 64,
// DP 32 and PP 16, Llama 3.1 405B with PP 16 and 8 chunks.
TEST(Simulator, AcceptsPublishedRecipes) {
  Workload workload = SmallWorkload();
  workload.batch_size = 512;
  Model& model = workload.model;
  const auto simulate = [&](int layers, int experts, const char* config) {
    model.layers = layers;
    model.experts = experts;
    model.experts_per_token = experts > 0 ? 8 : 0;
    const ParallelConfig parsed = ParseParallelConfig(config);
    Cluster cluster = SmallCluster();
    cluster.nodes = parsed.dp * parsed.tp * parsed.pp / cluster.gpus_per_node;
    const Simulator simulator(workload, cluster,
                              {FindFramework("megatron-core")});
    return simulator.Simulate(parsed).step_time_s;
  };
  EXPECT_GT(simulate(94, 128, "dp=16,tp=2,pp=8,ep=32,microbatches=16,sp=2"),
            0.0);
  EXPECT_GT(simulate(61, 256, "dp=32,tp=2,pp=16,ep=64,microbatches=16,sp=2"),
            0.0);
  EXPECT_GT(simulate(126, 0, "dp=1,tp=8,pp=16,microbatches=32,model_chunks=8"),
            0.0);
}

// Every way to split a model with experts over the 8 GPUs.
TEST(Simulator, PartsAddUpWithContextsExpertsAndRecomputation) {
  Workload workload = SmallWorkload();
  workload.model.experts = 8;
  workload.model.experts_per_token = 2;
  for (const bool stored_scores : {false, true}) {
    Simulator::Options options;
    options.framework.kernels.flash_attention = !stored_scores;
    options.framework.gradients.fp32_gradients = stored_scores;
    options.framework.sharding.fsdp = stored_scores;
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

// Transformer Engine's; PyTorch has a fused kernel for them.
TEST(Simulator, OldGpusAndFp32HaveNoFusedAttentionOfTransformerEngine) {
  const auto peak = [](bool transformer_engine, bool fused, bool old,
                       Precision precision) {
    Workload workload = SmallWorkload();
    workload.precision = precision;
    Cluster cluster = SmallCluster();
    cluster.gpu.no_bf16 = old;
    Simulator::Options options;
    options.framework.kernels.cudnn_attention = transformer_engine;
    options.framework.kernels.flash_attention = fused;
    return Simulator(workload, cluster, options)
        .Simulate(Config("dp=8"))
        .peak_memory_bytes;
  };
  for (const auto& [old, precision] :
       {std::pair{false, Precision::kFp16}, std::pair{true, Precision::kFp16},
        std::pair{false, Precision::kFp32}}) {
    const bool fuses = !old && precision != Precision::kFp32;
    EXPECT_EQ(peak(true, true, old, precision),
              peak(true, fuses, old, precision));
    EXPECT_LT(peak(false, true, old, precision),
              peak(true, false, old, precision));
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

TEST(Simulator, MemoryThatCannotBeUsedDoesNotCount) {
  const ParallelConfig config = Config("dp=8");
  const StepReport plain = Small().Simulate(config);
  Simulator::Options options;
  const auto fits = [&](double share) {
    options.framework.allocator.usable_memory = share;
    const Simulator simulator(SmallWorkload(), SmallCluster(), options);
    return simulator.Simulate(config).fits;
  };
  const double needed = plain.peak_memory_bytes / plain.capacity_bytes;
  EXPECT_TRUE(fits(1.01 * needed));
  EXPECT_FALSE(fits(0.99 * needed));
}

TEST(Simulator, AFullPipelineIsAskedForWhereTheFrameworkDoes) {
  Simulator::Options options;
  options.framework.pipeline.full_pipeline = true;
  const Simulator simulator(SmallWorkload(), SmallCluster(), options);
  const ParallelConfig two = Config("dp=2,pp=4,microbatches=2");
  EXPECT_NO_THROW((void)simulator.Simulate(Config("dp=1,pp=8,microbatches=8")));
  EXPECT_NO_THROW((void)simulator.Simulate(Config("dp=4,pp=2,microbatches=1")));
  EXPECT_NO_THROW((void)Small().Simulate(two));
  EXPECT_THROW((void)simulator.Simulate(two), std::invalid_argument);
}

TEST(Simulator, FsdpPrefetchesBlockByBlockWhateverTheFlags) {
  Simulator::Options options;
  options.framework.sharding.fsdp = true;
  const Simulator simulator(SmallWorkload(), SmallCluster(), options);
  const StepReport on =
      simulator.Simulate(Config("dp=8,zero_stage=3,overlap_zero_allgather=1"));
  const StepReport off = simulator.Simulate(
      Config("dp=8,zero_stage=3,overlap_zero_comm=0,zero_bucket_mb=1"));
  EXPECT_EQ(on.step_time_s, off.step_time_s);
  EXPECT_EQ(on.peak_memory_bytes, off.peak_memory_bytes);
  EXPECT_GT(on.time.data_s, 0.0);  // the first unit has nothing before it
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

TEST(Simulator, TheVocabularyHeadMakesTheLastStageCritical) {
  Workload workload = SmallWorkload();
  workload.model.vocab_size = 150000;
  const Simulator simulator(workload, SmallCluster());
  const StepReport report =
      simulator.Simulate(Config("dp=2,pp=4,microbatches=8"));
  EXPECT_EQ(report.critical_rank, 3);
  EXPECT_GT(report.time.head_s, report.time.forward_s);
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
  EXPECT_NEAR(
      measurement.duration_s,
      simulator.SetupTime() + 5 * step_s + Framework{}.launch.teardown_s, 1e-9);
  EXPECT_EQ(simulator.ExactThroughput(request.candidate.config()),
            1.0 / step_s);
  EXPECT_EQ(measurement.peak_memory_bytes,
            simulator.Simulate(request.candidate.config()).peak_memory_bytes);
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
            simulator.SetupTime() + Framework{}.launch.failure_s);
  EXPECT_EQ(simulator.ExactThroughput(request.candidate.config()), 0.0);

  cluster.gpu.memory_bytes = 1e9;
  Simulator tiny(SmallWorkload(), cluster);
  const Measurement at_once = tiny.Run(request);
  EXPECT_THAT(at_once.message, HasSubstr("during set-up"));
  EXPECT_DOUBLE_EQ(at_once.duration_s,
                   tiny.SetupTime() + Framework{}.launch.failure_s);
  EXPECT_THAT(
      at_once.message,
      HasSubstr(fmt::format(
          "needs {:.2f} GB of 1.00 GB",
          1e-9 * tiny.Simulate(request.candidate.config()).peak_memory_bytes)));
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

TEST(Simulator, ZeroBubbleIsFasterWithAPipelineAndChangesNothingElse) {
  Framework framework;
  framework.pipeline.zero_bubble = true;
  const Simulator with(SmallWorkload(), SmallCluster(), {framework});
  const Simulator without = Small();
  SearchSpaceOptions options;
  options.values = {{"dp_bucket_mb", {4}}, {"zero_bucket_mb", {4}}};
  const auto space = SearchSpace::Enumerate(SmallWorkload(), 8, options);
  for (const ParallelConfig& config : space.configs()) {
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

// What contention adds to a step in which every tensor-parallel message takes a
// second to issue. Hosts have four GPUs.
double Contention(const char* config, int nodes) {
  const auto time_s = [&](double contention) {
    Framework framework;
    framework.collectives.message_dispatch_s = 1.0;
    framework.collectives.network_contention = contention;
    Cluster cluster = SmallCluster();
    cluster.nodes = nodes;
    const Simulator simulator(SmallWorkload(), cluster, {framework});
    return simulator.StageCosts(simulator.PlanOf(ParseParallelConfig(config)))
        .back()
        .end_s;
  };
  return time_s(10.0) - time_s(0.0);
}

TEST(Simulator, OnlyJobsOnSeveralHostsContendForTheNetwork) {
  EXPECT_EQ(Contention("tp=2,pp=2,microbatches=2", 1), 0.0);
  EXPECT_GT(Contention("tp=8", 2), 1.0);
  EXPECT_GT(Contention("dp=4,tp=2", 2), 1.0);
  EXPECT_GT(Contention("tp=4,pp=2,microbatches=4", 2), 1.0);
}

// Two all-reduces of a block in each direction, one of the embedding and one of
// the head, in four microbatches on two ranks.
TEST(Simulator, AnAllocatorShortOfMemoryMapsTheBuffersOfCollectivesAgain) {
  const auto report = [](double pressure, double remap_s) {
    Framework framework;
    framework.allocator.allocator_pressure = pressure;
    framework.allocator.allocator_retry_s = 1.0;
    framework.allocator.allocator_remap_s = remap_s;
    return Simulator(SmallWorkload(), SmallCluster(), {framework})
        .Simulate(Config("dp=4,tp=2,microbatches=4"));
  };
  const double collective_bytes = 4.0 * 512 * SmallLlama().hidden_size * 2;
  const double enough_s = report(1.0, 1.0).step_time_s;
  EXPECT_NEAR(report(1e-3, 0.0).step_time_s - enough_s, 4.0, 1e-9);
  EXPECT_NEAR(report(1e-3, 1e-9).step_time_s - enough_s - 4.0,
              1e-9 * 4 * 2 * (4 * SmallLlama().layers + 2) * collective_bytes,
              1e-9);
}

// The head of SmallLlama is worth several blocks, which the last of four
// virtual stages lacks.
TEST(Simulator, BalancedStagesShareTheLayersOfAllVirtualStages) {
  Framework framework;
  framework.pipeline.balance_stages = true;
  const Simulator simulator(SmallWorkload(), SmallCluster(), {framework});
  const std::vector<int> layers =
      simulator
          .PlanOf(ParseParallelConfig("pp=2,microbatches=2,model_chunks=2"))
          .layers;
  ASSERT_EQ(layers.size(), 4);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 8);
  EXPECT_LT(layers.back(), layers.front());
}

}  // namespace trials::simulator_test
