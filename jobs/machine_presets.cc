#include "jobs/machine_presets.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "trials/data_folder.h"

namespace jobs {
namespace {

using common::InputError;

// A GPU of machines.toml.
struct Usual {
  std::string gpu;                 // the name of its file
  std::vector<std::string> names;  // that and its aliases
  std::string cluster;             // its usual host
};

// The words of a name, in lower case: {"a100", "80gb", "pcie"} of
// "A100 80GB-PCIe".
std::vector<std::string> Words(const std::string& name) {
  std::vector<std::string> words(1);
  for (const char c : common::Lower(name)) {
    if (c != ' ' && c != '-') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

std::vector<Usual> AllUsual() {
  const common::TomlTable table = common::TomlTable::ParseFile(
      trials::ExperimentsFolder() / "machines" / "machines.toml");
  std::vector<Usual> all;
  for (const std::string& gpu : table.Keys()) {
    const common::TomlTable entry = table.GetTable(gpu);
    Usual usual{gpu, entry.GetStrings("aliases"),
                entry.RequireString("cluster")};
    usual.names.insert(usual.names.begin(), gpu);
    all.push_back(std::move(usual));
  }
  return all;
}

Usual FindUsual(const std::string& name) {
  std::vector<std::string> known;
  std::vector<std::string> files;
  const std::string wanted = common::Lower(name);
  for (const Usual& usual : AllUsual()) {
    if (std::find(usual.names.begin(), usual.names.end(), wanted) !=
        usual.names.end()) {
      return usual;
    }
    known.insert(known.end(), usual.names.begin(), usual.names.end());
    files.push_back(usual.gpu);
  }
  throw InputError(fmt::format(
      "--gpu {}: unknown GPU{}; known: {}; or describe it in a "
      "cluster file (--cluster)",
      name, common::DidYouMean(wanted, known), fmt::join(files, ", ")));
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
  return node;
}

trials::Cluster WithSize(trials::Cluster node, const MachineSize& size,
                         int nics_per_node) {
  try {
    trials::Cluster cluster =
        trials::WithHosts(std::move(node), size.nodes, size.gpus_per_node);
    if (nics_per_node > 0) {
      cluster.nics_per_node = nics_per_node;
    }
    return cluster;
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format(
        "{}; write NODESxGPUS, or give the bandwidth of a network with --inter "
        "GB/s",
        e.what()));
  }
}

std::optional<std::string> UsualCluster(const std::string& product) {
  const std::vector<std::string> words = Words(product);
  std::optional<std::string> cluster;
  std::size_t most = 0;
  for (const Usual& usual : AllUsual()) {
    for (const std::string& name : usual.names) {
      const std::vector<std::string> parts = Words(name);
      const bool named =
          std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
            return std::find(words.begin(), words.end(), part) != words.end();
          });
      if (named && parts.size() > most) {
        most = parts.size();
        cluster = usual.cluster;
      }
    }
  }
  return cluster;
}

}  // namespace jobs
