#include "methods/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/quantiles.h"

namespace methods {
namespace {

constexpr double kGain = 1.01;  // what counts as one, over the best

// Gathers (candidate, value, variance) triples as Observations.
class Collector {
 public:
  void Add(int candidate, double value, double variance) {
    candidates_.push_back(candidate);
    values_.push_back(value);
    variances_.push_back(variance);
  }

  [[nodiscard]] surrogates::Observations Take() {
    const auto n = static_cast<Eigen::Index>(values_.size());
    return {std::move(candidates_),
            Eigen::Map<const Eigen::VectorXd>(values_.data(), n),
            Eigen::Map<const Eigen::VectorXd>(variances_.data(), n)};
  }

 private:
  std::vector<int> candidates_;
  std::vector<double> values_;
  std::vector<double> variances_;
};

}  // namespace

void History::Add(const trials::Trial& trial) {
  ++trials_since_gain_;
  if (trial.HasThroughput()) {
    const double steps_per_s = trial.throughput.steps_per_s;
    if (steps_per_s > kGain * gained_steps_per_s_) {
      gained_steps_per_s_ = steps_per_s;
      trials_since_gain_ = 0;
    }
    best_steps_per_s_ = std::max(best_steps_per_s_, steps_per_s);
  }
  failures_in_a_row_ = trial.HasThroughput() ? 0 : failures_in_a_row_ + 1;
  tried_[static_cast<std::size_t>(trial.candidate)] = 1;
  trials_.push_back(trial);
}

double History::StepNoise() const {
  std::vector<double> relative;
  for (const trials::Trial& trial : trials_) {
    if (trial.HasThroughput()) {
      const trials::ThroughputEstimate& estimate = trial.throughput;
      const double variance = throughput_options_.variance_of_mean
                                  ? estimate.variance * estimate.steps_used
                                  : estimate.variance;
      relative.push_back(std::sqrt(variance) / estimate.steps_per_s);
    }
  }
  if (relative.empty()) {
    return 0.0;
  }
  return common::UpperMedian(std::move(relative)) * best_steps_per_s_;
}

surrogates::Observations History::ThroughputObservations() const {
  Collector collector;
  for (const trials::Trial& trial : trials_) {
    if (trial.HasThroughput()) {
      collector.Add(trial.candidate,
                    trial.throughput.steps_per_s,
                    trial.throughput.variance);
    }
  }
  return collector.Take();
}

surrogates::Observations History::ScoreObservations() const {
  Collector collector;
  for (const trials::Trial& trial : trials_) {
    const bool ran = trial.HasThroughput();
    collector.Add(trial.candidate,
                  ran ? trial.throughput.steps_per_s : 0.0,
                  ran ? trial.throughput.variance : 0.0);
  }
  return collector.Take();
}

surrogates::Observations History::MemoryObservations(double capacity_bytes,
                                                     double out_of_memory_value,
                                                     double variance) const {
  Collector collector;
  for (const trials::Trial& trial : trials_) {
    const trials::Measurement& measurement = trial.measurement;
    if (measurement.outcome == trials::Outcome::kOutOfMemory) {
      collector.Add(trial.candidate, out_of_memory_value, variance);
    } else if (measurement.peak_memory_bytes) {
      collector.Add(trial.candidate,
                    *measurement.peak_memory_bytes / capacity_bytes,
                    variance);
    }
  }
  return collector.Take();
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
