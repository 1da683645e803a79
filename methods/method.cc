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

bool Suggestion::IsIn(const trials::SearchSpace& space) const {
  return outside || (candidate >= 0 && candidate < space.size());
}

trials::Candidate Suggestion::In(const trials::SearchSpace& space) const {
  return outside ? *outside : trials::Candidate(space[candidate]);
}

std::string Suggestion::LabelIn(const trials::SearchSpace& space) const {
  return In(space).Label(space.knobs());
}

}  // namespace methods
