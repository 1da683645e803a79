#include "jobs/machine_presets.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace jobs {
namespace {

using common::InputError;

// The name of the GPU's file and of its usual cluster.
struct Usual {
  std::string gpu;
  std::string cluster;
};

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

Usual FindUsual(const std::string& name) {
  const common::TomlTable table = common::TomlTable::ParseFile(
      trials::ExperimentsFolder() / "machines" / "machines.toml");
  std::vector<std::string> known;
  std::string list;
  const std::string wanted = Lower(name);
  for (const std::string& gpu : table.Keys()) {
    const common::TomlTable entry = table.GetTable(gpu);
    const std::vector<std::string> aliases = entry.GetStrings("aliases");
    if (wanted == gpu ||
        std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return {gpu, entry.RequireString("cluster")};
    }
    known.push_back(gpu);
    known.insert(known.end(), aliases.begin(), aliases.end());
    list += (list.empty() ? "" : ", ") + gpu;
  }
  throw InputError(
      fmt::format("--gpu {}: unknown GPU{}; known: {}; or describe it in a "
                  "cluster file (--cluster)",
                  name,
                  common::DidYouMean(wanted, known),
                  list));
}

}  // namespace

trials::Cluster FindMachine(const MachineOptions& options) {
  if (options.gpu.empty() && options.cluster.empty()) {
    throw InputError("give --gpu NAME, such as h100, or --cluster FILE");
  }
  Usual usual;
  if (!options.gpu.empty()) {
    usual = FindUsual(options.gpu);
  }
  const std::string& name =
      options.cluster.empty() ? usual.cluster : options.cluster;
  trials::Cluster node =
      trials::ReadCluster(trials::FindDataFile("clusters", name));
  if (!usual.gpu.empty()) {
    node.gpu = trials::FindGpu(usual.gpu);
  }
  if (options.intra_gb_per_s > 0.0) {
    node.intra.bandwidth_bytes_per_s = options.intra_gb_per_s * 1e9;
    node.intra.name = "given link";
  }
  if (options.inter_gb_per_s > 0.0) {
    node.inter.bandwidth_bytes_per_s = options.inter_gb_per_s * 1e9;
    node.inter.name = "given network";
    constexpr double kUsualLatency = 1e-5;  // seconds
    if (node.inter.latency_s == 0.0) {
      node.inter.latency_s = kUsualLatency;
    }
  }
  if (options.nics_per_node > 0) {
    node.nics_per_node = options.nics_per_node;
  }
  return node;
}

trials::Cluster WithSize(trials::Cluster node, const MachineSize& size) {
  if (size.nodes > 1 && node.inter.bandwidth_bytes_per_s == 0.0) {
    throw InputError(
        fmt::format("the machine '{}' has no network between nodes; give its "
                    "bandwidth with --inter GB/s",
                    node.name));
  }
  const std::size_t linked = node.rings.empty() ? 0 : node.rings.size() + 1;
  if (linked > 0 && static_cast<std::size_t>(size.gpus_per_node) > linked) {
    throw InputError(fmt::format(
        "a node of '{}' has links for {} GPUs, not {}; write NODESxGPUS",
        node.name,
        linked,
        size.gpus_per_node));
  }
  node.nodes = size.nodes;
  node.gpus_per_node = size.gpus_per_node;
  return node;
}

}  // namespace jobs
