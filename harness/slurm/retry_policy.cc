#include "harness/slurm/retry_policy.h"

#include <algorithm>
#include <cstddef>

namespace harness {
namespace {

constexpr std::size_t kMostExclusions = 8;

JobFailure Diagnose(const JobEvidence& evidence) {
  using State = SlurmAttempt::State;
  const JobEnd end = evidence.entry ? evidence.entry->End() : JobEnd::kOther;
  const State own =
      evidence.attempt ? evidence.attempt->state : State::kRunning;
  if (end == JobEnd::kCancelled) {
    return JobFailure::kCancelled;
  }
  if (own == State::kRefused) {
    return JobFailure::kRefused;
  }
  if (end == JobEnd::kHostMemory) {
    return JobFailure::kHostMemory;
  }
  if (end == JobEnd::kTimeLimit) {
    return JobFailure::kTimeLimit;
  }
  if (end != JobEnd::kMachine && own == State::kTimeLimit) {
    return JobFailure::kTimeLimit;
  }
  if (end != JobEnd::kMachine && own == State::kStopped) {
    return JobFailure::kStopped;
  }
  if (evidence.entry && evidence.entry->IsStuck() &&
      !evidence.entry->IsLaunchFailedHold()) {
    return JobFailure::kCannotStart;
  }
  if (evidence.excludes_nodes && evidence.entry &&
      evidence.entry->WaitsForNodes()) {
    return JobFailure::kExcludedNodes;
  }
  return JobFailure::kMachine;
}

}  // namespace

JobVerdict DecideRetry(const SlurmOptions& options,
                       const JobEvidence& evidence) {
  const JobFailure failure = Diagnose(evidence);
  switch (failure) {
    case JobFailure::kCancelled:
      return {failure, JobAction::kGiveUp, "cancelled"};
    case JobFailure::kRefused:
    case JobFailure::kStopped:
      return {failure, JobAction::kGiveUp, evidence.attempt->message};
    case JobFailure::kHostMemory:
      return {failure, JobAction::kGiveUp, evidence.entry->Explain()};
    case JobFailure::kCannotStart:
      return {failure, JobAction::kGiveUp, evidence.detail};
    case JobFailure::kTimeLimit:
      if (!options.requeue_until_done) {
        return {failure, JobAction::kGiveUp,
                "time limit; rerun `oppa run` to resume, or set "
                "requeue_until_done"};
      }
      if (!evidence.progressed) {
        return {failure, JobAction::kGiveUp,
                "time limit, and not one trial fitted into it"};
      }
      return {failure, JobAction::kContinue, "time limit"};
    case JobFailure::kExcludedNodes:
      return {failure, JobAction::kRetryAnywhere, evidence.detail};
    case JobFailure::kMachine:
      break;
  }
  if (evidence.failures >= options.retries) {
    return {failure, JobAction::kGiveUp,
            fmt::format("{}; tried {} times", evidence.detail,
                        evidence.failures + 1)};
  }
  return {failure, JobAction::kRetryOnOtherNodes, evidence.detail};
}

std::vector<std::string> ExtendExclusions(std::vector<std::string> excluded,
                                          const std::string& node) {
  // Slurm also writes "n[1-4]", "(null)" and nothing.
  const bool is_one =
      !node.empty() && std::all_of(node.begin(), node.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
      });
  if (is_one &&
      std::find(excluded.begin(), excluded.end(), node) == excluded.end()) {
    excluded.push_back(node);
    std::sort(excluded.begin(), excluded.end());
  }
  if (excluded.size() > kMostExclusions) {
    excluded.clear();
  }
  return excluded;
}

}  // namespace harness
