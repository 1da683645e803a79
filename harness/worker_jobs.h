// The runs of an experiment as jobs for a dispatcher.

#ifndef HARNESS_WORKER_JOBS_H_
#define HARNESS_WORKER_JOBS_H_

#include <filesystem>
#include <vector>

#include "harness/dispatcher.h"
#include "harness/manifest.h"
#include "harness/plan.h"
#include "harness/verbs.h"

namespace harness {

// A job for each run that is not done: a process of this program (`run-one`)
// with its log in the run's folder. Ids are indices into `runs`; `folder` is
// the experiment's.
[[nodiscard]] std::vector<Job> MissingJobs(const VerbOptions& options,
                                           const std::vector<RunSpec>& runs,
                                           const std::filesystem::path& folder);

}  // namespace harness

#endif  // HARNESS_WORKER_JOBS_H_
