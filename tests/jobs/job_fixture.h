// Jobs for tests: Llama-3-8B on H100.

#pragma once

#include <string>

#include "jobs/job.h"
#include "jobs/machine.h"
#include "tests/fakes/paths.h"

namespace jobs {

inline std::string Llama8b() {
  return (fakes::SourceFolder() / "experiments/workloads/llama-3-8b.json")
      .string();
}

inline Job LlamaJob(const std::string& framework = "fsdp2", int nodes = 2) {
  return {MakeWorkload(FindModel(Llama8b()), 256, 8192),
          WithSize(FindMachine({.gpu = "h100"}), {nodes, 8}),
          FindFramework(framework),
          {}};
}

}  // namespace jobs
