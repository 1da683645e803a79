#include "trials/predictions.h"

#include <algorithm>
#include <cmath>

#include "common/ranges.h"
#include "common/statistics.h"

namespace trials {
namespace {

constexpr double kFailedTryCost = 0.05;  // of the training

double At(const std::vector<double>& values, int i) { return values[i]; }

}  // namespace

double FitProbability(double peak_bytes, double capacity_bytes,
                      double log_stddev) {
  if (log_stddev == 0.0) {
    return peak_bytes <= capacity_bytes ? 1.0 : 0.0;
  }
  return common::NormalProbability(std::log(capacity_bytes / peak_bytes) /
                                   log_stddev);
}

int FirstToTry(const std::vector<double>& step_time_s,
               const std::vector<double>& fit_probability) {
  const auto candidates = static_cast<int>(step_time_s.size());
  const auto expected = [&](int i) {
    return At(fit_probability, i) / At(step_time_s, i);
  };
  int safest = -1;
  for (int i = 0; i < candidates; ++i) {
    if (safest < 0 || expected(i) > expected(safest)) {
      safest = i;
    }
  }
  const double safe = safest < 0 ? 0.0 : 1.0 / At(step_time_s, safest);
  const auto gain = [&](int i) {
    const double p = At(fit_probability, i);
    return p * (1.0 / At(step_time_s, i) - safe) -
           (1.0 - p) * kFailedTryCost * safe;
  };
  int first = safest;
  for (int i = 0; i < candidates; ++i) {
    if (gain(i) > gain(first)) {
      first = i;
    }
  }
  return first;
}

std::vector<int> TryOrder(const std::vector<double>& step_time_s,
                          const std::vector<double>& fit_probability) {
  std::vector<int> order = common::Indices(step_time_s.size());
  const auto expected = [&](int i) {
    return At(fit_probability, i) / At(step_time_s, i);
  };
  std::ranges::stable_sort(
      order, [&](int a, int b) { return expected(a) > expected(b); });
  const auto first =
      std::ranges::find(order, FirstToTry(step_time_s, fit_probability));
  if (first != order.end()) {
    std::rotate(order.begin(), first, first + 1);
  }
  return order;
}

std::vector<int> Order(const Predictions& predictions, double capacity_bytes) {
  const auto probability =
      common::Map(predictions.peak_memory_bytes, [&](double bytes) {
        return FitProbability(bytes, capacity_bytes,
                              predictions.memory_log_stddev);
      });
  std::vector<int> order = TryOrder(predictions.step_time_s, probability);
  const auto hopeless =
      std::stable_partition(order.begin(), order.end(),
                            [&](int i) { return At(probability, i) > 0.0; });
  std::stable_sort(hopeless, order.end(), [&](int a, int b) {
    return At(predictions.peak_memory_bytes, a) <
           At(predictions.peak_memory_bytes, b);
  });
  return order;
}

}  // namespace trials
