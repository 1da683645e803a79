// The one place that names concrete backends.

#ifndef HARNESS_BACKENDS_H_
#define HARNESS_BACKENDS_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/manifest.h"
#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace harness {

// One problem made real: where trials run and what may be tried.
struct Backend {
  std::string type;         // "simulator", "replay"
  std::string description;  // one line for people: model, batch, cluster
  std::string warning;      // one line about what was left out; "" if nothing
  int gpus = 1;
  int gpus_per_node = 1;
  double memory_capacity_bytes = 0.0;  // per GPU
  std::unique_ptr<trials::SearchSpace> space;
  std::unique_ptr<trials::TrialRunner> runner;  // with noise and time limit
  trials::TrialRunner* exact = nullptr;         // the runner within, without
  // Another runner like `exact`, for another thread; empty where there is none.
  std::function<std::unique_ptr<trials::TrialRunner>()> exact_twin;
  // The parts of one step as a table for people; empty where unknown.
  std::function<std::string(const trials::ParallelConfig&)> explain;
  // Has the output of trials kept in that folder; empty where there is none.
  std::function<void(const std::filesystem::path&)> keep_logs;
};

// What a simulation is made from.
struct SimulatorSetup {
  trials::Workload workload;
  trials::Cluster cluster;
  trials::SearchSpaceOptions space;
};

// Errors: throws InputError for a problem of another backend.
[[nodiscard]] SimulatorSetup ReadSimulatorSetup(const ProblemSpec& problem);

// A backend that manifests may name.
struct BackendEntry {
  std::string name;
  std::string description;
  std::function<Backend(const ProblemSpec&)> make;
  // Its clock is virtual, and a trial is a function of its request. The others
  // need the cluster, and time passes while they run.
  bool simulated = true;
};

[[nodiscard]] const std::vector<BackendEntry>& Backends();
[[nodiscard]] const BackendEntry* FindBackend(std::string_view name);

// The files that a problem's tables name, as far as they are there.
[[nodiscard]] std::vector<std::filesystem::path> InputFiles(
    const ProblemSpec& problem);

// Makes the backend of a problem and sees that its tables hold no key that
// nobody asked for.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] Backend MakeBackend(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_BACKENDS_H_
