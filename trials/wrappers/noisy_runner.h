// Adds the noise of a real cluster to the step times of any runner.

#pragma once

#include <memory>

#include "trials/trial_runner.h"

namespace trials {

// The noise model: a step time t becomes, in step j of a trial,
//
//   t_j = t * exp(offset + drift_j + jitter * N(0, 1)) * outlier_j + first_j,
//
//   drift_j   = rho drift_{j-1} + sqrt(1 - rho^2) * drift * N(0, 1),
//               rho = exp(-1 / drift_steps), drift_0 from the stationary law,
//   outlier_j = 1 + Exp(mean outlier_size) with probability
//               outlier_probability, else 1,
//   first_j   = in step 1 only: t * first_step_share + a log-normal of median
//               first_step_s and shape first_step_spread.
//
// Shapes follow the paper's Figs. 3, 10 and 15: the first step is much longer,
// most steps lie within a few percent, and single steps take visibly longer.
// Everything is drawn from TrialRequest::seed.
struct NoiseOptions {
  double offset = 0.005;      // per trial, e.g. clocks and placement; >= 0
  double jitter = 0.01;       // per step; >= 0
  double drift = 0.01;        // stationary standard deviation; >= 0
  double drift_steps = 15.0;  // correlation length in steps; > 0
  double outlier_probability = 0.03;  // in [0, 1]
  double outlier_size = 0.35;         // mean relative excess; >= 0
  double first_step_share = 0.5;      // of the step time; >= 0
  double first_step_s = 1.2;  // lazy communicators, cuBLAS, allocator; >= 0
  double first_step_spread = 0.3;
  double setup_jitter = 0.08;  // log-normal shape of the set-up time; >= 0
};

// The noise with `factor` times its standard deviations and its outliers' mean
// excess. With 0, all steps of a trial but the first take the same time; the
// first is longer by the same amount in every trial.
[[nodiscard]] NoiseOptions Scaled(NoiseOptions options, double factor);

// A runner whose step and set-up times are noisy; everything else is passed
// through.
// Errors: throws std::invalid_argument if an option violates its inequality.
class NoisyRunner final : public TrialRunner {
 public:
  explicit NoisyRunner(std::unique_ptr<TrialRunner> runner,
                       const NoiseOptions& options = {});

  // request.on_step sees the noisy time.
  [[nodiscard]] Measurement Run(const TrialRequest& request) override;
  // That of the wrapped runner: without noise.
  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  std::unique_ptr<TrialRunner> runner_;
  NoiseOptions options_;
};

}  // namespace trials
