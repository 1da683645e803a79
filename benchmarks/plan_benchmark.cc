// Measures how long `oppa plan` needs for an answer, with its advice.

#include <filesystem>
#include <string>
#include <tuple>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "jobs/plan/forecast_request.h"

namespace jobs {
namespace {

ForecastRequest RequestOf(const std::string& model) {
  ForecastRequest request;
  request.model = (std::filesystem::path(OPPA_SOURCE_DIR) / "experiments" /
                   "workloads" / (model + ".json"))
                      .string();
  request.machine.gpu = "h100";
  request.batch_size = 1024;
  request.sequence_length = 4096;
  request.frameworks = {"megatron-lm"};
  return request;
}

// One framework on this many H100, feasible or not, with a batch of 1,024
// sequences.
void Plan(benchmark::State& state, const std::string& model) {
  ForecastRequest request = RequestOf(model);
  request.gpus = std::to_string(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(RunPlan(request));
  }
}

// A batch with many divisors, or racks that replicas do not fill.
void SlowPlan(benchmark::State& state, const std::string& model,
              const std::string& gpu, const std::string& gpus, int batch_size) {
  ForecastRequest request = RequestOf(model);
  request.machine.gpu = gpu;
  request.gpus = gpus;
  request.batch_size = batch_size;
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
  for (const auto& [model, gpu, gpus, batch_size] :
       {std::tuple("deepseek-v3", "gb200", "11520", 46080),
        {"deepseek-v3", "gb300", "4608", 46080},
        {"llama-3-70b", "gb300", "4608", 46080},
        {"moe-32-experts", "h100", "480", 720720}}) {
    benchmark::RegisterBenchmark(
        fmt::format("Plan/{}/{}x{}/{}", model, gpus, gpu, batch_size).c_str(),
        SlowPlan, model, gpu, gpus, batch_size)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

}  // namespace
}  // namespace jobs
