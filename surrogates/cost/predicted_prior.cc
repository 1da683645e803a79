#include "surrogates/cost/predicted_prior.h"

#include <stdexcept>

#include "common/quantiles.h"

namespace surrogates {
namespace {

constexpr double kSlopeStddev = 0.1;
constexpr double kDifferenceStddev = 0.3;

}  // namespace

ParametricMean PredictedMean(const Eigen::VectorXd& x, const Eigen::VectorXd& y,
                             bool level_of_y, double shift,
                             double level_stddev) {
  if (x.size() == 0 || x.size() != y.size() || !x.allFinite() ||
      !y.allFinite()) {
    throw std::invalid_argument(
        "predictions must be finite and positive for every candidate");
  }
  ParametricMean mean;
  mean.link = ParametricMean::Link::kLogLinear;
  mean.features.setOnes(x.size(), 3);
  const auto median = [](const Eigen::VectorXd& values) {
    return common::UpperMedian({values.begin(), values.end()});
  };
  const double level = median(x);
  mean.features.col(1) = x.array() - level;
  mean.features.col(2) = y - x;
  if (!level_of_y) {
    mean.features.col(2).array() -= median(y - x);
  }
  mean.coefficients = {{"level", level + shift, level_stddev},
                       {"slope", 1.0, kSlopeStddev},
                       {"difference", 0.0, kDifferenceStddev}};
  return mean;
}

}  // namespace surrogates
