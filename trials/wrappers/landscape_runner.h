// Systematic deviations from the step times of a simulator, which show how much
// a result depends on the structure of the simulator.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trials/knobs.h"
#include "trials/trial_runner.h"

namespace trials {

// Standard deviations of the logarithm of the step time over a space, >= 0.
struct LandscapeOptions {
  double pairs = 0.0;        // by interactions of two knobs
  double independent = 0.0;  // by configuration, independently
  std::uint64_t seed = 1;
};

// A fixed deviation per configuration x. The step time is multiplied by
//
//   exp(pairs * (z(x) - mean) / deviation + independent * e(x)),
//   z(x) = sum over pairs a < b of knobs of N(0, 1)[a, b, x_a, x_b],
//
// where every N(0, 1) is drawn from the seed and the values in brackets, e(x) ~
// N(0, 1) is drawn from the seed and x, and mean and deviation are those of z
// over the given configurations. Knobs with a single value there are left out.
// Inactive knobs are at their defaults, so they still have no effect.
class Landscape {
 public:
  Landscape(const LandscapeOptions& options,
            std::span<const ParallelConfig> configs);

  [[nodiscard]] double TimeFactor(const ParallelConfig& config) const;

 private:
  [[nodiscard]] double PairSum(const ParallelConfig& canonical) const;

  LandscapeOptions options_;
  std::vector<Knob> knobs_;
  std::vector<std::uint64_t> pair_seeds_;  // of a < b, a outermost
  double mean_ = 0.0;
  double deviation_ = 1.0;
};

// A runner whose step times are multiplied by Landscape::TimeFactor; memory and
// outcomes are those of the wrapped runner. A landscape is that of a space of
// configurations: it has no plans.
class LandscapeRunner final : public TrialRunner {
 public:
  LandscapeRunner(std::unique_ptr<TrialRunner> runner,
                  std::shared_ptr<const Landscape> landscape);

  [[nodiscard]] Measurement Run(const TrialRequest& request) override;
  // Includes the deviation: it is the ground truth of this landscape.
  [[nodiscard]] std::optional<double> ExactThroughput(
      const Candidate& candidate) const override;

 private:
  std::unique_ptr<TrialRunner> runner_;
  std::shared_ptr<const Landscape> landscape_;
};

}  // namespace trials
