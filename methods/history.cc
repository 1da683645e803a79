#include "methods/history.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/quantiles.h"
#include "common/ranges.h"

namespace methods {
namespace {

// Nothing for a trial that observes none.
using Observed = std::optional<Observation>;

template <typename Observe>
surrogates::Observations Collect(const std::vector<trials::Trial>& trials,
                                 const Observe& observe) {
  std::vector<int> candidates;
  std::vector<double> values;
  std::vector<double> variances;
  for (const trials::Trial& trial : trials) {
    if (const Observed observed = observe(trial)) {
      candidates.push_back(trial.candidate);
      values.push_back(observed->value);
      variances.push_back(observed->variance);
    }
  }
  const auto n = static_cast<Eigen::Index>(values.size());
  return {std::move(candidates),
          Eigen::Map<const Eigen::VectorXd>(values.data(), n),
          Eigen::Map<const Eigen::VectorXd>(variances.data(), n)};
}

}  // namespace

void History::Start(int candidate, const std::string& plan) {
  if (HasTried(candidate, plan)) {
    return;
  }
  if (candidate < 0) {
    running_plans_.push_back(plan);
    return;
  }
  running_.push_back(candidate);
  tried_[candidate] = 1;
}

void History::Add(const trials::Trial& trial) {
  if (trial.HasThroughput() && ValueOf(trial).value > best_value_) {
    best_value_ = ValueOf(trial).value;
    best_step_times_s_ = trial.measurement.step_times_s;
  }
  if (trial.IsPlan()) {
    plans_.push_back(trial);
    std::erase(running_plans_, CandidateLabel(trial));
    return;
  }
  failures_in_a_row_ = trial.HasThroughput() ? 0 : failures_in_a_row_ + 1;
  tried_[trial.candidate] = 1;
  std::erase(running_, trial.candidate);
  trials_.push_back(trial);
}

void History::Follow(const History& other) {
  for (std::size_t i = plans_.size(); i < other.plans_.size(); ++i) {
    Add(other.plans_[i]);
  }
  for (std::size_t i = trials_.size(); i < other.trials_.size(); ++i) {
    Add(other.trials_[i]);
  }
  for (const int candidate : other.running_) {
    Start(candidate);
  }
  for (const std::string& plan : other.running_plans_) {
    Start(-1, plan);
  }
}

bool History::HasTried(int candidate, std::string_view label) const {
  return candidate >= 0
             ? tried_[candidate] != 0
             : common::Contains(running_plans_, label) ||
                   std::ranges::any_of(plans_, [&](const trials::Trial& trial) {
                     return CandidateLabel(trial) == label;
                   });
}

Observation History::ValueOf(const trials::Trial& trial) const {
  const double weight = WeightOf(trial, weight_);
  return {trial.throughput.steps_per_s / weight,
          trial.throughput.variance / (weight * weight)};
}

double History::VarianceOfMean(const trials::Trial& trial) const {
  const double variance = ValueOf(trial).variance;
  return throughput_options_.variance_of_mean
             ? variance
             : variance / std::max(trial.throughput.steps_used, 1);
}

double History::VarianceOfRun(const trials::Trial& trial) const {
  const double value = ValueOf(trial).value;
  return std::max(VarianceOfMean(trial), run_variance_ * value * value);
}

double History::StepNoise() const {
  std::vector<double> relative;
  for (const trials::Trial& trial : trials_) {
    if (trial.HasThroughput()) {
      const double variance =
          VarianceOfMean(trial) * trial.throughput.steps_used;
      relative.push_back(std::sqrt(variance) / ValueOf(trial).value);
    }
  }
  if (relative.empty()) {
    return 0.0;
  }
  return common::UpperMedian(std::move(relative)) * best_value_;
}

surrogates::Observations History::ThroughputObservations() const {
  return Collect(trials_, [this](const trials::Trial& trial) {
    return trial.HasThroughput() ? Observed(ValueOf(trial)) : std::nullopt;
  });
}

surrogates::Observations History::ScoreObservations() const {
  return Collect(trials_, [this](const trials::Trial& trial) -> Observed {
    return trial.HasThroughput() ? ValueOf(trial) : Observation{0.0, 0.0};
  });
}

surrogates::Observations History::MemoryObservations(
    double capacity_bytes, std::optional<double> out_of_memory_value,
    double variance) const {
  return Collect(trials_, [&](const trials::Trial& trial) -> Observed {
    const trials::Measurement& measurement = trial.measurement;
    if (measurement.outcome == trials::Outcome::kOutOfMemory) {
      return out_of_memory_value
                 ? Observed(Observation{*out_of_memory_value, variance})
                 : std::nullopt;
    }
    if (!measurement.peak_memory_bytes) {
      return std::nullopt;
    }
    return Observation{*measurement.peak_memory_bytes / capacity_bytes,
                       variance};
  });
}

std::vector<surrogates::Bound> History::MemoryBounds() const {
  std::vector<surrogates::Bound> bounds;
  for (const trials::Trial& trial : trials_) {
    const bool failed =
        trial.measurement.outcome == trials::Outcome::kOutOfMemory;
    if (failed ||
        (trial.HasThroughput() && !trial.measurement.peak_memory_bytes)) {
      bounds.push_back({trial.candidate, failed});
    }
  }
  return bounds;
}

}  // namespace methods
