#include "trials/wrappers/sized_runner.h"

#include <stdexcept>
#include <utility>

#include "trials/objective.h"

namespace trials {

SizedRunner::SizedRunner(std::map<int, std::unique_ptr<TrialRunner>> runners)
    : runners_(std::move(runners)) {
  if (runners_.empty()) {
    throw std::invalid_argument("SizedRunner: no runners");
  }
}

TrialRunner& SizedRunner::RunnerOf(const ParallelConfig& config) const {
  const auto found = runners_.find(GpusOf(config));
  return found == runners_.end() ? *runners_.rbegin()->second : *found->second;
}

Measurement SizedRunner::Run(const TrialRequest& request) {
  RejectPlan(request, "parts of a cluster");
  return RunnerOf(request.candidate.config()).Run(request);
}

std::optional<double> SizedRunner::ExactThroughput(
    const Candidate& candidate) const {
  return candidate.IsPlan()
             ? std::nullopt
             : RunnerOf(candidate.config()).ExactThroughput(candidate);
}

}  // namespace trials
