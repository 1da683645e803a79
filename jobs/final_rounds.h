// The rounds of repeated measurements at the end of a search.

#ifndef JOBS_FINAL_ROUNDS_H_
#define JOBS_FINAL_ROUNDS_H_

#include <vector>

#include "jobs/finals.h"
#include "jobs/tune_job.h"

namespace jobs {

// Runs the best `count` configurations of the search and the job as it is once
// in each round, as long as they contend, so that a drift of the machine meets
// all of them. Prints each run. What finals.json has of an interrupted call is
// not measured again. After a stop signal, returns what has been measured.
[[nodiscard]] std::vector<Finalist> MeasureFinalists(TuneJob& job, int count);

}  // namespace jobs

#endif  // JOBS_FINAL_ROUNDS_H_
