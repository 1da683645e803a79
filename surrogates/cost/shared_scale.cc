#include "surrogates/cost/shared_scale.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace surrogates {
namespace {

constexpr double kLogError = 0.3;
constexpr double kReach = 6.0;  // of the search, in deviations of the scale
constexpr int kSteps = 300;     // of each of the two grids

double Huber(double z) {
  const double size = std::abs(z);
  return size < 1.0 ? 0.5 * size * size : size - 0.5;
}

// How the sum of terms at one observed configuration depends on the scale.
struct Point {
  double relative = 0.0;  // times the scale
  double absolute = 0.0;
  double measured = 0.0;  // of the sum: a time where the link is inverse
  bool at_most = false;   // `measured` is an upper bound
};

// The guesses of the mean's coefficients, the absolute ones or the others.
Eigen::VectorXd Guesses(const ParametricMean& mean, bool absolute) {
  Eigen::VectorXd guesses(mean.size());
  for (int j = 0; j < mean.size(); ++j) {
    const auto& coefficient = mean.coefficients[j];
    guesses[j] = coefficient.absolute == absolute
                     ? std::exp(coefficient.log_center)
                     : 0.0;
  }
  return guesses;
}

std::vector<Point> Points(const ParametricMean& mean,
                          const Observations& observations,
                          const std::vector<int>& at_most_one) {
  const Eigen::VectorXd relative = Guesses(mean, false);
  const Eigen::VectorXd absolute = Guesses(mean, true);
  const bool inverse = mean.link == ParametricMean::Link::kInverse;
  std::vector<Point> points;
  const auto add = [&](int candidate, double measured, bool at_most) {
    const auto phi = mean.features.row(candidate);
    points.push_back({phi.dot(relative), phi.dot(absolute), measured, at_most});
  };
  for (int i = 0; i < observations.size(); ++i) {
    const double value = observations.value[i];
    if (value > 0.0) {
      add(observations.candidate[i], inverse ? 1.0 / value : value, false);
    }
  }
  for (const int candidate : at_most_one) {
    add(candidate, 1.0, true);
  }
  return points;
}

}  // namespace

double MatchSharedScale(const ParametricMean& mean,
                        const Observations& observations,
                        const std::vector<int>& at_most_one) {
  if (!mean.shared_scale) {
    throw std::invalid_argument(
        "MatchSharedScale: the mean has no shared scale");
  }
  const SharedScale prior = *mean.shared_scale;
  const std::vector<Point> points = Points(mean, observations, at_most_one);
  const auto loss = [&](double log_scale) {
    const double z = (log_scale - prior.log_center) / prior.log_stddev;
    double sum = 0.5 * z * z;
    for (const Point& point : points) {
      const double terms =
          std::exp(log_scale) * point.relative + point.absolute;
      // Configurations that ran are informative beyond the clip, too.
      const double predicted = point.at_most ? std::max(terms, point.measured)
                                             : std::min(terms, mean.clip);
      sum += Huber(std::log(predicted / point.measured) / kLogError);
    }
    return sum;
  };
  // Several minima are possible: a grid, then a finer one around its best.
  double best = prior.log_center;
  double half_width = kReach * prior.log_stddev;
  for (int round = 0; round < 2; ++round) {
    const double center = best;
    const double step = 2.0 * half_width / kSteps;
    double best_loss = loss(best);
    for (int i = 0; i <= kSteps; ++i) {
      const double log_scale = center - half_width + step * i;
      const double value = loss(log_scale);
      if (value < best_loss) {
        best = log_scale;
        best_loss = value;
      }
    }
    half_width = step;
  }
  return best;
}

Eigen::VectorXd CentersAtScale(const ParametricMean& mean, double log_scale) {
  Eigen::VectorXd centers(mean.size());
  for (int j = 0; j < mean.size(); ++j) {
    const auto& coefficient = mean.coefficients[j];
    centers[j] =
        coefficient.log_center + (coefficient.absolute ? 0.0 : log_scale);
  }
  return centers;
}

}  // namespace surrogates
