#include "methods/history.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/quantiles.h"

namespace methods {
namespace {

// A gain is at least this ratio to the best, and this many standard errors of
// the difference of two noisy estimates.
constexpr double kGain = 1.01;
constexpr double kGainErrors = 3.0;

// A value with its variance; nothing for a trial that observes none.
using Observed = std::optional<std::pair<double, double>>;

template <typename Observe>
surrogates::Observations Collect(const std::vector<trials::Trial>& trials,
                                 const Observe& observe) {
  std::vector<int> candidates;
  std::vector<double> values;
  std::vector<double> variances;
  for (const trials::Trial& trial : trials) {
    if (const Observed observed = observe(trial)) {
      candidates.push_back(trial.candidate);
      values.push_back(observed->first);
      variances.push_back(observed->second);
    }
  }
  const auto n = static_cast<Eigen::Index>(values.size());
  return {std::move(candidates),
          Eigen::Map<const Eigen::VectorXd>(values.data(), n),
          Eigen::Map<const Eigen::VectorXd>(variances.data(), n)};
}

Observed ThroughputOf(const trials::Trial& trial) {
  return trial.HasThroughput() ? Observed({trial.throughput.steps_per_s,
                                           trial.throughput.variance})
                               : std::nullopt;
}

}  // namespace

void History::Add(const trials::Trial& trial) {
  ++trials_since_gain_;
  if (trial.HasThroughput()) {
    const double steps_per_s = trial.throughput.steps_per_s;
    const double variance = VarianceOfMean(trial.throughput);
    const double error = std::sqrt(variance + gained_variance_);
    if (steps_per_s > kGain * gained_steps_per_s_ &&
        steps_per_s > gained_steps_per_s_ + kGainErrors * error) {
      gained_steps_per_s_ = steps_per_s;
      gained_variance_ = variance;
      trials_since_gain_ = 0;
    }
    best_steps_per_s_ = std::max(best_steps_per_s_, steps_per_s);
  }
  if (!trial.plan.empty()) {
    plans_.push_back(trial);
    return;
  }
  failures_in_a_row_ = trial.HasThroughput() ? 0 : failures_in_a_row_ + 1;
  tried_[trial.candidate] = 1;
  trials_.push_back(trial);
}

bool History::HasTried(std::string_view plan) const {
  return std::any_of(
      plans_.begin(), plans_.end(),
      [plan](const trials::Trial& trial) { return trial.plan == plan; });
}

double History::VarianceOfMean(
    const trials::ThroughputEstimate& estimate) const {
  return throughput_options_.variance_of_mean
             ? estimate.variance
             : estimate.variance / std::max(estimate.steps_used, 1);
}

double History::StepNoise() const {
  std::vector<double> relative;
  for (const trials::Trial& trial : trials_) {
    if (trial.HasThroughput()) {
      const trials::ThroughputEstimate& estimate = trial.throughput;
      const double variance = VarianceOfMean(estimate) * estimate.steps_used;
      relative.push_back(std::sqrt(variance) / estimate.steps_per_s);
    }
  }
  if (relative.empty()) {
    return 0.0;
  }
  return common::UpperMedian(std::move(relative)) * best_steps_per_s_;
}

surrogates::Observations History::ThroughputObservations() const {
  return Collect(trials_, ThroughputOf);
}

surrogates::Observations History::ScoreObservations() const {
  return Collect(trials_, [](const trials::Trial& trial) {
    return ThroughputOf(trial).value_or(std::pair(0.0, 0.0));
  });
}

surrogates::Observations History::MemoryObservations(double capacity_bytes,
                                                     double out_of_memory_value,
                                                     double variance) const {
  return Collect(trials_, [&](const trials::Trial& trial) -> Observed {
    const trials::Measurement& measurement = trial.measurement;
    if (measurement.outcome == trials::Outcome::kOutOfMemory) {
      return {{out_of_memory_value, variance}};
    }
    if (!measurement.peak_memory_bytes) {
      return std::nullopt;
    }
    return {{*measurement.peak_memory_bytes / capacity_bytes, variance}};
  });
}

std::vector<int> History::RanWithUnknownMemory() const {
  std::vector<int> candidates;
  for (const trials::Trial& trial : trials_) {
    if (trial.HasThroughput() && !trial.measurement.peak_memory_bytes) {
      candidates.push_back(trial.candidate);
    }
  }
  return candidates;
}

}  // namespace methods
