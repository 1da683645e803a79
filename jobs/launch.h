// The command line of a framework for a planned configuration.

#ifndef JOBS_LAUNCH_H_
#define JOBS_LAUNCH_H_

#include <optional>
#include <string>

#include "jobs/job.h"
#include "trials/parallel_config.h"
#include "trials/programs/adapter.h"

namespace jobs {

// The adapter of this name, or the last by name of those whose framework has
// it; nothing if there is none.
[[nodiscard]] std::optional<trials::Adapter> FindAdapter(
    const std::string& name);

// The usual command of the adapter's framework with this configuration, and the
// keys of the framework's own file, if it has one. "" without an adapter.
[[nodiscard]] std::string LaunchText(const Job& job,
                                     const trials::ParallelConfig& config);

}  // namespace jobs

#endif  // JOBS_LAUNCH_H_
