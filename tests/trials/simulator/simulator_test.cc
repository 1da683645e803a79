#include "trials/simulator/simulator.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"

namespace trials {
namespace {

using ::testing::HasSubstr;

// One configuration of every kind on 8 GPUs.
std::vector<ParallelConfig> Samples() {
  return {
      {.dp = 8},
      {.dp = 8, .zero_stage = 1},
      {.dp = 8, .zero_stage = 2, .overlap_zero_allgather = true},
      {.dp = 8, .zero_stage = 3, .grad_checkpoint = true},
      {.dp = 4, .tp = 2, .dp_bucket_mb = 4},
      {.dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8},
      {.dp = 2, .tp = 2, .pp = 2, .microbatches = 4, .model_chunks = 2},
      {.pp = 8, .microbatches = 16, .model_chunks = 2, .overlap_p2p = true},
      {.tp = 2, .pp = 4, .microbatches = 32, .grad_checkpoint = true},
  };
}

void ExpectEqual(const StepReport& a, const StepReport& b) {
  EXPECT_EQ(a.step_time_s, b.step_time_s);
  EXPECT_EQ(a.peak_memory_bytes, b.peak_memory_bytes);
  EXPECT_EQ(a.critical_rank, b.critical_rank);
  EXPECT_EQ(a.peak_rank, b.peak_rank);
  EXPECT_EQ(a.states_fit, b.states_fit);
}

class PaperSpace : public testing::TestWithParam<const char*> {};

TEST_P(PaperSpace, EveryConfigurationIsSimulatedAndItsPartsAddUp) {
  const PaperProblem problem(GetParam());
  const Simulator simulator(problem.workload, problem.cluster);
  int fitting = 0;
  const SearchSpace space = problem.Space();
  for (const ParallelConfig& config : space.configs()) {
    const StepReport report = simulator.Simulate(config);
    ASSERT_GT(report.step_time_s, 0.0) << ToString(config);
    ASSERT_NEAR(report.parts.Total() / report.step_time_s, 1.0, 1e-9)
        << ToString(config);
    ASSERT_NEAR(report.memory.Total() / report.peak_memory_bytes, 1.0, 1e-9)
        << ToString(config);
    ASSERT_GE(report.parts.bubble_s, 0.0) << ToString(config);
    ASSERT_GE(report.parts.data_s, 0.0) << ToString(config);
    ASSERT_TRUE(report.states_fit || !report.fits) << ToString(config);
    fitting += report.fits ? 1 : 0;
  }
  EXPECT_GT(fitting, 0);
}

TEST_P(PaperSpace, MemoisedResultsAreThoseOfAFreshSimulatorInAnyOrder) {
  const PaperProblem problem(GetParam());
  const SearchSpace space = problem.Space();
  const Simulator forwards(problem.workload, problem.cluster);
  const Simulator backwards(problem.workload, problem.cluster);
  const int stride = space.size() / 300 + 1;
  const int count = space.size() / stride;
  std::vector<StepReport> reports;
  for (int i = 0; i < count; ++i) {
    reports.push_back(forwards.Simulate(space[i * stride]));
  }
  for (int i = count - 1; i >= 0; --i) {
    SCOPED_TRACE(ToString(space[i * stride]));
    ExpectEqual(backwards.Simulate(space[i * stride]),
                reports[static_cast<std::size_t>(i)]);
    ExpectEqual(problem.Simulate(space[i * stride]),
                reports[static_cast<std::size_t>(i)]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Simulator,
    PaperSpace,
    testing::Values("bert-8gpu", "qwen-8gpu", "llama1b-16gpu", "llama7b-32gpu"),
    [](const auto& space) {
      std::string name = space.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(Simulator, MoreWorkTakesLonger) {
  for (const ParallelConfig& config : Samples()) {
    SCOPED_TRACE(ToString(config));
    const PaperProblem base("qwen-8gpu");
    const double base_s = base.StepTime(config);
    PaperProblem batch = base;
    batch.workload.batch_size *= 2;
    EXPECT_GT(batch.StepTime(config), 1.3 * base_s);
    PaperProblem sequence = base;
    sequence.workload.sequence_length *= 2;
    EXPECT_GT(sequence.StepTime(config), 1.3 * base_s);
    PaperProblem deeper = base;
    deeper.workload.model.layers *= 2;
    EXPECT_GT(deeper.StepTime(config), 1.3 * base_s);
    PaperProblem wider = base;
    wider.workload.model.ffn_size *= 2;
    EXPECT_GT(wider.StepTime(config), 1.1 * base_s);
  }
}

TEST(Simulator, ABetterClusterIsNeverSlower) {
  const PaperProblem base("qwen-8gpu");
  for (const ParallelConfig& config : Samples()) {
    SCOPED_TRACE(ToString(config));
    const double base_s = base.StepTime(config);
    PaperProblem links = base;
    links.cluster.intra.bandwidth_bytes_per_s *= 2;
    links.cluster.uplink.bandwidth_bytes_per_s *= 2;
    EXPECT_LT(links.StepTime(config), base_s);
    PaperProblem memory = base;
    memory.cluster.gpu.memory_bandwidth_bytes_per_s *= 2;
    EXPECT_LT(memory.StepTime(config), base_s);
    PaperProblem compute = base;
    compute.cluster.gpu.half_flop_per_s *= 2;
    EXPECT_LT(compute.StepTime(config), base_s);
  }
}

TEST(Simulator, MemoryFallsWithZeroRecomputationAndPipelineStages) {
  const PaperProblem problem("qwen-8gpu");
  const auto peak = [&](const ParallelConfig& config) {
    return problem.Simulate(config).peak_memory_bytes;
  };
  for (int stage = 1; stage <= 3; ++stage) {
    const auto sharded = [&](int zero_stage) {
      return peak(
          {.dp = 4, .pp = 2, .zero_stage = zero_stage, .microbatches = 16});
    };
    EXPECT_LT(sharded(stage), sharded(stage - 1));
  }
  EXPECT_LT(peak({.dp = 8, .zero_stage = 1, .grad_checkpoint = true}),
            peak({.dp = 8, .zero_stage = 1}));
  EXPECT_LT(peak({.dp = 4, .pp = 2, .microbatches = 8}), peak({.dp = 8}));
  EXPECT_LT(peak({.pp = 8, .microbatches = 32}),
            peak({.dp = 2, .pp = 4, .microbatches = 16}));
  EXPECT_LT(peak({.dp = 4, .pp = 2, .microbatches = 16}),
            peak({.dp = 4, .pp = 2, .microbatches = 2}));
}

// Interleaving keeps more microbatches in flight.
TEST(Simulator, InterleavingTakesMoreMemoryAndLessBubble) {
  const PaperProblem problem("llama1b-16gpu");
  ParallelConfig config{.dp = 4, .pp = 4, .microbatches = 4};
  const StepReport plain = problem.Simulate(config);
  config.model_chunks = 4;
  const StepReport interleaved = problem.Simulate(config);
  EXPECT_LT(interleaved.parts.bubble_s, plain.parts.bubble_s);
  EXPECT_GT(interleaved.memory.activations_bytes,
            plain.memory.activations_bytes);
}

// The plain sum of the parts' differences: only the second forward.
TEST(Simulator, RecomputationCostsAnotherForward) {
  const PaperProblem problem("bert-8gpu");
  const StepParts plain = problem.Simulate({.dp = 8}).parts;
  const StepParts again =
      problem.Simulate({.dp = 8, .grad_checkpoint = true}).parts;
  EXPECT_EQ(plain.recompute_s, 0.0);
  EXPECT_DOUBLE_EQ(again.recompute_s, plain.forward_s);
}

TEST(Simulator, TheHeadMakesTheLastStageOfQwenTheSlowest) {
  const PaperProblem problem("qwen-8gpu");
  const StepReport report =
      problem.Simulate({.dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 16});
  PaperProblem light = problem;
  light.workload.model.vocab_size = 1000;
  const StepReport without =
      light.Simulate({.dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 16});
  EXPECT_GT(report.parts.bubble_s + report.parts.head_s,
            5 * (without.parts.bubble_s + without.parts.head_s) / 2);
}

// Each rank keeps its part of the gradients only, so every microbatch's must
// be scattered, not their sum.
TEST(Simulator, ZeroTwoScattersTheGradientsOfEveryMicrobatch) {
  const PaperProblem problem("qwen-8gpu");
  const auto data_s = [&](int stage, int microbatches) {
    return problem
        .Simulate({.dp = 4,
                   .pp = 2,
                   .zero_stage = stage,
                   .overlap_zero_comm = false,
                   .microbatches = microbatches})
        .parts.data_s;
  };
  EXPECT_NEAR(data_s(1, 16), data_s(1, 2), 0.1 * data_s(1, 2));
  EXPECT_GT(data_s(2, 16), 3 * data_s(2, 2));
}

TEST(Simulator, AnyNumberOfGpusWillDo) {
  PaperProblem problem("bert-8gpu");
  problem.cluster.gpus_per_node = 6;
  problem.cluster.gpus_per_switch = 3;
  problem.workload.batch_size = 96;
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 6},
        ParallelConfig{.dp = 2, .tp = 3},
        ParallelConfig{.dp = 2, .pp = 3, .microbatches = 6},
        ParallelConfig{.pp = 6, .microbatches = 12, .model_chunks = 2}}) {
    const StepReport report = problem.Simulate(config);
    EXPECT_GT(report.step_time_s, 0.0);
    EXPECT_NEAR(report.parts.Total(), report.step_time_s, 1e-12);
  }
}

TEST(Simulator, AGivenMicrobatchSizeIsTheOneThatFollowsFromTheBatch) {
  const PaperProblem problem("qwen-8gpu");
  ParallelConfig config{.dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8};
  const StepReport derived = problem.Simulate(config);
  config.micro_batch_size = 2;
  ExpectEqual(problem.Simulate(config), derived);
  config.micro_batch_size = 3;  // would train on another batch
  EXPECT_THROW((void)problem.Simulate(config), std::invalid_argument);
}

TEST(Simulator, RefusesWhatIsNoConfigurationOfTheProblem) {
  const PaperProblem problem("qwen-8gpu");
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 4},
        ParallelConfig{.pp = 8, .microbatches = 12},
        ParallelConfig{.pp = 8, .microbatches = 4, .model_chunks = 2},
        ParallelConfig{.pp = 8, .microbatches = 8, .model_chunks = 4},
        ParallelConfig{.tp = 8},
        ParallelConfig{.dp = 8, .zero_stage = 4},
        ParallelConfig{.dp = 8, .ep = 2},
        ParallelConfig{.dp = 8, .microbatches = 0}}) {
    EXPECT_THROW((void)problem.Simulate(config), std::invalid_argument)
        << ToString(config);
  }
}

TEST(Simulator, ATrialCostsItsSetUpItsStepsAndItsEnd) {
  const PaperProblem problem("qwen-8gpu");
  Simulator simulator(problem.workload, problem.cluster);
  const ParallelConfig config{
      .dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8};
  const double step_s = simulator.Simulate(config).step_time_s;
  const Measurement trial = simulator.Run({.config = config, .max_steps = 3});
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
  EXPECT_EQ(trial.step_times_s, std::vector<double>(3, step_s));
  EXPECT_DOUBLE_EQ(trial.setup_s, simulator.SetupTime());
  EXPECT_NEAR(trial.duration_s,
              trial.setup_s + 3 * step_s + Framework{}.teardown_s,
              1e-9);
  EXPECT_DOUBLE_EQ(*simulator.ExactThroughput(config), 1 / step_s);

  int seen = 0;
  const Measurement stopped =
      simulator.Run({.config = config, .max_steps = 3, .on_step = [&](double) {
                       return ++seen < 2;
                     }});
  EXPECT_EQ(stopped.outcome, Outcome::kTerminatedEarly);
  EXPECT_EQ(stopped.step_times_s.size(), 2U);
}

TEST(Simulator, MemoryRunsOutDuringSetUpOrInTheFirstStep) {
  const PaperProblem problem("qwen-8gpu");
  Simulator simulator(problem.workload, problem.cluster);
  // States of 16 bytes for each of 1.5 billion parameters: 25 GB.
  PaperProblem tiny = problem;
  tiny.cluster.gpu.memory_bytes = 8e9;
  const Measurement early = Simulator(tiny.workload, tiny.cluster)
                                .Run({.config = {.dp = 8}, .max_steps = 3});
  EXPECT_EQ(early.outcome, Outcome::kOutOfMemory);
  EXPECT_THAT(early.message, HasSubstr("during set-up"));
  const Measurement late =
      simulator.Run({.config = {.dp = 8, .zero_stage = 1}, .max_steps = 3});
  EXPECT_EQ(late.outcome, Outcome::kOutOfMemory);
  EXPECT_THAT(late.message, HasSubstr("in the first step"));
  EXPECT_GT(late.duration_s, early.duration_s);
  EXPECT_TRUE(late.step_times_s.empty());
  EXPECT_FALSE(late.peak_memory_bytes.has_value());
  EXPECT_EQ(*simulator.ExactThroughput({.dp = 8, .zero_stage = 1}), 0.0);
}

TEST(Simulator, SetUpTakesLongerForLargerModelsAndMoreRanks) {
  const PaperProblem problem("qwen-8gpu");
  PaperProblem deeper = problem;
  deeper.workload.model.layers *= 2;
  PaperProblem more = problem;
  more.cluster.nodes = 4;
  const auto setup_s = [](const PaperProblem& p) {
    return Simulator(p.workload, p.cluster).SetupTime();
  };
  EXPECT_GT(setup_s(deeper), setup_s(problem));
  EXPECT_GT(setup_s(more), setup_s(problem));
}

TEST(Simulator, TheReportShowsEveryPart) {
  const PaperProblem problem("qwen-8gpu");
  const ParallelConfig config{
      .dp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8};
  const std::string text = FormatReport(config, problem.Simulate(config));
  for (const char* part : {"forward",
                           "recomputation",
                           "optimizer",
                           "tensor-parallel communication",
                           "data-parallel communication",
                           "pipeline transfers",
                           "pipeline bubble",
                           "gradients",
                           "activations",
                           "logits and loss",
                           "CUDA and NCCL context",
                           "fits"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace trials
