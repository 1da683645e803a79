#include "methods/method.h"

#include "common/error.h"

namespace methods {

const trials::TrainedJob* DescribedJob(const Problem& problem) {
  return problem.workload == nullptr && problem.described ? problem.described()
                                                          : nullptr;
}

const trials::TrainedJob* JobIfDescribed(const Problem& problem) {
  try {
    return DescribedJob(problem);
  } catch (const common::InputError&) {
    return nullptr;
  }
}

}  // namespace methods
