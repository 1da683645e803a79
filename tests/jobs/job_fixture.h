// Jobs for tests: Llama-3-8B on H100, and a small model on few of them.

#pragma once

#include <map>
#include <string>

#include "jobs/job.h"
#include "jobs/machine.h"
#include "jobs/plan/forecast.h"
#include "tests/fakes/paths.h"

namespace jobs {

inline std::string Llama8b() {
  return (fakes::SourceFolder() / "experiments/workloads/llama-3-8b.json")
      .string();
}

// With what the framework's usual program does.
inline Job Usually(Job job) {
  if (job.framework.adapter) {
    job.workload.training = job.framework.adapter->training();
  }
  return job;
}

inline Job LlamaJob(const std::string& framework = "fsdp2", int nodes = 2) {
  return Usually({MakeWorkload(FindModel(Llama8b()), 256, 8192),
                  WithSize(FindMachine({.gpu = "h100"}), {nodes, 8}),
                  FindFramework(framework),
                  {}});
}

// 0.4 billion parameters; a forecast of it takes little time.
inline constexpr const char* kSmallModel =
    "layers=8,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=8000";

inline Job SmallJob(const std::string& framework = "torchtitan", int gpus = 4) {
  return Usually({MakeWorkload(FindModel(kSmallModel), 64, 2048),
                  WithSize(FindMachine({.gpu = "h100"}), {1, gpus}),
                  FindFramework(framework),
                  {}});
}

// A job with its forecast.
struct Planned {
  explicit Planned(const Job& job, const ForecastOptions& options = {})
      : forecaster(job, options), forecast(forecaster.MakeForecast()) {}

  [[nodiscard]] const Prediction& best() const {
    return forecast.layouts.front().best;
  }

  Forecaster forecaster;
  Forecast forecast;
};

// The forecast of LlamaJob, made once.
inline const Planned& PlannedLlama(const std::string& framework = "fsdp2") {
  static std::map<std::string, Planned> made;
  const auto found = made.find(framework);
  return found != made.end()
             ? found->second
             : made.emplace(framework, LlamaJob(framework)).first->second;
}

}  // namespace jobs
