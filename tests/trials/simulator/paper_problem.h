// The problems of the experiments, for tests of the simulator.

#pragma once

#include <filesystem>
#include <string>

#include "common/toml_table.h"
#include "tests/fakes/paths.h"
#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/simulator/simulator.h"
#include "trials/workload.h"

namespace trials {

// experiments/NAME.toml without its methods and budget.
struct PaperProblem {
  explicit PaperProblem(const std::string& name) {
    const std::filesystem::path folder = fakes::SourceFolder() / "experiments";
    const common::TomlTable manifest =
        common::TomlTable::ParseFile(folder / (name + ".toml"));
    workload = ReadWorkload(manifest.RequireTable("workload"));
    cluster = ReadCluster(
        folder / manifest.RequireTable("cluster").RequireString("file"));
    options =
        ReadSearchSpaceOptions(manifest.GetTable("space"), folder / "rules");
  }

  [[nodiscard]] StepReport Simulate(const ParallelConfig& config) const {
    return Simulator(workload, cluster).Simulate(config);
  }
  [[nodiscard]] double StepTime(const ParallelConfig& config) const {
    return Simulate(config).step_time_s;
  }
  [[nodiscard]] SearchSpace Space() const {
    return SearchSpace::Enumerate(workload, cluster.gpus(), options);
  }

  Workload workload;
  Cluster cluster;
  SearchSpaceOptions options;
};

}  // namespace trials
