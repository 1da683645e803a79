// The backend that simulates a cluster.

#ifndef HARNESS_TESTBEDS_SIMULATOR_BACKEND_H_
#define HARNESS_TESTBEDS_SIMULATOR_BACKEND_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/backends.h"
#include "harness/spec.h"
#include "harness/testbeds/noise.h"
#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/workload.h"

namespace trials {
struct Framework;
}

namespace harness {

// The input of a simulation.
struct SimulatorSetup {
  trials::Workload workload;
  trials::Cluster cluster;
  trials::SearchSpaceOptions space;
  std::shared_ptr<const trials::Framework> framework;  // never null
  std::string framework_name;              // "": the default, Colossal-AI
  std::vector<std::string> compared_with;  // see trials::FrameworkNotes
  std::vector<std::filesystem::path> inputs;
  // Of each GPU type, where there are several; `cluster` is the first one.
  std::vector<trials::Cluster> gpu_types;
  Noise noise;
};

// Errors: throws InputError for a problem of another backend.
[[nodiscard]] SimulatorSetup ReadSimulatorSetup(const ProblemSpec& problem);

[[nodiscard]] Backend MakeSimulator(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_SIMULATOR_BACKEND_H_
