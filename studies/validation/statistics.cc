#include "studies/validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "common/quantiles.h"

namespace studies {
namespace {

// Ranks from 1; equal values share the mean of their ranks.
std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return values[a] < values[b];
  });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    const double rank = (static_cast<double>(begin + end) + 1.0) / 2.0;
    for (; begin < end; ++begin) {
      ranks[order[begin]] = rank;
    }
  }
  return ranks;
}

double Share(int part, int rest) {
  return part + rest == 0 ? kUndefined
                          : static_cast<double>(part) / (part + rest);
}

}  // namespace

double Mean(const std::vector<double>& values) {
  return values.empty() ? kUndefined
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

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
  std::sort(errors.begin(), errors.end());
  summary.mean = Mean(errors);
  summary.median = common::SortedQuantile(errors, 0.5);
  summary.p90 = common::SortedQuantile(errors, 0.9);
  summary.bias = bias / summary.rows;
  return summary;
}

double Spearman(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) {
    return kUndefined;
  }
  const std::vector<double> a = Ranks(x);
  const std::vector<double> b = Ranks(y);
  const double middle = Mean(a);
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

double OutOfMemoryCounts::Precision() const {
  return Share(both, predicted_only);
}

double OutOfMemoryCounts::Recall() const { return Share(both, measured_only); }

std::optional<Pick> PickOf(const std::vector<Candidate>& all) {
  const Candidate* pick = nullptr;
  const Candidate* best = nullptr;
  for (const Candidate& one : all) {
    const bool better =
        pick == nullptr || (one.predicted_fits == pick->predicted_fits
                                ? one.predicted_s < pick->predicted_s
                                : one.predicted_fits);
    pick = better ? &one : pick;
    if (one.measured_s &&
        (best == nullptr || *one.measured_s < *best->measured_s)) {
      best = &one;
    }
  }
  if (best == nullptr) {
    return std::nullopt;
  }
  if (!pick->measured_s) {
    return Pick{};
  }
  return Pick{true, *pick->measured_s / *best->measured_s - 1.0};
}

}  // namespace studies
