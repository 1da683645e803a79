#include "trials/measurement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "common/quantiles.h"

namespace trials {
namespace {

std::vector<double> WithoutOutliers(const std::vector<double>& times,
                                    double outlier_iqr) {
  std::vector<double> sorted = times;
  std::ranges::sort(sorted);
  const double median = common::SortedQuantile(sorted, 0.5);
  const double iqr = common::SortedQuantile(sorted, 0.75) -
                     common::SortedQuantile(sorted, 0.25);
  std::vector<double> kept = times;
  std::erase_if(kept, [&](double t) {
    return std::abs(t - median) >= outlier_iqr * iqr;
  });
  // Of two times none is nearer to the median: a threshold of one IQR or less
  // would leave nothing, and so would one of 0.
  return kept.empty() ? times : kept;
}

// Whether the least of `values` is positive and the largest at most `most`
// times that.
bool AreAlike(const std::vector<double>& values, double most) {
  const auto [low, high] = std::ranges::minmax(values);
  return low > 0.0 && high <= most * low;
}

std::string Outside(const char* name, double value, double least, double most) {
  return value >= least && value <= most
             ? std::string()
             : fmt::format(
                   "implausible measurement: {} = {:g}: must be from "
                   "{:g} to {:g}",
                   name, value, least, most);
}

// What is wrong with the step times of a measurement; "" if nothing is.
std::string WrongSteps(const Measurement& measurement,
                       const MeasurementLimits& limits) {
  for (const double step_time_s : measurement.step_times_s) {
    std::string why = Outside("step_time_s", step_time_s, kLeastStepSeconds,
                              kMostStepSeconds);
    if (!why.empty()) {
      return why;
    }
    if (step_time_s < limits.least_step_s) {
      return fmt::format(
          "implausible measurement: step_time_s = {:.4g} where {} takes "
          "{:.4g}: "
          "lines of microbatches or of several ranks or nodes; another unit; "
          "or [workload] is not what the program trains",
          step_time_s, limits.work, limits.least_step_s);
    }
  }
  const std::string why =
      WhyNoSteps(measurement.step_times_s,
                 measurement.outcome == Outcome::kTerminatedEarly);
  return why.empty() ? "" : "implausible measurement: " + why;
}

std::string WrongPeak(const Measurement& measurement,
                      const MeasurementLimits& limits) {
  const double peak_bytes = measurement.peak_memory_bytes.value_or(0.0);
  if (peak_bytes > 0.0 && peak_bytes < limits.least_memory_bytes) {
    return fmt::format(
        "implausible measurement: peak_memory_bytes = {:.4g} where a rank has "
        "weights of at least {:.4g}: another unit; or [workload] is not what "
        "the program trains",
        peak_bytes, limits.least_memory_bytes);
  }
  return Outside("peak_memory_bytes", peak_bytes, 0.0,
                 limits.most_memory_bytes);
}

}  // namespace

std::string WhyNoSteps(const std::vector<double>& step_times_s,
                       bool may_settle) {
  constexpr std::size_t kFewest = 5;
  if (step_times_s.size() < kFewest) {
    return "";
  }
  const double first = step_times_s.front();
  const double last = step_times_s.back();
  // What the steps would take: of times since the beginning, and of means.
  std::vector<double> of_sums;
  std::vector<double> of_means;
  for (std::size_t i = 1; i < step_times_s.size(); ++i) {
    const double change = step_times_s[i] - step_times_s[i - 1];
    of_sums.push_back(change);
    of_means.push_back(step_times_s[i] + static_cast<double>(i) * change);
  }
  constexpr double kGrowth = 1.5;
  const bool falls = last < first;
  if (falls) {
    std::ranges::transform(of_sums, of_sums.begin(), std::negate());
  }
  if (!(falls && may_settle) &&
      std::max(first, last) > kGrowth * std::min(first, last) &&
      AreAlike(of_sums, 3.0)) {
    return fmt::format(
        "the time of a step {} evenly, from {:.4g} to {:.4g} s: it is that {}; "
        "name the time of one step",
        falls ? "falls" : "grows", first, last,
        falls ? "until the end, or smoothed" : "since the beginning");
  }
  constexpr double kFar = 0.05;
  if (std::abs(last / of_means.back() - 1.0) > kFar &&
      AreAlike(of_means, 1.0 + kFar)) {
    return fmt::format(
        "the time of a step goes evenly from {:.4g} to {:.4g} s: it is the "
        "mean since the beginning, of steps of {:.4g} s; name the time of one "
        "step",
        first, last, of_means.back());
  }
  return "";
}

void RejectImplausible(Measurement& measurement,
                       const MeasurementLimits& limits) {
  std::string why = WrongSteps(measurement, limits);
  if (why.empty()) {
    why = WrongPeak(measurement, limits);
    if (!why.empty() && measurement.outcome == Outcome::kOutOfMemory) {
      // It failed for want of memory, whatever it said before.
      measurement.peak_memory_bytes.reset();
      return;
    }
  }
  if (!why.empty()) {
    measurement.outcome = Outcome::kFailed;
    measurement.message = std::move(why);
    measurement.step_times_s.clear();
    measurement.peak_memory_bytes.reset();
  }
}

ThroughputEstimate EstimateThroughput(const std::vector<double>& step_times_s,
                                      const ThroughputOptions& options) {
  if (std::cmp_less_equal(step_times_s.size(), options.warmup_steps)) {
    return {};
  }
  std::vector<double> times(step_times_s.begin() + options.warmup_steps,
                            step_times_s.end());
  times = WithoutOutliers(times, options.outlier_iqr);
  const auto q = static_cast<double>(times.size());
  double sum = 0.0;
  for (const double t : times) {
    sum += 1.0 / t;
  }
  const double mean = sum / q;
  double squares = 0.0;
  for (const double t : times) {
    squares += (1.0 / t - mean) * (1.0 / t - mean);
  }
  double variance = squares / q;
  if (options.variance_of_mean) {
    variance = times.size() > 1 ? squares / (q - 1.0) / q : 0.0;
  }
  return {mean, variance, static_cast<int>(times.size())};
}

double TauOf(const StopRule& rule, int steps_used) {
  const double least = std::max(rule.q_min - rule.throughput.warmup_steps, 1);
  return rule.tau_steps_per_s +
         rule.confidence_steps_per_s *
             (1.0 / std::sqrt(least) + 1.0 / std::sqrt(steps_used));
}

namespace {

// The share of its throughput that the best trial showed after q steps, at most
// 1.
double ShareAfter(const StopRule& rule, std::size_t q) {
  const std::vector<double>& times = rule.best_step_times_s;
  if (q >= times.size()) {
    return 1.0;
  }
  const std::vector<double> first(
      times.begin(), times.begin() + static_cast<std::ptrdiff_t>(q));
  const double share = EstimateThroughput(first, rule.throughput).steps_per_s /
                       EstimateThroughput(times, rule.throughput).steps_per_s;
  return std::fmin(share, 1.0);  // 1 where it is NaN
}

}  // namespace

bool ShouldStop(const StopRule& rule, const std::vector<double>& step_times_s) {
  if (std::cmp_less(step_times_s.size(), rule.q_min)) {
    return false;
  }
  const ThroughputEstimate estimate =
      EstimateThroughput(step_times_s, rule.throughput);
  // Of no steps after the warm-up it is NaN, which is below nothing.
  return estimate.steps_per_s <
         rule.best_steps_per_s * ShareAfter(rule, step_times_s.size()) +
             TauOf(rule, estimate.steps_used);
}

}  // namespace trials
