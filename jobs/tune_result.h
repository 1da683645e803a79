// The result of `oppa tune`: the command line to use.

#ifndef JOBS_TUNE_RESULT_H_
#define JOBS_TUNE_RESULT_H_

#include <vector>

#include "jobs/finals.h"
#include "jobs/tune_job.h"

namespace jobs {

// Compares the finalists, prints the fastest with its command line, its
// speed-up over the job as it is and the memory that is left, and writes
// best.sh, best.json and the framework's own files. Returns the exit code: 1 if
// no finalist ran.
[[nodiscard]] int Conclude(TuneJob& job, std::vector<Finalist> finalists);

}  // namespace jobs

#endif  // JOBS_TUNE_RESULT_H_
