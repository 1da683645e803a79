#include "methods/confidence.h"

#include <cmath>

namespace methods {

double RunningMeanFactor(const Assumption& assumption) {
  return std::sqrt(2.0 * std::log(2.0 * assumption.rounds * assumption.q_max /
                                  assumption.delta));
}

double TerminationMargin(const Assumption& assumption, double noise_stddev,
                         int q_min, int q) {
  return RunningMeanFactor(assumption) * noise_stddev *
         (1.0 / std::sqrt(q_min) + 1.0 / std::sqrt(q));
}

double ConfidenceBeta(const Assumption& assumption, double information_gain) {
  return assumption.rkhs_bound +
         std::sqrt(2.0 * (information_gain - std::log(assumption.delta)));
}

double PrintedRegretBound(double noise_stddev, double beta, int rounds,
                          double gamma, int q_min) {
  return noise_stddev * beta * std::sqrt(8.0 * rounds * gamma / q_min);
}

double RegretBound(double noise_stddev, double beta, int rounds, double gamma,
                   int q_min, double kernel_variance) {
  const double most = kernel_variance * q_min / (noise_stddev * noise_stddev);
  return beta *
         std::sqrt(8.0 * rounds * gamma * kernel_variance / std::log1p(most));
}

}  // namespace methods
