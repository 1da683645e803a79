#include "surrogates/gp/bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/ranges.h"
#include "common/statistics.h"

namespace surrogates {
namespace {

constexpr double kOtherFailures = 0.02;
constexpr double kOtherSuccesses = 0.001;
constexpr double kUninformative = 1e4;  // variance of a bound that says nothing

struct Normal {
  double mean = 0.0;
  double variance = 0.0;
};

// The observation that stands for a bound where f ~ `before`.
Normal ObservationFor(const Bound& bound, const Normal& before) {
  const double e = bound.at_least ? kOtherFailures : kOtherSuccesses;
  const double sign = bound.at_least ? 1.0 : -1.0;
  const double stddev = std::sqrt(before.variance);
  const double z = sign * before.mean / stddev;
  // The hazard phi / Phi, by its limit where Phi vanishes.
  constexpr double kFar = -30.0;
  const double beyond = common::NormalProbability(std::max(z, kFar));
  const double hazard = z > kFar ? common::NormalDensity(z) / beyond : -z;
  const double weight = (1.0 - e) * beyond / (e + (1.0 - e) * beyond);
  // Moments of the truncated normal, then of its mixture with the whole.
  const double shift = sign * stddev * hazard;
  const double truncated =
      before.variance * std::max(1.0 - hazard * (hazard + z), 1e-4);
  const double variance = weight * truncated +
                          (1.0 - weight) * before.variance +
                          weight * (1.0 - weight) * shift * shift;
  const double mean = before.mean + weight * shift;
  const double precision = 1.0 / variance - 1.0 / before.variance;
  if (!(precision > 1.0 / kUninformative)) {
    return {mean, kUninformative};
  }
  return {(mean / variance - before.mean / before.variance) / precision,
          1.0 / precision};
}

}  // namespace

Observations WithBounds(const GaussianProcess& process, Observations measured,
                        const std::vector<Bound>& bounds) {
  const auto n = static_cast<Eigen::Index>(bounds.size());
  Prediction before;
  before.Resize(n);
  process.PredictSome(common::Map(bounds, &Bound::candidate), before.Head(n));
  const Eigen::Index known = measured.size();
  measured.value.conservativeResize(known + n);
  measured.noise_variance.conservativeResize(known + n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Normal normal =
        ObservationFor(bounds[i], {before.mean[i], before.variance[i]});
    measured.candidate.push_back(bounds[i].candidate);
    measured.value[known + i] = normal.mean;
    measured.noise_variance[known + i] = normal.variance;
  }
  return measured;
}

}  // namespace surrogates
