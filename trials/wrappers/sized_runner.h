// Trials on parts of a cluster.

#ifndef TRIALS_WRAPPERS_SIZED_RUNNER_H_
#define TRIALS_WRAPPERS_SIZED_RUNNER_H_

#include <map>
#include <memory>
#include <optional>

#include "trials/trial_runner.h"

namespace trials {

// Runs each configuration with the runner for its number of GPUs. One of
// another number goes to the runner of the largest, which rejects it.
class SizedRunner final : public TrialRunner {
 public:
  // By number of GPUs; not empty.
  explicit SizedRunner(std::map<int, std::unique_ptr<TrialRunner>> runners);

  // Errors: throws std::logic_error for a plan.
  [[nodiscard]] Measurement Run(const TrialRequest& request) override;
  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  [[nodiscard]] TrialRunner& RunnerOf(const ParallelConfig& config) const;

  std::map<int, std::unique_ptr<TrialRunner>> runners_;
};

}  // namespace trials

#endif  // TRIALS_WRAPPERS_SIZED_RUNNER_H_
