// Where the trials of a job run: on this machine, in allocations of Slurm, or
// over ssh on the hosts of a file.

#pragma once

#include <string>
#include <vector>

#include "jobs/tune/manifest_draft.h"

namespace jobs {

struct NodeOptions {
  std::string slurm;     // "search": a job for all trials; "trial": for each
  std::string sbatch;    // options of sbatch: "--partition=a100 --time=60"
  std::string hostfile;  // relative to the folder in which it is typed
};

// The command line for one of several nodes: torchrun without a rendezvous gets
// one at {master_addr}.
[[nodiscard]] std::vector<std::string> OnNodes(std::vector<std::string> words);

// The line of [backend] by which srun starts the command on the nodes; an empty
// one on one node and for a command that starts its ranks itself.
[[nodiscard]] ManifestLine RanksLine(const std::vector<std::string>& words,
                                     int nodes);

// The table [slurm]; without a header where no option is of Slurm. With `cpus`
// > 0, jobs get so many cores of a node and no GPUs.
// Errors: throws InputError for what is not an option of sbatch.
[[nodiscard]] ManifestSection SlurmSection(const NodeOptions& options,
                                           int cpus);

}  // namespace jobs
