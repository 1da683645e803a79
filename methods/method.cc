#include "methods/method.h"

#include "common/error.h"

namespace methods {

const trials::TrainedJob* JobIfDescribed(const Problem& problem) {
  if (problem.workload != nullptr || !problem.described) {
    return nullptr;
  }
  try {
    return problem.described();
  } catch (const common::InputError&) {
    return nullptr;
  }
}

}  // namespace methods
