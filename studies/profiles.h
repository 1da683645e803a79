// How reliably and how soon methods reach targets, over the problems of several
// experiments.

#pragma once

#include <string>
#include <vector>

#include "common/statistics.h"
#include "plots/curve.h"
#include "studies/output.h"

namespace studies {

// A finished run, in shares of the optimum without noise.
struct Attempt {
  std::string problem;  // EXPERIMENT or EXPERIMENT/PROBLEM
  int repeat = 0;
  plots::StepCurve by_trials;
  plots::StepCurve by_time;  // s
  double trials = 0.0;       // spent
  double time_s = 0.0;
  double budget_s = 0.0;  // NaN: none

  // At the end.
  [[nodiscard]] double share() const {
    return by_trials.y.empty() ? 0.0 : by_trials.y.back();
  }
};

struct Contender {
  std::string name;
  std::string label;
  std::vector<Attempt> attempts;
};

// The expected running time to a target, if another run follows each that does
// not reach it,
//
//   ERT = sum_i min(cost to the target, cost spent)_i / (runs that reached it).
//
// Infinite if no run reached it.
//
// Source: Hansen et al., "COCO: a platform for comparing continuous optimizers
// in a black-box setting" (2021), sec. 5. Shapes: both [runs].
[[nodiscard]] double ExpectedRunningTime(const std::vector<double>& to_target,
                                         const std::vector<double>& spent);

// The mean without the lowest and the highest floor(n / 4) of n > 0 values:
// scipy.stats.trim_mean(values, 0.25).
[[nodiscard]] double InterquartileMean(std::vector<double> values);

// The finished runs of all methods in these folders (results/EXPERIMENT).
// Errors: throws InputError for a problem whose optimum is not known.
[[nodiscard]] std::vector<Contender> LoadContenders(
    const std::vector<std::string>& folders);

struct ProfilesOptions {
  std::vector<std::string> folders;
  std::vector<std::string> methods;  // empty: all with runs on every problem
  // Chains "A,B,C" of methods: what each adds to the one before.
  std::vector<std::string> steps;
};

// Targets with runtime profiles, scores with performance profiles, and steps.
// Errors: throws InputError for an unknown method, and if no problem has runs
// of all methods.
[[nodiscard]] std::vector<Output> Profiles(
    const std::vector<Contender>& contenders, const ProfilesOptions& options);

}  // namespace studies
