#include "surrogates/cost/predicted_prior.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/quantiles.h"

namespace surrogates {
namespace {

// The error of c that measurements of the same machine leave.
constexpr double kTimeLogStddev = 0.3;
constexpr double kMemoryLogStddev = 0.05;
// The scale of another machine or framework.
constexpr double kTimeScaleLogStddev = 1.0;
constexpr double kMemoryScaleLogStddev = 0.7;
constexpr double kFixedTime = 0.02;    // of the median T
constexpr double kFixedMemory = 0.02;  // of the capacity
constexpr double kFixedLogStddev = 1.0;
constexpr double kLargestMinimum = 0.8;  // of the smallest peak

bool AreValid(const std::vector<double>& values) {
  return !values.empty() && std::ranges::all_of(values, [](double x) {
    return std::isfinite(x) && x > 0.0;
  });
}

// c x + c_0 for the values x.
ParametricMean ScaledValues(ParametricMean::Link link,
                            const std::vector<double>& values,
                            const std::string& name, double log_stddev,
                            double fixed) {
  if (!AreValid(values)) {
    throw std::invalid_argument(
        "predictions must be finite and positive for every candidate");
  }
  ParametricMean mean;
  mean.link = link;
  const auto n = static_cast<Eigen::Index>(values.size());
  mean.features.setOnes(n, 2);
  mean.features.col(0) = Eigen::Map<const Eigen::VectorXd>(values.data(), n);
  mean.coefficients = {
      {.name = name, .log_center = 0.0, .log_stddev = log_stddev},
      {.name = "constant",
       .log_center = std::log(fixed),
       .log_stddev = kFixedLogStddev}};
  return mean;
}

}  // namespace

ParametricMean PredictedThroughputPrior(
    const trials::Predictions& predictions) {
  const std::vector<double>& times = predictions.step_time_s;
  ParametricMean mean = ScaledValues(
      ParametricMean::Link::kInverse, times, "predicted step time",
      kTimeLogStddev,
      times.empty() ? 1.0 : kFixedTime * common::UpperMedian(times));
  mean.shared_scale = SharedScale{0.0, kTimeScaleLogStddev};
  return mean;
}

ParametricMean PredictedMemoryPrior(const trials::Predictions& predictions,
                                    double capacity_bytes, double clip) {
  ParametricMean mean =
      ScaledValues(ParametricMean::Link::kLinear, predictions.peak_memory_bytes,
                   "predicted memory", kMemoryLogStddev, kFixedMemory);
  mean.features.col(0) /= capacity_bytes;
  mean.coefficients.back().absolute = true;
  mean.clip = clip;
  const double smallest = mean.features.col(0).minCoeff();
  mean.shared_scale =
      SharedScale{std::min(0.0, std::log(kLargestMinimum / smallest)),
                  kMemoryScaleLogStddev};
  return mean;
}

}  // namespace surrogates
