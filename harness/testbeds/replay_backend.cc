#include "harness/testbeds/replay_backend.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "harness/testbeds/noise.h"
#include "harness/testbeds/prediction_sources.h"
#include "harness/testbeds/problem_parts.h"
#include "trials/custom_knobs.h"
#include "trials/table_path.h"
#include "trials/tables/replay_runner.h"
#include "trials/tables/replay_table.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

std::filesystem::path ReplayTablePath(const TomlTable& table) {
  try {
    return trials::ResolveTablePath(table.RequireString("table"),
                                    table.Folder());
  } catch (const InputError& e) {
    table.Fail("table", e.what());
  }
}

trials::ReplayTable ReadTable(const TomlTable& table,
                              const std::filesystem::path& path,
                              const trials::KnobSet& knobs) {
  try {
    return trials::ReplayTable::Read(path, table.RequireString("scenarios"),
                                     knobs);
  } catch (const InputError& e) {
    table.Fail("scenarios", e.what());
  }
}

}  // namespace

Backend MakeReplay(const ProblemSpec& problem) {
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  const std::filesystem::path path = ReplayTablePath(problem.backend);
  const trials::KnobSet knobs = trials::ReadCustomKnobs(problem.space);
  const trials::ReplayTable table = ReadTable(problem.backend, path, knobs);
  trials::ReplayRunner::Options options;
  options.setup_s =
      GetNotNegative(problem.backend, "setup_s", options.setup_s) *
      GetNotNegative(problem.backend, "setup_factor", 1.0);
  const Noise noise = ReadNoise(problem);
  options.failure_s = noise.costs.failure_s.value_or(options.failure_s);
  Backend backend;
  backend.inputs = {NamedFile(problem.cluster, "file"), path};
  if (noise.file) {
    backend.inputs.push_back(*noise.file);
  }
  backend.warning = table.Warning();
  backend.description =
      fmt::format("measured {} on {} GPUs like {}", table.scenario(),
                  fmt::join(table.sizes(), ", "), cluster.gpu.name);
  backend.gpus = table.gpus();
  if (table.sizes().size() > 1) {
    backend.sizes = table.sizes();
  }
  backend.runs_plans = !table.plans().empty() && backend.sizes.empty();
  backend.price_per_gpu_hour = cluster.gpu.price_per_hour;
  backend.gpus_per_node = std::min(cluster.gpus_per_node, table.gpus());
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(table.configs(), knobs);
  if (!problem.workload.Keys().empty()) {
    backend.workload = trials::ReadWorkload(problem.workload);
  }
  backend.predictions =
      !backend.workload
          ? TablePredictions(problem, *backend.space, table, path,
                             cluster.gpu.architecture)
          : SimulatedPredictions(
                problem, *backend.space, *backend.workload,
                DefaultMachine(WithGpus(cluster, table.gpus()),
                               {NamedFile(problem.workload, "model")}),
                false, backend.sizes);
  if (!backend.workload) {
    backend.described = DescribedJob(problem, *backend.space, table, path);
  }
  backend.trains_workload = false;
  auto replay = std::make_unique<trials::ReplayRunner>(table, options);
  backend.exact = replay.get();
  backend.runner = WithNoise(std::move(replay), noise, problem.noise.Where());
  return backend;
}

}  // namespace harness
