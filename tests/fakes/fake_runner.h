// A backend for tests, simple enough that every result is known.

#pragma once

#include <optional>
#include <random>
#include <vector>

#include "trials/search_space.h"
#include "trials/trial_runner.h"

namespace fakes {

// Set-up takes `setup_s`. A step takes 1 / dp + tp / 8 + pp / 16 seconds, plus
// jitter from the request's seed, or as given in step_times_s, which the trials
// take in turn. Configurations with dp > max_dp are out of
// memory. Obeys the time limit and on_step.
struct FakeRunner final : public trials::TrialRunner {
  double setup_s = 2.0;
  double jitter = 0.01;
  int max_dp = 1 << 30;
  std::vector<double> step_times_s;
  std::vector<trials::TrialRequest> requests;  // all that were asked for

  [[nodiscard]] static double StepTime(const trials::ParallelConfig& config) {
    return 1.0 / config.dp + config.tp / 8.0 + config.pp / 16.0;
  }

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override {
    requests.push_back(request);
    trials::Measurement result;
    result.setup_s = setup_s;
    result.duration_s = setup_s;
    if (request.candidate.config().dp > max_dp) {
      result.outcome = trials::Outcome::kOutOfMemory;
      result.message = "does not fit,\nit says";
      return Limited(result, request.time_limit_s);
    }
    std::mt19937_64 engine(request.seed);
    result.outcome = trials::Outcome::kCompleted;
    result.peak_memory_bytes = 1e9 * request.candidate.config().dp;
    for (int step = 0; step < request.max_steps; ++step) {
      const double noise = static_cast<double>(engine() >> 11U) * 0x1p-53;
      const double step_time_s =
          (step_times_s.empty()
               ? StepTime(request.candidate.config())
               : step_times_s[(requests.size() - 1) % step_times_s.size()]) *
          (1.0 + jitter * noise);
      if (result.duration_s + step_time_s > request.time_limit_s) {
        result.outcome = trials::Outcome::kTimedOut;
        break;
      }
      result.duration_s += step_time_s;
      result.step_times_s.push_back(step_time_s);
      if (request.on_step && !request.on_step(step_time_s)) {
        result.outcome = trials::Outcome::kTerminatedEarly;
        break;
      }
    }
    if (result.outcome == trials::Outcome::kTimedOut) {
      result.duration_s = request.time_limit_s;
    }
    return result;
  }

  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& candidate) const override {
    const trials::ParallelConfig& config = candidate.config();
    return config.dp > max_dp ? 0.0 : 1.0 / StepTime(config);
  }

 private:
  static trials::Measurement Limited(trials::Measurement result,
                                     double limit_s) {
    if (result.duration_s > limit_s) {
      result.outcome = trials::Outcome::kTimedOut;
      result.duration_s = limit_s;
    }
    return result;
  }
};

// All (dp, tp, pp) with dp * tp * pp = gpus, times the microbatches 1, 2, 4
// where pp > 1.
inline trials::SearchSpace SmallSpace(int gpus) {
  std::vector<trials::ParallelConfig> configs;
  for (int dp = 1; dp <= gpus; ++dp) {
    for (int tp = 1; dp * tp <= gpus; ++tp) {
      if (gpus % (dp * tp) != 0) {
        continue;
      }
      const int pp = gpus / (dp * tp);
      for (int microbatches = 1; microbatches <= (pp > 1 ? 4 : 1);
           microbatches *= 2) {
        configs.push_back(
            {.dp = dp, .tp = tp, .pp = pp, .microbatches = microbatches});
      }
    }
  }
  return trials::SearchSpace(std::move(configs));
}

}  // namespace fakes
