// The devices of this machine, as far as they can be detected.

#ifndef JOBS_MACHINE_DETECTION_H_
#define JOBS_MACHINE_DETECTION_H_

#include <string>
#include <vector>

#include "jobs/machine_size.h"

namespace jobs {

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

}  // namespace jobs

#endif  // JOBS_MACHINE_DETECTION_H_
