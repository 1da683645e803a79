// The machine of a job: how many GPUs it has, which, and the links between
// them.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trials/cluster.h"

namespace jobs {

// Nodes with the same number of GPUs each.
struct MachineSize {
  int nodes = 1;          // >= 1
  int gpus_per_node = 8;  // >= 1

  [[nodiscard]] int gpus() const { return nodes * gpus_per_node; }
  friend bool operator==(const MachineSize&, const MachineSize&) = default;
};

// The GPUs that a node has at most, and those of one of its trays
// (trials::Cluster::gpus_per_tray).
struct NodeSize {
  int gpus = 8;
  int gpus_per_tray = 0;
};

// "2x8": 2 nodes of 8 GPUs. "16": 16 GPUs in nodes of `node`; fewer GPUs than
// that are one node. Of racks with trays any part can be used: "256" is 4 nodes
// of 64, the most of 72 that divide it, and so is "64x4", the trays. "8..1024":
// the first size and its doubles up to the last. "2,4x8": several sizes.
// Errors: throws InputError that names --gpus for other text, for GPUs that do
// not fill their nodes, and for more than 65536 GPUs.
[[nodiscard]] std::vector<MachineSize> ParseMachineSizes(
    const std::string& text, const NodeSize& node);

// "16 GPUs (2 nodes of 8)"
[[nodiscard]] std::string ToString(const MachineSize& size);

struct MachineOptions {
  std::string gpu;      // a name or alias: "h100"
  std::string cluster;  // a file, or a name in experiments/clusters; may be ""
  // Overrides of the cluster's links; 0: as they are.
  double intra_gb_per_s = 0.0;  // between GPUs of a node, per GPU and direction
  double inter_gb_per_s = 0.0;  // of a network card, per direction
};

// A node of the usual design for this GPU (experiments/machines/machines.toml),
// or that of a cluster file. With both, the file has the links.
// Errors: throws InputError for an unknown name, with the nearest and all known
// ones, and if neither a GPU nor a cluster is given.
[[nodiscard]] trials::Cluster FindMachine(const MachineOptions& options);

// trials::WithHosts, with this many network cards of a node if it is above 0.
// Errors: throws InputError where that throws, with the remedy.
[[nodiscard]] trials::Cluster WithSize(trials::Cluster node,
                                       const MachineSize& size,
                                       int nics_per_node = 0);

// The devices of this machine, as far as they can be detected.
struct Machine {
  MachineSize size;
  double memory_gib = 0.0;  // of a device
  std::string source;       // where the sizes come from, for display
  std::string product;      // the name of the GPU; "" on a CPU
};

// From the first source that says something: Slurm's variables for the nodes;
// nvidia-smi for the GPUs of a node and their memory; otherwise the CPU, with
// as many ranks as `command` gives torchrun (--nproc-per-node), else `ranks`
// (0: one), which share the memory.
[[nodiscard]] Machine DetectMachine(const std::vector<std::string>& command,
                                    int ranks = 0);

// The lines of `nvidia-smi --query-gpu=name,memory.total
// --format=csv,noheader,nounits`: the number of GPUs and the least memory. A
// size of 0 GPUs if there are none.
[[nodiscard]] Machine ParseNvidiaSmi(const std::string& output);

// The cluster that predictions are for, a name of experiments/clusters: the
// usual one of the GPU, or, for an unknown GPU or number of hosts, another one.
struct Likeness {
  std::string cluster;
  std::string note;  // for the manifest; may be empty
};

// Nothing if the simulator has no cluster for the devices.
[[nodiscard]] std::optional<Likeness> LikenessOf(const Machine& machine);

}  // namespace jobs
