// Enforces TrialRequest::time_limit_s on backends with a virtual clock.

#pragma once

#include <memory>

#include "trials/trial_runner.h"

namespace trials {

// Cuts a trial at its time limit: only steps that end within the limit are kept
// and shown to on_step; a trial that would continue is kTimedOut and costs
// exactly the limit (set-up alone beyond the limit: no steps). Without a whole
// step its peak memory is unknown. A trial that finished its steps but not its
// tear-down counts as finished and costs the limit. A failure (out of memory)
// whose set-up ends within the limit keeps its outcome; its cost is cut at the
// limit.
//
// The wrapped runner must have a virtual clock: it runs the whole trial first,
// and the limit and on_step are applied to the result. It must be the outermost
// wrapper.
class TimeLimitedRunner final : public TrialRunner {
 public:
  explicit TimeLimitedRunner(std::unique_ptr<TrialRunner> runner);

  [[nodiscard]] Measurement Run(const TrialRequest& request) override;
  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  std::unique_ptr<TrialRunner> runner_;
};

}  // namespace trials
