#include "surrogates/gp/measurement.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include <fmt/format.h>

namespace surrogates {
namespace {

constexpr double kBelief = 4.0;  // n_0, observations
constexpr double kLevel = 0.2;   // a: sets the variance left at m = 0

// g of the header for `means`.
Eigen::ArrayXd Growth(const Eigen::VectorXd& means, double mean_square) {
  return (kLevel + means.array().max(0.0).square() / mean_square) /
         (kLevel + 1.0);
}

}  // namespace

MeasurementPrediction PredictMeasurements(const Eigen::VectorXd& values,
                                          const Prediction& others,
                                          const Prediction& prediction) {
  const Eigen::Index n = values.size();
  if (others.mean.size() != n || others.variance.size() != n) {
    throw std::invalid_argument(
        fmt::format("PredictMeasurements: {} values and {} leave-one-out "
                    "predictions; each value needs one",
                    n, others.mean.size()));
  }
  MeasurementPrediction measurement{prediction.mean, prediction.variance};
  const double mean_square =
      n > 0 ? values.squaredNorm() / static_cast<double>(n) : 0.0;
  if (!(mean_square > 0.0)) {
    return measurement;
  }
  const double misses =
      ((values - others.mean).array().square() /
       (others.variance.array() * Growth(others.mean, mean_square)))
          .sum();
  const double phi = (kBelief + misses) / (kBelief + static_cast<double>(n));
  measurement.scale_squared.array() *=
      phi * Growth(prediction.mean, mean_square);
  return measurement;
}

double NegativeLogDensity(double value, double location, double scale_squared) {
  constexpr double kNu = MeasurementPrediction::kDegreesOfFreedom;
  const double error = value - location;
  return std::lgamma(0.5 * kNu) - std::lgamma(0.5 * (kNu + 1.0)) +
         0.5 * std::log(kNu * std::numbers::pi * scale_squared) +
         0.5 * (kNu + 1.0) * std::log1p(error * error / (kNu * scale_squared));
}

}  // namespace surrogates
