// The runs of an experiment as jobs for a dispatcher.

#ifndef CLI_WORKER_JOBS_H_
#define CLI_WORKER_JOBS_H_

#include <filesystem>
#include <vector>

#include "cli/verb_options.h"
#include "harness/dispatcher.h"
#include "harness/manifest/manifest.h"
#include "harness/records/inputs.h"
#include "harness/run_matrix.h"

namespace cli {

// A job for each run that is not finished according to `recorded` (as
// RecordedRuns): a process of this program (`run-one`) with its log in the
// run's folder. Ids are indices into `runs`; `folder` is the experiment's.
[[nodiscard]] std::vector<harness::Job> MissingJobs(
    const VerbOptions& options, const std::vector<harness::RunSpec>& runs,
    const std::vector<harness::RecordedRun>& recorded,
    const std::filesystem::path& folder);

}  // namespace cli

#endif  // CLI_WORKER_JOBS_H_
