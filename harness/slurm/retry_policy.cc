#include "harness/slurm/retry_policy.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/ranges.h"

namespace harness {
namespace {

constexpr std::size_t kMostExclusions = 8;

JobVerdict GiveUp(std::string reason) {
  return {JobAction::kGiveUp, std::move(reason)};
}

JobVerdict AtTimeLimit(const SlurmOptions& options, bool progressed) {
  if (!options.requeue_until_done) {
    return GiveUp(
        "time limit; rerun `oppa run` to resume, or set "
        "requeue_until_done");
  }
  if (!progressed) {
    return GiveUp("time limit, and not one trial fitted into it");
  }
  return {JobAction::kContinue, "time limit"};
}

}  // namespace

JobVerdict DecideRetry(const SlurmOptions& options,
                       const JobEvidence& evidence) {
  using State = SlurmAttempt::State;
  const auto& [known, attempt, detail, failures, excludes_nodes, progressed] =
      evidence;
  const QueueEntry entry = known.value_or(QueueEntry{});
  const JobEnd end = entry.End();  // kOther where Slurm does not know the job
  const State own = attempt ? attempt->state : State::kRunning;
  if (end == JobEnd::kCancelled) {
    return GiveUp("cancelled");
  }
  if (own == State::kRefused) {
    return GiveUp(attempt->message);
  }
  if (end == JobEnd::kHostMemory) {
    return GiveUp(entry.Explain());
  }
  // A preempted job gets a signal, too, and stops in an orderly way.
  if (end == JobEnd::kTimeLimit ||
      (end != JobEnd::kMachine && own == State::kTimeLimit)) {
    return AtTimeLimit(options, progressed);
  }
  if (end != JobEnd::kMachine && own == State::kStopped) {
    return GiveUp(attempt->message);
  }
  if (entry.IsStuck() && !entry.IsLaunchFailedHold()) {
    return GiveUp(detail);
  }
  if (excludes_nodes && entry.WaitsForNodes()) {
    return {JobAction::kRetryAnywhere, detail};
  }
  if (failures >= options.retries) {
    return GiveUp(fmt::format("{}; tried {} times", detail, failures + 1));
  }
  return {JobAction::kRetryOnOtherNodes, detail};
}

std::vector<std::string> ExtendExclusions(std::vector<std::string> excluded,
                                          const std::string& node) {
  // Slurm also writes "n[1-4]", "(null)" and nothing.
  const bool is_one = !node.empty() && std::ranges::all_of(node, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  });
  if (is_one && !common::Contains(excluded, node)) {
    excluded.push_back(node);
    std::ranges::sort(excluded);
  }
  if (excluded.size() > kMostExclusions) {
    excluded.clear();
  }
  return excluded;
}

}  // namespace harness
