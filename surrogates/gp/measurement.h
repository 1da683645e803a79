// The predictive distribution of a configuration's next measurement.

#pragma once

#include <Eigen/Core>

#include "surrogates/surrogate.h"

namespace surrogates {

// Student's t distribution at every candidate. The search uses Prediction, the
// posterior of f; reported intervals use this distribution.
// Shapes: [N].
struct MeasurementPrediction {
  // The tails of single configurations stay heavy however many others were
  // measured: the degrees of freedom do not grow with the observations.
  static constexpr double kDegreesOfFreedom = 4.0;
  static constexpr double kTwoSided95 = 2.776445105;  // in units of the scale

  // The variance, in units of the scale squared.
  static constexpr double kVariance =
      kDegreesOfFreedom / (kDegreesOfFreedom - 2.0);

  Eigen::VectorXd location;
  // squared; the noise of the measurement's own steps comes on top
  Eigen::VectorXd scale_squared;
};

// From `prediction` with its variance v and mean m,
//
//   scale^2 = phi v g(m),   g(m) = (a + max(m, 0)^2 / y2) / (a + 1),
//   phi = (n_0 + sum_i r_i^2 / (v_i g(m_i))) / (n_0 + n),
//
// where y2 is the mean square of the n observed values, m_i and v_i the
// leave-one-out prediction of the i-th (GaussianProcess::LeaveOneOut) and r_i
// its residual. g: errors are larger for fast configurations, where v hardly
// differs. phi: the calibration of the leave-one-out predictions, with a prior
// weight of n_0 = 4 observations; a = 0.2. Without observations the result is
// `prediction`. docs/decisions/0011-intervals.md has the
// figures. Source: leave-one-out residuals as Rasmussen & Williams 2006,
// Sec. 5.4.2; Sundararajan & Keerthi 2001. Shapes: values [n], others [n],
// prediction [N]. Errors: throws std::invalid_argument where values and others
// differ in size.
[[nodiscard]] MeasurementPrediction PredictMeasurements(
    const Eigen::VectorXd& values, const Prediction& others,
    const Prediction& prediction);

// -log of the density of Student's t at `value`; scale_squared > 0.
[[nodiscard]] double NegativeLogDensity(double value, double location,
                                        double scale_squared);

}  // namespace surrogates
