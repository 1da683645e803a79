#include "studies/validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/quantiles.h"
#include "common/statistics.h"
#include "trials/predictions.h"

namespace studies {
ErrorSummary SummariseErrors(const std::vector<double>& predicted,
                             const std::vector<double>& measured) {
  std::vector<double> errors;
  double bias = 0.0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    const double error = (predicted[i] - measured[i]) / measured[i];
    if (!std::isnan(error)) {
      errors.push_back(std::abs(error));
      bias += error;
    }
  }
  ErrorSummary summary;
  summary.rows = static_cast<int>(errors.size());
  if (errors.empty()) {
    return summary;
  }
  std::ranges::sort(errors);
  summary.mean = common::Mean(errors);
  summary.median = common::SortedQuantile(errors, 0.5);
  summary.p90 = common::SortedQuantile(errors, 0.9);
  summary.bias = bias / summary.rows;
  return summary;
}

double Spearman(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) {
    return kUndefined;
  }
  const std::vector<double> a = common::Ranks(x);
  const std::vector<double> b = common::Ranks(y);
  const double middle = common::Mean(a);
  double ab = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - middle) * (b[i] - middle);
    aa += (a[i] - middle) * (a[i] - middle);
    bb += (b[i] - middle) * (b[i] - middle);
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : kUndefined;
}

std::optional<Pick> PickOf(const std::vector<Candidate>& all) {
  std::vector<double> predicted_s;
  std::vector<double> probability;
  double best_s = std::numeric_limits<double>::infinity();
  for (const Candidate& one : all) {
    predicted_s.push_back(one.predicted_s);
    probability.push_back(one.fit_probability);
    best_s = std::min(best_s, one.measured_s.value_or(best_s));
  }
  bool first = true;
  for (const int i : trials::TryOrder(predicted_s, probability)) {
    const Candidate& one = all[i];
    if (one.measured_s) {
      return Pick{first, *one.measured_s / best_s - 1.0};
    }
    first = false;
  }
  return std::nullopt;
}

Ordering OrderingOf(const std::vector<Candidate>& all) {
  constexpr double kDiffer = 1.05;
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const Candidate& one : all) {
    if (one.measured_s && std::isfinite(one.predicted_s)) {
      predicted.push_back(one.predicted_s);
      measured.push_back(*one.measured_s);
    }
  }
  Ordering ordering{.spearman = Spearman(predicted, measured)};
  if (predicted.empty()) {
    return ordering;
  }
  const auto fastest = std::ranges::min_element(predicted) - predicted.begin();
  ordering.fastest_slowdown =
      measured[fastest] / std::ranges::min(measured) - 1.0;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    for (std::size_t j = 0; j < predicted.size(); ++j) {
      if (measured[j] > kDiffer * measured[i]) {
        ordering.pairs.Count(predicted[i] < predicted[j]);
      }
    }
  }
  return ordering;
}

}  // namespace studies
