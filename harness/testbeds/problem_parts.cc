#include "harness/testbeds/problem_parts.h"

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "harness/spec.h"
#include "trials/data_folder.h"
#include "trials/flop.h"
#include "trials/simulator/framework.h"

namespace harness {

using common::TomlTable;

namespace {

// Why so many GPUs leave a host unfilled; "" if they do not.
std::string UnfilledHosts(const trials::Cluster& cluster, int gpus) {
  return gpus > cluster.gpus_per_node && gpus % cluster.gpus_per_node != 0
             ? fmt::format(
                   "{} GPUs do not fill hosts of {}: use a multiple of {}",
                   gpus, cluster.gpus_per_node, cluster.gpus_per_node)
             : "";
}

// Why the cluster has no part with so many GPUs; "" if it has.
std::string PartProblem(const trials::Cluster& cluster, int gpus) {
  if (gpus > cluster.gpus()) {
    return fmt::format("{} GPUs are more than the {} of {}", gpus,
                       cluster.gpus(), cluster.name);
  }
  return UnfilledHosts(cluster, gpus);
}

// The GPU type that [cluster] gpu_type names.
trials::Cluster ChosenType(const TomlTable& table,
                           const std::vector<trials::Cluster>& gpu_types) {
  const std::string name = table.RequireString("gpu_type");
  std::vector<std::string> known;
  for (const trials::Cluster& gpu_type : gpu_types) {
    if (gpu_type.name == name) {
      return gpu_type;
    }
    known.push_back(gpu_type.name);
  }
  table.Fail(
      "gpu_type",
      fmt::format("no GPU type '{}' in the cluster file{}; known: {}", name,
                  common::DidYouMean(name, known), fmt::join(known, ", ")));
}

trials::Cluster Resized(const TomlTable& table, trials::Cluster cluster) {
  const int gpus = table.RequireIntIn("gpus", 1);
  if (const std::string problem = UnfilledHosts(cluster, gpus);
      !problem.empty()) {
    table.Fail("gpus", problem);
  }
  return trials::WithGpus(std::move(cluster), gpus);
}

}  // namespace

void CheckParts(const TomlTable& space, std::vector<trials::Cluster>& gpu_types,
                trials::SearchSpaceOptions& options) {
  if (!options.gpus.empty() && gpu_types.size() > 1) {
    space.Fail("gpus",
               fmt::format("the cluster has {} GPU types, which are used "
                           "together: choose one, [cluster] gpu_type = \"{}\", "
                           "or remove the list",
                           gpu_types.size(), gpu_types.front().name));
  }
  trials::Cluster& cluster = gpu_types.front();
  for (const int gpus : options.gpus) {
    if (const std::string problem = PartProblem(cluster, gpus);
        !problem.empty()) {
      space.Fail("gpus", problem);
    }
  }
  if (options.gpus.size() == 1) {
    cluster = WithGpus(std::move(cluster), options.gpus.front());
    options.gpus.clear();
  }
}

std::filesystem::path ClusterFileOf(const TomlTable& table) {
  const std::string name = table.RequireString("file");
  if (name.find('/') == std::string::npos && !name.ends_with(".toml")) {
    return trials::FindDataFile("clusters", table, "file");
  }
  return NamedFile(table, "file");
}

std::vector<trials::Cluster> ReadClusters(const TomlTable& table) {
  const std::filesystem::path file = ClusterFileOf(table);
  if (!common::IsFile(file)) {
    table.Fail("file",
               fmt::format("no such cluster file: {} (a path relative to the "
                           "manifest, or a name: {})",
                           file.string(),
                           fmt::join(trials::DataFileNames("clusters"), ", ")));
  }
  std::vector<trials::Cluster> gpu_types = trials::ReadClusters(file);
  if (table.Has("group")) {
    table.Fail("group", "unknown key 'group': it is now called gpu_type");
  }
  if (table.Has("gpu_type")) {
    gpu_types = {ChosenType(table, gpu_types)};
  }
  for (trials::Cluster& gpu_type : gpu_types) {
    trials::ReadChanges(table, gpu_type);
  }
  if (!table.Has("gpus")) {
    return gpu_types;
  }
  try {
    return gpu_types.size() == 1
               ? std::vector{Resized(table, gpu_types.front())}
               : WithGpus(std::move(gpu_types), table.RequireIntIn("gpus", 1));
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    table.Fail("gpus", e.what());
  }
}

trials::Cluster ReadCluster(const TomlTable& table) {
  std::vector<trials::Cluster> gpu_types = ReadClusters(table);
  if (gpu_types.size() > 1) {
    table.Fail("file",
               fmt::format("only the simulator has several GPU types, and "
                           "this cluster has {}: choose one, gpu_type = \"{}\"",
                           gpu_types.size(), gpu_types.front().name));
  }
  return std::move(gpu_types.front());
}

trials::Cluster ReadClusterOrSizes(const TomlTable& table) {
  if (table.Has("file")) {
    return ReadCluster(table);
  }
  trials::Cluster cluster;
  cluster.gpu.name = "devices";
  cluster.nodes = table.GetIntIn("nodes", 1, 1);
  cluster.gpus_per_node = table.RequireIntIn("gpus_per_node", 1);
  if (table.Has("like")) {
    const auto file = trials::FindDataFile("clusters", table, "like");
    cluster = table.At("like", [&] {
      return trials::WithHosts(trials::ReadCluster(file), cluster.nodes,
                               cluster.gpus_per_node);
    });
  }
  cluster.name = "this cluster";
  if (table.Has("gpu")) {
    cluster.gpu = trials::FindGpu(table);
  } else if (table.Has("memory_gib") || !table.Has("like")) {
    using common::kGibi;
    cluster.gpu.memory_bytes = kGibi * table.RequirePositive("memory_gib");
  }
  trials::ReadChanges(table, cluster);
  return cluster;
}

System DefaultSystem(const trials::Cluster& cluster,
                     std::vector<std::filesystem::path> inputs) {
  return {cluster, std::make_shared<trials::Framework>(),
          std::string(kDefaultFramework), std::move(inputs)};
}

std::vector<std::filesystem::path> ProblemFiles(const ProblemSpec& problem) {
  std::vector<std::filesystem::path> files = {
      NamedFile(problem.workload, "model")};
  if (problem.cluster.Has("file")) {
    files.push_back(ClusterFileOf(problem.cluster));
    for (std::filesystem::path& like : trials::GpuTypeFiles(files.back())) {
      files.push_back(std::move(like));
    }
  }
  for (const std::string& name : problem.space.GetStrings("rule_sets")) {
    for (const auto& path : {problem.rules_folder / (name + ".rules"),
                             problem.space.Folder() / name}) {
      if (common::IsFile(path)) {
        files.push_back(path);
      }
    }
  }
  return files;
}

void AddFrameworkRules(const ProblemSpec& problem,
                       const std::filesystem::path& framework,
                       const std::vector<std::string>& names,
                       trials::SearchSpaceOptions& space,
                       std::vector<std::filesystem::path>& inputs) {
  const std::vector<std::string> named = problem.space.GetStrings("rule_sets");
  for (const std::string& name : names) {
    if (common::Contains(named, name)) {
      continue;
    }
    const std::string file = name + ".rules";
    std::filesystem::path path =
        framework.parent_path().parent_path() / "rules" / file;
    if (!common::IsFile(path)) {
      path = trials::ExperimentsFolder() / "rules" / file;
    }
    const std::vector<trials::Rule> rules =
        trials::ReadRuleSet(path, space.knobs);
    // Before the rules of the manifest: what cannot run is no candidate.
    space.rules.insert(space.rules.begin(), rules.begin(), rules.end());
    inputs.push_back(path);
  }
}

Testbed TestbedOn(const trials::Workload& workload,
                  std::span<const trials::Cluster> gpu_types,
                  trials::SearchSpaceOptions space) {
  Testbed testbed;
  testbed.warning = workload.model.note;
  testbed.workload = workload;
  testbed.machine = trials::Machine(gpu_types, space.gpus);
  testbed.valuation = trials::Valuation::Of(gpu_types.front().gpu);
  if (gpu_types.size() == 1) {
    testbed.limits = LimitsOf(workload, gpu_types.front());
  }
  if (testbed.machine.mixed()) {
    // The stages of a configuration fill the types in their order.
    const std::vector<int> gpus = testbed.machine.GpusByType();
    const int divisor =
        std::accumulate(gpus.begin(), gpus.end(), 0, std::gcd<int, int>);
    space.rules.insert(
        space.rules.begin(),
        trials::Rule::Parse(fmt::format("{} % ($dp * $cp * $tp) != 0", divisor),
                            "a stage has one GPU type", "[cluster]"));
  }
  testbed.space = std::make_unique<trials::SearchSpace>(
      trials::SearchSpace::Enumerate(workload, testbed.machine.gpus(), space));
  testbed.Warn(trials::InertLists(space, *testbed.space));
  return testbed;
}

}  // namespace harness
