#include "harness/problem_parts.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "trials/simulator/framework.h"

namespace harness {

using common::TomlTable;

std::filesystem::path NamedFile(const TomlTable& table, std::string_view key) {
  return table.Folder() / table.RequireString(key);
}

trials::Cluster ReadCluster(const TomlTable& table) {
  const std::filesystem::path file = NamedFile(table, "file");
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    table.Fail("file",
               fmt::format("no such cluster file: {} (paths are relative to "
                           "the manifest)",
                           file.string()));
  }
  trials::Cluster cluster = trials::ReadCluster(file);
  if (table.Has("gpus")) {
    const int gpus = table.RequireIntIn("gpus", 1);
    if (gpus > cluster.gpus_per_node && gpus % cluster.gpus_per_node != 0) {
      table.Fail("gpus",
                 fmt::format("{} GPUs do not fill hosts of {}: use a multiple "
                             "of {}",
                             gpus,
                             cluster.gpus_per_node,
                             cluster.gpus_per_node));
    }
    try {
      return trials::WithGpus(std::move(cluster), gpus);
    } catch (const std::invalid_argument& e) {
      table.Fail("gpus", e.what());
    }
  }
  return cluster;
}

Machine DefaultMachine(const trials::Cluster& cluster,
                       std::vector<std::filesystem::path> inputs) {
  return {cluster,
          std::make_shared<trials::Framework>(),
          std::string(kDefaultFramework),
          std::move(inputs)};
}

std::vector<std::filesystem::path> ProblemFiles(const ProblemSpec& problem) {
  std::vector<std::filesystem::path> files = {
      NamedFile(problem.workload, "model"), NamedFile(problem.cluster, "file")};
  for (const std::string& name : problem.space.GetStrings("rule_sets")) {
    for (const auto& path : {problem.rules_folder / (name + ".rules"),
                             problem.space.Folder() / name}) {
      std::error_code error;
      if (std::filesystem::is_regular_file(path, error)) {
        files.push_back(path);
      }
    }
  }
  return files;
}

Backend BackendOn(const trials::Workload& workload,
                  const trials::Cluster& cluster,
                  const trials::SearchSpaceOptions& space) {
  Backend backend;
  backend.warning = workload.model.note;
  backend.gpus = cluster.gpus();
  backend.gpus_per_node = cluster.gpus_per_node;
  backend.memory_capacity_bytes = cluster.gpu.memory_bytes;
  backend.space = std::make_unique<trials::SearchSpace>(
      trials::SearchSpace::Enumerate(workload, cluster.gpus(), space));
  return backend;
}

}  // namespace harness
