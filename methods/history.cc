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

void History::Add(int candidate,
                  const trials::Measurement& measurement,
                  const trials::ThroughputOptions& options) {
  Entry entry{
      candidate, measurement.outcome, {}, measurement.peak_memory_bytes};
  const bool failed = measurement.outcome == trials::Outcome::kOutOfMemory ||
                      measurement.outcome == trials::Outcome::kFailed;
  ++trials_since_gain_;
  if (!failed && !measurement.step_times_s.empty()) {
    entry.throughput =
        trials::EstimateThroughput(measurement.step_times_s, options);
    if (entry.throughput->steps_per_s > kGain * gained_steps_per_s_) {
      gained_steps_per_s_ = entry.throughput->steps_per_s;
      trials_since_gain_ = 0;
    }
    best_steps_per_s_ =
        std::max(best_steps_per_s_, entry.throughput->steps_per_s);
  }
  failures_in_a_row_ = entry.throughput ? 0 : failures_in_a_row_ + 1;
  tried_[static_cast<std::size_t>(candidate)] = 1;
  entries_.push_back(entry);
}

double History::StepNoise(const trials::ThroughputOptions& options) const {
  std::vector<double> relative;
  for (const Entry& entry : entries_) {
    if (entry.throughput) {
      const trials::ThroughputEstimate& estimate = *entry.throughput;
      const double variance = options.variance_of_mean
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
  for (const Entry& entry : entries_) {
    if (entry.throughput) {
      collector.Add(entry.candidate,
                    entry.throughput->steps_per_s,
                    entry.throughput->variance);
    }
  }
  return collector.Take();
}

surrogates::Observations History::ScoreObservations() const {
  Collector collector;
  for (const Entry& entry : entries_) {
    collector.Add(entry.candidate,
                  entry.throughput ? entry.throughput->steps_per_s : 0.0,
                  entry.throughput ? entry.throughput->variance : 0.0);
  }
  return collector.Take();
}

surrogates::Observations History::MemoryObservations(double capacity_bytes,
                                                     double out_of_memory_value,
                                                     double variance) const {
  Collector collector;
  for (const Entry& entry : entries_) {
    if (entry.outcome == trials::Outcome::kOutOfMemory) {
      collector.Add(entry.candidate, out_of_memory_value, variance);
    } else if (entry.peak_memory_bytes) {
      collector.Add(
          entry.candidate, *entry.peak_memory_bytes / capacity_bytes, variance);
    }
  }
  return collector.Take();
}

std::vector<int> History::RanWithUnknownMemory() const {
  std::vector<int> candidates;
  for (const Entry& entry : entries_) {
    if (entry.throughput && !entry.peak_memory_bytes) {
      candidates.push_back(entry.candidate);
    }
  }
  return candidates;
}

}  // namespace methods
