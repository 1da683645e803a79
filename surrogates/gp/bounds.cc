#include "surrogates/gp/bounds.h"

#include <algorithm>
#include <cmath>

#include "common/statistics.h"

namespace surrogates {
namespace {

constexpr double kOtherFailures = 0.02;
constexpr double kOtherSuccesses = 0.001;
// The largest variance of an observation, in units of what is uncertain.
constexpr double kLargestVariance = 10.0;

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
  // y and w from the gain v / (v + w) = 1 - variance / v, at least that of the
  // largest w.
  const double gain = std::max(1.0 - variance / before.variance,
                               1.0 / (1.0 + kLargestVariance));
  return {before.mean + (mean - before.mean) / gain,
          before.variance * (1.0 / gain - 1.0)};
}

}  // namespace

Observations WithBounds(GaussianProcess& process, Observations measured,
                        const std::vector<Bound>& bounds) {
  Eigen::Index last = measured.size();
  const Eigen::Index size = last + std::ssize(bounds);
  measured.value.conservativeResize(size);
  measured.noise_variance.conservativeResize(size);
  Prediction before;
  before.Resize(1);
  for (const Bound& bound : bounds) {
    process.PredictSome({&bound.candidate, 1}, before.Head(1));
    const Normal normal =
        ObservationFor(bound, {before.mean[0], before.variance[0]});
    process.Append(bound.candidate, normal.mean, normal.variance);
    measured.candidate.push_back(bound.candidate);
    measured.value[last] = normal.mean;
    measured.noise_variance[last] = normal.variance;
    ++last;
  }
  return measured;
}

}  // namespace surrogates
