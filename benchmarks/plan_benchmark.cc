// Measures how long `oppa plan` needs for an answer, with its advice.

#include <filesystem>
#include <string>

#include <benchmark/benchmark.h>

#include "jobs/plan/forecast_request.h"

namespace jobs {
namespace {

// One framework on this many H100, feasible or not, with a batch of 1,024
// sequences.
void Plan(benchmark::State& state, const std::string& model) {
  ForecastRequest request;
  request.model = (std::filesystem::path(OPPA_SOURCE_DIR) / "experiments" /
                   "workloads" / (model + ".json"))
                      .string();
  request.machine.gpu = "h100";
  request.gpus = std::to_string(state.range(0));
  request.batch_size = 1024;
  request.sequence_length = 4096;
  request.frameworks = {"megatron-lm"};
  for (auto _ : state) {
    benchmark::DoNotOptimize(RunPlan(request));
  }
}

const bool kRegistered = [] {
  for (const std::string model : {"llama-3-8b", "llama-3-70b", "deepseek-v3"}) {
    benchmark::RegisterBenchmark(("Plan/" + model).c_str(), Plan, model)
        ->RangeMultiplier(8)
        ->Range(8, 16384)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace jobs
