// Measures how long search spaces and rules take.

#include <filesystem>
#include <vector>

#include <benchmark/benchmark.h>

#include "trials/rules.h"
#include "trials/search_space.h"
#include "trials/workload.h"

namespace trials {
namespace {

std::filesystem::path Experiments() {
  return std::filesystem::path(OPPA_SOURCE_DIR) / "experiments";
}

// Qwen2-1.5B with Colossal-AI's rules on this many GPUs.
void EnumerateSpace(benchmark::State& state) {
  Workload workload;
  workload.model = ReadModel(Experiments() / "workloads" / "qwen2-1.5b.json");
  workload.batch_size = 256;
  workload.sequence_length = 1024;
  SearchSpaceOptions options;
  options.rules = ReadRuleSet(Experiments() / "rules" / "colossalai.rules");
  int size = 0;
  for (auto _ : state) {
    size = SearchSpace::Enumerate(workload, static_cast<int>(state.range(0)),
                                  options)
               .size();
  }
  state.counters["PCs"] = size;
}
BENCHMARK(EnumerateSpace)->Arg(8)->Arg(32)->Unit(benchmark::kMillisecond);

// One rule on one configuration.
void MatchRule(benchmark::State& state) {
  const Rule rule = Rule::Parse("$zero_stage > 5 && $pp > 1 || $layers < $tp",
                                "benchmark", "here:1");
  const Rule::Context context = {{"layers", 28}, {"num_gpus", 8}};
  int i = 0;
  for (auto _ : state) {
    const ParallelConfig config{.dp = i % 7 + 1, .pp = i % 5 + 1};
    benchmark::DoNotOptimize(rule.Matches(config, context));
    ++i;
  }
}
BENCHMARK(MatchRule);

}  // namespace
}  // namespace trials
