#include "studies/validation/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "common/quantiles.h"
#include "common/statistics.h"

namespace studies {
namespace {

double PartOf(int part, int rest) { return Share{part, part + rest}.Value(); }

}  // namespace

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

double OutOfMemoryCounts::Precision() const {
  return PartOf(both, predicted_only);
}

double OutOfMemoryCounts::Recall() const { return PartOf(both, measured_only); }

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
