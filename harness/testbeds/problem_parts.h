// What the testbeds of a problem have in common: its cluster, its input files,
// and a testbed without its runner.

#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/predictions/predictions.h"
#include "harness/testbed.h"
#include "trials/cluster.h"
#include "trials/search_space.h"
#include "trials/workload.h"

namespace harness {

// The framework of a simulator whose manifest names none.
inline constexpr std::string_view kDefaultFramework = "colossalai";

// The file of [cluster]: a path relative to the manifest, or a name in
// experiments/clusters.
[[nodiscard]] std::filesystem::path ClusterFileOf(
    const common::TomlTable& table);

// The cluster that [cluster] names: file = "clusters/a5000-8.toml". With
// gpus = 32, it has as many of the file's hosts as that takes. Of a file with
// several GPU types, gpu_type = "h100" chooses one.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] trials::Cluster ReadCluster(const common::TomlTable& table);
// The cluster of each GPU type that [cluster] names.
[[nodiscard]] std::vector<trials::Cluster> ReadClusters(
    const common::TomlTable& table);

// The same, or without a file a cluster of which the manifest has the sizes:
// nodes, gpus_per_node, and gpu or memory_gib. With like = "h100-infiniband",
// its links and GPU are those of that cluster file, so that it can be
// simulated. Errors: throws InputError with the place in the manifest.
[[nodiscard]] trials::Cluster ReadClusterOrSizes(
    const common::TomlTable& table);

// The machine of a problem whose framework is not known. `inputs`: files that
// its predictions depend on and its trials do not.
[[nodiscard]] System DefaultSystem(
    const trials::Cluster& cluster,
    std::vector<std::filesystem::path> inputs = {});

// The files of [workload], [cluster] and [space].
[[nodiscard]] std::vector<std::filesystem::path> ProblemFiles(
    const ProblemSpec& problem);

// Adds the rule sets `names` of a framework to the space, except those that the
// manifest names, and their files to `inputs`. They are in the folder rules/
// next to that of the framework's file, or in the project's.
void AddFrameworkRules(const ProblemSpec& problem,
                       const std::filesystem::path& framework,
                       const std::vector<std::string>& names,
                       trials::SearchSpaceOptions& space,
                       std::vector<std::filesystem::path>& inputs);

// Checks the numbers of GPUs of a space, each a part of the cluster that fills
// its hosts. A single one becomes the size of the cluster. Only a cluster with
// one GPU type has parts.
// Errors: throws InputError with the place of the list.
void CheckParts(const common::TomlTable& space,
                std::vector<trials::Cluster>& gpu_types,
                trials::SearchSpaceOptions& options);

// A testbed that trains the workload on the whole cluster, without its runner.
// With several GPU types, each stage of its configurations has one of them.
[[nodiscard]] Testbed TestbedOn(const trials::Workload& workload,
                                std::span<const trials::Cluster> gpu_types,
                                trials::SearchSpaceOptions space);

}  // namespace harness
