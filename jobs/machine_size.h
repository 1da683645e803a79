// How many GPUs a job has: nodes with the same number of GPUs each.

#ifndef JOBS_MACHINE_SIZE_H_
#define JOBS_MACHINE_SIZE_H_

#include <string>
#include <vector>

namespace jobs {

struct MachineSize {
  int nodes = 1;          // >= 1
  int gpus_per_node = 8;  // >= 1

  [[nodiscard]] int gpus() const { return nodes * gpus_per_node; }
  friend bool operator==(const MachineSize&, const MachineSize&) = default;
};

// "2x8": 2 nodes of 8 GPUs. "16": 16 GPUs in nodes of `gpus_per_node`; fewer
// GPUs than that are one node. "8..1024": the first size and its doubles up to
// the last. "2,4x8": several sizes.
// Errors: throws InputError for other text, for GPUs that do not fill their
// nodes, and for more than 65536 GPUs.
[[nodiscard]] std::vector<MachineSize> ParseMachineSizes(
    const std::string& text, int gpus_per_node);

// "16 GPUs (2 nodes of 8)"
[[nodiscard]] std::string ToString(const MachineSize& size);

}  // namespace jobs

#endif  // JOBS_MACHINE_SIZE_H_
