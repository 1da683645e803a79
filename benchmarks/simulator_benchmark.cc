// Measures the number of configurations that the simulator evaluates per
// second.

#include <filesystem>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/simulator.h"
#include "trials/workload.h"

namespace trials {
namespace {

std::filesystem::path Experiments() {
  return std::filesystem::path(OPPA_SOURCE_DIR) / "experiments";
}

struct Problem {
  Workload workload;
  Cluster cluster;
  std::vector<ParallelConfig> configs;
};

Problem Load(const std::string& model, const std::string& cluster,
             int batch_size, int sequence_length) {
  Problem problem;
  problem.workload.model =
      ReadModel(Experiments() / "workloads" / (model + ".json"));
  problem.workload.batch_size = batch_size;
  problem.workload.sequence_length = sequence_length;
  problem.cluster =
      ReadCluster(Experiments() / "clusters" / (cluster + ".toml"));
  SearchSpaceOptions options;
  options.rules = ReadRuleSet(Experiments() / "rules" / "colossalai.rules");
  problem.configs =
      SearchSpace::Enumerate(problem.workload, problem.cluster.gpus(), options)
          .configs();
  return problem;
}

Problem Bert() { return Load("bert-base-uncased", "a5000-8", 256, 256); }
Problem Llama1b() { return Load("llama-3.2-1b", "rtx3080-2x8", 64, 1024); }
Problem Qwen() { return Load("qwen2-1.5b", "a5000-8", 64, 1024); }
Problem Llama7b() { return Load("llama-2-7b", "a100-8x4", 256, 1024); }

// A whole search space with a fresh simulator, as `oppa simulate --all`.
void WholeSpace(benchmark::State& state, const Problem& problem) {
  for (auto _ : state) {
    const Simulator simulator(problem.workload, problem.cluster);
    double sum_s = 0.0;
    for (const ParallelConfig& config : problem.configs) {
      sum_s += simulator.Simulate(config).step_time_s;
    }
    benchmark::DoNotOptimize(sum_s);
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(problem.configs.size()));
}

// Configurations that share everything with earlier ones.
void Remembered(benchmark::State& state, const Problem& problem) {
  const Simulator simulator(problem.workload, problem.cluster);
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(simulator.Simulate(problem.configs[i]));
    i = (i + 1) % problem.configs.size();
  }
  state.SetItemsProcessed(state.iterations());
}

// One configuration by a simulator that remembers nothing, on ever more GPUs:
// only the number of identical ranks grows, and the time must not.
void Alone(benchmark::State& state) {
  Problem problem = Llama7b();
  ParallelConfig config{.tp = 4, .pp = 2, .zero_stage = 1, .microbatches = 8};
  config.dp = static_cast<int>(state.range(0)) / 8;
  config.zero_stage = config.dp > 1 ? 1 : 0;
  problem.cluster.nodes = static_cast<int>(state.range(0)) / 4;
  problem.workload.batch_size = config.dp * config.microbatches;
  for (auto _ : state) {
    const Simulator simulator(problem.workload, problem.cluster);
    benchmark::DoNotOptimize(simulator.Simulate(config));
  }
  state.SetItemsProcessed(state.iterations());
}

// Plans that share layers and links, but no pipeline: one more layer of a stage
// is recomputed each time.
void Plans(benchmark::State& state) {
  const Problem problem = Llama7b();
  const Simulator simulator(problem.workload, problem.cluster);
  Plan plan =
      UniformPlan(ParallelConfig{.dp = 2, .tp = 2, .pp = 8, .microbatches = 64},
                  problem.workload.model.layers);
  int turn = 0;
  for (auto _ : state) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].recomputed_layers = (turn >> (2 * (s % 4))) % 4;
    }
    ++turn;
    benchmark::DoNotOptimize(simulator.Simulate(plan));
  }
  state.SetItemsProcessed(state.iterations());
}

// One pipeline from scratch: stages, microbatches, chunks.
void Pipeline(benchmark::State& state) {
  const PipelineShape shape{static_cast<int>(state.range(0)),
                            static_cast<int>(state.range(1)),
                            static_cast<int>(state.range(2))};
  const auto all = static_cast<std::size_t>(shape.stages) * shape.chunks;
  const auto stages = static_cast<std::size_t>(shape.stages);
  const PipelineTimes times{std::vector<double>(all, 1.0),
                            std::vector<double>(all, 2.0),
                            std::vector<double>(stages, 0.1),
                            std::vector<double>(stages, 0.1), false};
  for (auto _ : state) {
    benchmark::DoNotOptimize(RunPipeline(shape, times));
  }
  state.SetItemsProcessed(state.iterations() * 2 * shape.microbatches *
                          static_cast<std::int64_t>(all));
}

BENCHMARK_CAPTURE(WholeSpace, bert_8gpu, Bert())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(WholeSpace, llama1b_16gpu, Llama1b())
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(WholeSpace, qwen_8gpu, Qwen())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(WholeSpace, llama7b_32gpu, Llama7b())
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Remembered, qwen_8gpu, Qwen());
BENCHMARK_CAPTURE(Remembered, llama7b_32gpu, Llama7b());
BENCHMARK(Alone)->RangeMultiplier(8)->Range(8, 16384);
BENCHMARK(Plans);
BENCHMARK(Pipeline)->Args({2, 8, 1})->Args({16, 64, 1})->Args({8, 64, 4});

}  // namespace
}  // namespace trials
