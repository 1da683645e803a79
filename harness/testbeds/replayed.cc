#include "harness/testbeds/replayed.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/predictions/predictions.h"
#include "harness/spec.h"
#include "harness/testbeds/noise.h"
#include "harness/testbeds/problem_parts.h"
#include "trials/custom_knobs.h"
#include "trials/data_folder.h"
#include "trials/tables/replay_runner.h"
#include "trials/tables/replay_table.h"

namespace harness {
namespace {

// Errors: throws InputError for a peak that the GPU cannot have.
void CheckPeaks(const std::filesystem::path& path,
                const trials::ReplayTable& table, const trials::Gpu& gpu) {
  constexpr double kSlack = 1.05;  // of what a GPU is said to have
  for (const trials::ReplayRow& row : table.rows()) {
    const double peak = row.peak_memory_bytes.value_or(0.0);
    if (peak > kSlack * gpu.memory_bytes) {
      throw common::InputError(fmt::format(
          "{}:{}: a peak of {:.4g} GB ran, and {} has {:.4g} GB: "
          "peak_memory_gb is in GB (1e9 bytes), or [cluster] is another GPU",
          path.string(), row.line, peak / 1e9, gpu.name,
          gpu.memory_bytes / 1e9));
    }
  }
}

}  // namespace

Testbed MakeReplay(const ProblemSpec& problem) {
  const trials::Cluster cluster = ReadCluster(problem.cluster);
  const common::TomlTable& backend = problem.backend;
  const std::filesystem::path path = backend.At("table", [&backend] {
    return trials::ResolveTablePath(backend.RequireString("table"),
                                    backend.Folder());
  });
  const trials::KnobSet knobs = trials::ReadCustomKnobs(problem.space);
  const trials::ReplayTable table = backend.At("scenarios", [&] {
    return trials::ReplayTable::Read(
        path, backend.RequireString("scenarios"), knobs,
        {problem.workload.GetDouble("batch_size", 0.0),
         problem.workload.GetDouble("sequence_length", 0.0)});
  });
  CheckPeaks(path, table, cluster.gpu);
  trials::ReplayRunner::Options options;
  options.setup_s = backend.GetNotNegative("setup_s", options.setup_s) *
                    backend.GetNotNegative("setup_factor", 1.0);
  const Noise noise = ReadNoise(problem);
  options.failure_s = noise.costs.failure_s.value_or(options.failure_s);
  Testbed testbed;
  testbed.inputs = {ClusterFileOf(problem.cluster), path};
  if (noise.file) {
    testbed.inputs.push_back(*noise.file);
  }
  testbed.warning = table.Warning();
  testbed.description =
      fmt::format("measured {} on {} GPUs like {}", table.scenario(),
                  fmt::join(table.sizes(), ", "), cluster.gpu.name);
  testbed.machine = {
      {.name = cluster.name,
       .gpus = table.gpus(),
       .gpus_per_node = std::min(cluster.gpus_per_node, table.gpus()),
       .memory_bytes = cluster.gpu.memory_bytes,
       .half_flop_per_s = cluster.gpu.half_flop_per_s},
      table.sizes()};
  testbed.runs_plans = !table.plans().empty();
  testbed.valuation = trials::Valuation::Of(cluster.gpu);
  testbed.space = std::make_unique<trials::SearchSpace>(table.configs(), knobs);
  if (!problem.workload.Keys().empty()) {
    testbed.workload = trials::ReadWorkload(problem.workload);
  }
  if (testbed.workload) {
    testbed.predicted = {
        *testbed.workload,
        {DefaultSystem(WithGpus(cluster, table.gpus()),
                       {NamedFile(problem.workload, "model")})}};
  } else {
    testbed.predictions = TablePredictions(problem, *testbed.space, table, path,
                                           cluster.gpu.architecture);
    testbed.described = DescribedJob(problem, *testbed.space, table, path);
  }
  testbed.trains_workload = false;
  auto replay = std::make_unique<trials::ReplayRunner>(table, options);
  testbed.exact = replay.get();
  testbed.runner = WithNoise(std::move(replay), noise, problem.noise.Where());
  return testbed;
}

}  // namespace harness
