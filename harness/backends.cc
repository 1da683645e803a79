#include "harness/backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/entries.h"
#include "harness/testbeds/planner_predictions.h"
#include "harness/testbeds/prediction_sources.h"
#include "harness/testbeds/program_backends.h"
#include "harness/testbeds/replay_backend.h"
#include "harness/testbeds/simulator_backend.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

std::vector<BackendEntry> ListBackends() {
  return {
      {"simulator", "a GPU cluster in software", MakeSimulator},
      {"replay", "a table of measured configurations", MakeReplay},
      {"command", "a training program of your own", MakeCommand, false},
      {"trainer", "the training program of this project", MakeTrainer, false},
  };
}

}  // namespace

trials::RelativePrice PriceOf(const Backend& backend) {
  const bool differs =
      backend.objective == trials::Objective::kMoney && !backend.sizes.empty();
  return {differs ? backend.gpus : 0};
}

const std::vector<BackendEntry>& Backends() {
  static const std::vector<BackendEntry> backends = ListBackends();
  return backends;
}

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const BackendEntry& backend : Backends()) {
    names.push_back(backend.name);
  }
  return names;
}

const BackendEntry* FindBackend(std::string_view name) {
  return FindByName(Backends(), name);
}

bool IsSimulated(const ProblemSpec& problem) {
  const BackendEntry* entry =
      FindBackend(problem.backend.GetString("type", ""));
  return entry == nullptr || entry->simulated;
}

Backend MakeBackend(const ProblemSpec& problem) {
  const std::string type = problem.backend.RequireString("type");
  const BackendEntry* entry = FindBackend(type);
  if (entry == nullptr) {
    const std::vector<std::string> known = BackendNames();
    problem.backend.Fail(
        "type",
        fmt::format("unknown backend '{}'{}; known: {}", type,
                    common::DidYouMean(type, known), fmt::join(known, ", ")));
  }
  Backend backend = WithPlace(problem.backend, "backend",
                              [&] { return entry->make(problem); });
  backend.type = type;
  backend.objective = problem.objective;
  const bool money = backend.objective == trials::Objective::kMoney;
  if (money && !backend.gpu_types.empty()) {
    throw InputError(
        fmt::format("{}: the objective \"money\" knows one price, and this "
                    "cluster has {} GPU types: choose one, gpu_type = \"{}\"",
                    problem.cluster.Where(), backend.gpu_types.size(),
                    backend.gpu_types.front().name));
  }
  if (money && !(backend.price_per_gpu_hour > 0.0)) {
    throw InputError(
        fmt::format("{}: the objective \"money\" needs the price of a GPU: add "
                    "price_per_gpu_hour, in USD, to [cluster] or to its file",
                    problem.cluster.Where()));
  }
  backend.simulated = entry->simulated;
  backend.predictions = Memoized(WithPlanners(problem, backend));
  for (const std::string& name : PredictionNames(problem.predictions)) {
    CheckPlanner(ReadPredictionSettings(problem.predictions, name), backend);
  }
  for (const TomlTable* table :
       {&problem.backend, &problem.noise, &problem.workload, &problem.cluster,
        &problem.space, &problem.predictions}) {
    table->RejectUnknownKeys();
  }
  return backend;
}

}  // namespace harness
