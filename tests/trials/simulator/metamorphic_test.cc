// How predictions must change when the machine, the model, the batch or the
// configuration changes: properties over random configurations of several
// spaces, models, clusters and frameworks, with fixed seeds.

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"
#include "tests/trials/simulator/problem.h"

namespace trials::metamorphic_test {

constexpr double kRounding = 1e-9;

// A problem, a framework and random configurations of the space.
struct Sample {
  std::string name;
  Workload workload;
  Cluster cluster;
  Framework framework;
  std::vector<ParallelConfig> configs;

  [[nodiscard]] Simulator Make() const {
    return {workload, cluster, {framework}};
  }
};

std::vector<ParallelConfig> Draw(const SearchSpace& space, int count) {
  std::mt19937 engine(7);
  std::vector<ParallelConfig> configs;
  std::sample(space.configs().begin(), space.configs().end(),
              std::back_inserter(configs), count, engine);
  for (std::size_t i = 0; i < configs.size(); i += 3) {
    configs[i].sp = configs[i].tp;
  }
  return configs;
}

const std::vector<Sample>& Samples() {
  static const std::vector<Sample> samples = [] {
    constexpr int kDrawn = 40;
    std::vector<Sample> all;
    for (const char* problem : {"bert-8gpu", "qwen-8gpu", "llama1b-16gpu",
                                "llama7b-32gpu", "moe-8gpu"}) {
      const PaperProblem paper(problem);
      const std::vector<ParallelConfig> configs = Draw(paper.Space(), kDrawn);
      for (const char* framework :
           {"colossalai", "megatron-core", "fsdp2", "deepspeed"}) {
        all.push_back({std::string(problem) + " with " + framework,
                       paper.workload, paper.cluster, FindFramework(framework),
                       configs});
      }
    }
    return all;
  }();
  return samples;
}

// Calls `check` with the reports of each configuration that both samples can
// run: before and after `change`.
void ForEach(
    const std::function<void(Sample&)>& change,
    const std::function<void(const StepReport&, const StepReport&)>& check) {
  int compared = 0;
  for (const Sample& before : Samples()) {
    Sample after = before;
    change(after);
    const Simulator old = before.Make();
    const Simulator changed = after.Make();
    for (std::size_t i = 0; i < before.configs.size(); ++i) {
      const ParallelConfig& config = before.configs[i];
      SCOPED_TRACE(before.name + ": " + ToString(config));
      try {
        const StepReport one = old.Simulate(config);
        const StepReport two = changed.Simulate(after.configs[i]);
        check(one, two);
        ++compared;
      } catch (const std::invalid_argument&) {  // not a configuration of both
      }
    }
  }
  EXPECT_GT(compared, 200);
}

void NeverSlower(const std::function<void(Sample&)>& change) {
  ForEach(change, [](const StepReport& before, const StepReport& after) {
    EXPECT_LE(after.step_time_s, before.step_time_s * (1 + kRounding));
  });
}

TEST(Metamorphic, AFasterMachineIsNeverSlower) {
  NeverSlower([](Sample& s) {
    s.cluster.gpu.half_flop_per_s *= 2;
    s.cluster.gpu.single_flop_per_s *= 2;
  });
  NeverSlower(
      [](Sample& s) { s.cluster.gpu.memory_bandwidth_bytes_per_s *= 2; });
  NeverSlower([](Sample& s) { s.cluster.intra.bandwidth_bytes_per_s *= 2; });
  NeverSlower([](Sample& s) { s.cluster.uplink.bandwidth_bytes_per_s *= 2; });
  NeverSlower([](Sample& s) { s.cluster.inter.bandwidth_bytes_per_s *= 2; });
  NeverSlower([](Sample& s) {
    s.cluster.intra.latency_s /= 2;
    s.cluster.uplink.latency_s /= 2;
    s.cluster.inter.latency_s /= 2;
  });
  NeverSlower([](Sample& s) {
    s.framework.dispatch.dispatch_s /= 2;
    s.framework.dispatch.dispatch_backward_s /= 2;
    s.framework.dispatch.step_overhead_s /= 2;
  });
}

TEST(Metamorphic, MoreMemoryChangesNeitherPeakNorTime) {
  ForEach([](Sample& s) { s.cluster.gpu.memory_bytes *= 4; },
          [](const StepReport& before, const StepReport& after) {
            EXPECT_LE(after.step_time_s, before.step_time_s);
            EXPECT_GE(after.peak_memory_bytes, before.peak_memory_bytes);
            EXPECT_TRUE(after.fits || !before.fits);
          });
}

TEST(Metamorphic, TwiceTheLayersTakeMoreTimeAndMemoryButNotMoreThanTwice) {
  ForEach([](Sample& s) { s.workload.model.layers *= 2; },
          [](const StepReport& before, const StepReport& after) {
            EXPECT_GT(after.step_time_s, before.step_time_s);
            EXPECT_LE(after.step_time_s,
                      2 * before.step_time_s * (1 + kRounding));
            EXPECT_GT(after.peak_memory_bytes, before.peak_memory_bytes);
            EXPECT_LT(after.peak_memory_bytes, 2 * before.peak_memory_bytes);
          });
}

TEST(Metamorphic, HalfTheBatchTakesAtLeastHalfTheTime) {
  ForEach([](Sample& s) { s.workload.batch_size /= 2; },
          [](const StepReport& before, const StepReport& after) {
            EXPECT_LE(after.step_time_s, before.step_time_s);
            EXPECT_GE(after.step_time_s,
                      0.5 * before.step_time_s * (1 - kRounding));
            EXPECT_LE(after.peak_memory_bytes, before.peak_memory_bytes);
          });
}

TEST(Metamorphic, RecomputationTradesTimeForMemory) {
  const auto set = [](int value) {
    return [value](Sample& s) {
      for (ParallelConfig& config : s.configs) {
        config.grad_checkpoint = value;
      }
    };
  };
  for (Sample sample : Samples()) {
    set(kRecomputeNothing)(sample);
    const Simulator simulator = sample.Make();
    for (ParallelConfig config : sample.configs) {
      try {
        const StepReport nothing = simulator.Simulate(config);
        config.grad_checkpoint = kRecomputeSelective;
        const StepReport selective = simulator.Simulate(config);
        config.grad_checkpoint = kRecomputeFull;
        const StepReport full = simulator.Simulate(config);
        SCOPED_TRACE(sample.name + ": " + ToString(config));
        EXPECT_LE(nothing.time.recompute_s, selective.time.recompute_s);
        EXPECT_LT(selective.time.recompute_s, full.time.recompute_s);
        EXPECT_GE(nothing.memory.activations_bytes,
                  selective.memory.activations_bytes);
      } catch (const std::invalid_argument&) {
      }
    }
  }
}

// Infinitely fast links without latency and software overhead.
TEST(Metamorphic, WithInfiniteBandwidthOnlyFixedCostsOfCommunicationRemain) {
  ForEach(
      [](Sample& s) {
        for (Link* link :
             {&s.cluster.intra, &s.cluster.uplink, &s.cluster.inter}) {
          link->bandwidth_bytes_per_s = 1e30;
          link->latency_s = 0.0;
        }
        s.framework.pipeline.p2p_overhead_s = 0.0;
      },
      [](const StepReport& before, const StepReport& after) {
        // 25 us a collective remain.
        EXPECT_LE(after.time.tensor_s, before.time.tensor_s);
        EXPECT_LE(after.time.data_s, before.time.data_s * (1 + kRounding));
        // Receives that overlap with actions still take multiprocessors.
        EXPECT_LE(after.time.pipeline_s,
                  0.05 * (after.time.forward_s + after.time.backward_s));
      });
}

// A model whose head costs nothing, on one host with a switch.
Sample OneHost() {
  Sample sample;
  sample.workload = SmallWorkload();
  sample.workload.model.vocab_size = 64;
  sample.workload.model.tied_embeddings = false;
  sample.workload.model.hidden_size = 4096;
  sample.workload.model.head_size = 256;
  sample.workload.model.ffn_size = 16384;
  sample.workload.sequence_length = 2048;
  sample.cluster = SmallCluster();
  sample.cluster.gpus_per_switch = 0;
  sample.cluster.gpus_per_node = 8;
  sample.cluster.nodes = 1;
  sample.cluster.gpu.memory_bytes = 1e15;
  return sample;
}

// The seconds by which a component grows if links have half the bandwidth,
// times the bandwidth: the bytes that it moves.
double VolumeOf(Sample sample, const std::string& config,
                double TimeBreakdown::*component) {
  const ParallelConfig pc = ParseParallelConfig(config);
  const double bandwidth = sample.cluster.intra.bandwidth_bytes_per_s;
  const double fast_s = sample.Make().Simulate(pc).time.*component;
  sample.cluster.intra.bandwidth_bytes_per_s /= 2;
  return (sample.Make().Simulate(pc).time.*component - fast_s) * bandwidth;
}

TEST(Metamorphic, ReducingGradientsMovesTwiceTheParametersTimesTheRing) {
  const Sample sample = OneHost();
  for (const int dp : {2, 4, 8}) {
    Sample with = sample;
    with.cluster.gpus_per_node = dp;
    const std::string config =
        "dp=" + std::to_string(dp) + ",zero_stage=1,overlap_zero_comm=0";
    const double bytes = with.Make()
                             .Simulate(ParseParallelConfig(config))
                             .memory.parameters_bytes;
    // An all-reduce of the gradients and an all-gather of the parameters.
    EXPECT_NEAR(VolumeOf(with, config, &TimeBreakdown::data_s),
                3.0 * (dp - 1) / dp * bytes,
                2e-4 * bytes);  // norms are sent with low latency instead
  }
}

TEST(Metamorphic, TensorParallelismReducesFourActivationsPerBlock) {
  Sample sample = OneHost();
  Sample deep = sample;
  deep.workload.model.layers *= 2;
  for (const int tp : {2, 4, 8}) {
    const std::string config =
        "dp=" + std::to_string(8 / tp) + ",tp=" + std::to_string(tp);
    const double activations = 2.0 * sample.workload.batch_size / (8.0 / tp) *
                               sample.workload.sequence_length *
                               sample.workload.model.hidden_size;
    EXPECT_NEAR(
        VolumeOf(deep, config, &TimeBreakdown::tensor_s) -
            VolumeOf(sample, config, &TimeBreakdown::tensor_s),
        sample.workload.model.layers * 4 * 2.0 * (tp - 1) / tp * activations,
        1e-6 * activations);
  }
}

// The same share of the batch on more replicas, on a network that costs
// nothing.
TEST(Metamorphic, ReplicasAreAllAlike) {
  Sample sample = OneHost();
  sample.cluster.intra.bandwidth_bytes_per_s = 1e30;
  sample.cluster.intra.latency_s = 0.0;
  const auto forward_and_backward = [&](int dp) {
    Sample with = sample;
    with.cluster.gpus_per_node = dp;
    with.workload.batch_size = 8 * dp;
    const TimeBreakdown time =
        with.Make().Simulate({.dp = dp, .zero_stage = dp > 1 ? 1 : 0}).time;
    return time.forward_s + time.backward_s + time.head_s;
  };
  EXPECT_DOUBLE_EQ(forward_and_backward(1), forward_and_backward(2));
  EXPECT_DOUBLE_EQ(forward_and_backward(1), forward_and_backward(8));
}

double States(const MemoryBreakdown& memory) {
  return memory.parameters_bytes + memory.gradients_bytes +
         memory.optimizer_bytes;
}

TEST(Metamorphic, StatesNeverGrowWithZeroTensorAndPipelineParallelism) {
  for (const Sample& sample : Samples()) {
    const Simulator simulator = sample.Make();
    for (const ParallelConfig& config : sample.configs) {
      SCOPED_TRACE(sample.name + ": " + ToString(config));
      const auto states = [&](ParallelConfig changed) {
        try {
          return States(simulator.Simulate(changed).first_stage_memory);
        } catch (const std::invalid_argument&) {
          return -1.0;
        }
      };
      ParallelConfig zero = config;
      zero.microbatches = std::max(2, config.microbatches);
      for (double before = -1.0; config.dp > 1 && zero.zero_stage <= 3;
           ++zero.zero_stage) {
        const double now = states(zero);
        EXPECT_TRUE(before < 0.0 || now <= before * (1 + kRounding));
        before = now;
      }
      if (config.dp % 2 == 0 && config.zero_stage == 0 && config.ep == 1) {
        ParallelConfig tensor = config;
        tensor.dp /= 2;
        tensor.tp *= 2;
        tensor.sp = config.sp > 1 ? tensor.tp : 1;
        EXPECT_LE(states(tensor), states(config) * (1 + kRounding));
        ParallelConfig pipeline = config;
        pipeline.dp /= 2;
        pipeline.pp *= 2;
        pipeline.microbatches = std::max(pipeline.pp, 2 * config.microbatches);
        if (config.microbatches > 1) {  // else gradients exist at another time
          EXPECT_LE(states(pipeline), states(config) * (1 + kRounding));
        }
      }
    }
  }
}

TEST(Metamorphic, SequenceParallelismSavesActivationsAndNoVolume) {
  const Sample sample = OneHost();
  const StepReport without =
      sample.Make().Simulate({.dp = 2, .tp = 4, .microbatches = 1});
  const StepReport with =
      sample.Make().Simulate({.dp = 2, .tp = 4, .microbatches = 1, .sp = 4});
  EXPECT_LT(with.memory.activations_bytes, without.memory.activations_bytes);
  EXPECT_EQ(States(with.memory), States(without.memory));
  EXPECT_GE(VolumeOf(sample, "dp=2,tp=4,sp=4", &TimeBreakdown::tensor_s),
            VolumeOf(sample, "dp=2,tp=4", &TimeBreakdown::tensor_s) *
                (1 - kRounding));
}

// Two ranks share a sequence: each holds half of its tokens and all parameters.
TEST(Metamorphic, ContextParallelismKeepsTokensAndStates) {
  const Sample sample = OneHost();
  const StepReport replicas = sample.Make().Simulate({.dp = 8});
  const StepReport contexts = sample.Make().Simulate({.dp = 4, .cp = 2});
  EXPECT_NEAR(contexts.memory.activations_bytes,
              replicas.memory.activations_bytes,
              1e-9 * replicas.memory.activations_bytes);
  EXPECT_EQ(States(contexts.memory), States(replicas.memory));
}

// Keys and values travel forward and backward, together with their gradients.
TEST(Metamorphic, ARingWithoutOverlapTakesTheTimeOfItsMessages) {
  Sample sample = OneHost();
  const auto context_s = [&] {
    return sample.Make().Simulate({.dp = 4, .cp = 2}).time.context_s;
  };
  const double hidden_s = context_s();
  sample.framework.collectives.ring_overlap = false;
  const double exposed_s = context_s();
  EXPECT_GT(exposed_s, hidden_s);
  sample.framework.kernels.merge_backward_bytes = 24;  // gradients in fp32
  EXPECT_NEAR(context_s() / exposed_s, 4.0 / 3.0, 0.02);
}

TEST(Metamorphic, ExpertParallelismSplitsTheExpertsOnly) {
  const PaperProblem problem("moe-8gpu");
  Workload workload = problem.workload;
  workload.batch_size *= 4;  // activations decide when the peak is
  const Simulator simulator(workload, problem.cluster);
  double before = States(simulator.Simulate({.dp = 8}).memory);
  for (const int ep : {2, 4, 8}) {
    const double now = States(simulator.Simulate({.dp = 8, .ep = ep}).memory);
    EXPECT_LT(now, before);
    EXPECT_GT(now, before / 2);
    before = now;
  }
}

// Experts that span tensor-parallel ranks take no more memory than experts that
// are split over them, and overlap, balance and messages per host save time.
TEST(Metamorphic, WholeExpertsOverlapAndBalanceSaveTime) {
  const PaperProblem problem("moe-8gpu");
  Framework framework = FindFramework("megatron-core");
  const auto simulate = [&](const char* config) {
    Cluster hosts = problem.cluster;
    hosts.nodes = 2;
    hosts.gpus_per_node /= 2;
    hosts.inter = {"network", 10e9, 1e-5};
    return Simulator(problem.workload, hosts, Simulator::Options{framework})
        .Simulate(ParseParallelConfig(config));
  };
  const StepReport whole = simulate("dp=4,tp=2,sp=2,ep=8");
  framework.experts.whole_experts = false;
  const StepReport split = simulate("dp=4,tp=2,sp=2,ep=4");
  EXPECT_NEAR(States(whole.memory), States(split.memory),
              1e-3 * States(split.memory));
  EXPECT_THROW((void)simulate("dp=4,tp=2,sp=2,ep=8"), InvalidPlan);
  framework.experts.whole_experts = true;
  framework.experts.expert_imbalance = 1.0;
  const StepReport balanced = simulate("dp=4,tp=2,sp=2,ep=8");
  EXPECT_LT(balanced.time.forward_s, whole.time.forward_s);
  framework.experts.token_once_per_host = true;
  const StepReport once = simulate("dp=4,tp=2,sp=2,ep=8");
  EXPECT_LT(once.time.expert_s, balanced.time.expert_s);
  framework.experts.expert_overlap = 1.0;
  EXPECT_LT(simulate("dp=4,tp=2,sp=2,ep=8").time.expert_s, once.time.expert_s);
}

}  // namespace trials::metamorphic_test
