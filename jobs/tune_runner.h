// A runner that prints each trial when it ends.

#ifndef JOBS_TUNE_RUNNER_H_
#define JOBS_TUNE_RUNNER_H_

#include <optional>
#include <string>

#include "trials/knobs.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace jobs {

// One line about a measurement: "0.412 s a step, 39768 tokens/s, 3.1 GB",
// "out of memory: ...".
[[nodiscard]] std::string Describe(const trials::Measurement& measurement,
                                   double tokens_per_step);

class TuneRunner final : public trials::TrialRunner {
 public:
  // `inner` must outlive this. `trials`: the number of trials before, of which
  // at least one ran a step if `any_ran`.
  TuneRunner(trials::TrialRunner& inner, trials::KnobSet knobs,
             double tokens_per_step, int trials, bool any_ran)
      : inner_(inner),
        knobs_(std::move(knobs)),
        tokens_per_step_(tokens_per_step),
        trials_(trials),
        any_ran_(any_ran) {}

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override;
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& candidate) const override {
    return inner_.ExactThroughput(candidate);
  }

  // Why the search should stop; "": it should not. The first trials failed with
  // the same message before their first step.
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  trials::TrialRunner& inner_;
  trials::KnobSet knobs_;
  double tokens_per_step_;
  int trials_;
  bool any_ran_;
  int alike_ = 0;
  double best_s_ = 0.0;  // step time; 0: none
  std::string message_;
  std::string broken_;
};

}  // namespace jobs

#endif  // JOBS_TUNE_RUNNER_H_
