// The machine of a job, from the name of its GPU.

#ifndef JOBS_MACHINE_PRESETS_H_
#define JOBS_MACHINE_PRESETS_H_

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "jobs/machine_size.h"
#include "trials/cluster.h"

namespace jobs {

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

// The name of the usual cluster of a product, such as "NVIDIA H100 80GB HBM3"
// (nvidia-smi): of the GPUs of machines.toml all words of whose name or alias
// occur in it, the one with the most words. Nothing if there is none.
[[nodiscard]] std::optional<std::string> UsualCluster(
    const std::string& product);

}  // namespace jobs

#endif  // JOBS_MACHINE_PRESETS_H_
