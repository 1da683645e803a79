// The command and the files that train the model of a job with one
// configuration.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

#include "common/json.h"
#include "jobs/job.h"
#include "trials/adapters/adapter.h"
#include "trials/parallel_config.h"

namespace jobs {

// The usual command of the adapter's framework, its files (below `folder`) and
// what the user has to know. Nothing without an adapter.
[[nodiscard]] std::optional<trials::RenderedJob> RenderLaunch(
    const Job& job, const trials::ParallelConfig& config,
    const std::filesystem::path& folder = {});

// The launch as text, its command in lines of at most `columns`, or in one; ""
// without an adapter.
[[nodiscard]] std::string LaunchText(const Job& job,
                                     const trials::ParallelConfig& config,
                                     std::size_t columns = 0);
// {"command": ..., "files": {name: content}, "notes": [...], "refusal": ""}
[[nodiscard]] common::Json LaunchJson(const Job& job,
                                      const trials::ParallelConfig& config);

// Where to write a job.
struct LaunchFolder {
  std::filesystem::path path;
  bool slurm = false;      // a batch script, else one to start on every node
  bool k8s = false;        // a TrainJob of Kubernetes, see TrainJobText
  std::string queue = {};  // of that
  bool force = false;      // replace files with another content
};

// Writes the script that starts the job (launch.sh, job.sbatch or
// trainjob.yaml) and the files of the framework. Returns a line for each.
// Errors: throws InputError for a framework without an adapter or that cannot
// train the model and, before anything is written, for a file that exists with
// another content.
[[nodiscard]] std::string WriteLaunch(const Job& job,
                                      const trials::ParallelConfig& config,
                                      const LaunchFolder& folder);

}  // namespace jobs
