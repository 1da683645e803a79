// The job that the rows of a measured table train.

#ifndef TRIALS_TRAINED_JOB_H_
#define TRIALS_TRAINED_JOB_H_

#include <filesystem>
#include <vector>

#include "trials/search_space.h"
#include "trials/workload.h"

namespace trials {

// A workload, and the candidates of a table in its order with the settings that
// its columns lack, such as recomputation in every row.
struct TrainedJob {
  Workload workload;
  SearchSpace space;
  std::vector<std::filesystem::path> facts;  // the files that describe it
};

}  // namespace trials

#endif  // TRIALS_TRAINED_JOB_H_
