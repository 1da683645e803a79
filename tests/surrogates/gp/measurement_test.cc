#include "surrogates/gp/measurement.h"

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

namespace surrogates::measurement_test {

Eigen::VectorXd Vector(std::initializer_list<double> values) {
  return Eigen::VectorXd::Map(values.begin(),
                              static_cast<Eigen::Index>(values.size()));
}

const Prediction kThree{Vector({-1.0, 1.0, 4.0}), Vector({0.1, 0.1, 0.1})};

TEST(MeasurementPrediction, WithoutObservationsHasTheVarianceOfThePrediction) {
  const MeasurementPrediction measured = PredictMeasurements({}, {}, kThree);
  EXPECT_EQ(measured.location, kThree.mean);
  EXPECT_EQ(measured.scale_squared, kThree.variance);
}

// Residuals of 1 and -1 where a deviation of 0.5 was said; values 1 and -1, so
// that y2 = 1 and, for means of 0 and 0, g = 1 / 6.
TEST(MeasurementPrediction, IsThatOfTheEquation) {
  const MeasurementPrediction measured = PredictMeasurements(
      Vector({1.0, -1.0}), {Vector({0.0, 0.0}), Vector({0.25, 0.25})}, kThree);
  const double phi = (4.0 + 2.0 * 1.0 / (0.25 / 6.0)) / (4.0 + 2.0);
  EXPECT_NEAR(measured.scale_squared[0], 0.1 * phi / 6.0, 1e-12);
  EXPECT_NEAR(measured.scale_squared[1], 0.1 * phi, 1e-12);
  EXPECT_NEAR(measured.scale_squared[2], 0.1 * phi * 16.2 / 1.2, 1e-12);
}

// Values of 2 and 4, so that y2 = 10, which others predict as 1 and 5 with the
// variances 1 and 4: g is 0.3 / 1.2 and 2.7 / 1.2.
TEST(MeasurementPrediction, WeighsEachResidualByItsOwnMean) {
  const MeasurementPrediction measured = PredictMeasurements(
      Vector({2.0, 4.0}), {Vector({1.0, 5.0}), Vector({1.0, 4.0})}, kThree);
  const double phi = (4.0 + 1.0 / 0.25 + 1.0 / (4.0 * 2.25)) / (4.0 + 2.0);
  EXPECT_NEAR(measured.scale_squared[1], 0.1 * phi * 0.3 / 1.2, 1e-12);
}

TEST(MeasurementPrediction, OneObservationCountsAsOne) {
  const MeasurementPrediction measured = PredictMeasurements(
      Vector({1.0}), {Vector({0.0}), Vector({1.0})}, kThree);
  EXPECT_NEAR(measured.scale_squared[1], 0.1 * (4.0 + 6.0) / 5.0, 1e-12);
}

TEST(MeasurementPrediction, TheDensityIsOneAndTheIntervalHoldsItsShare) {
  constexpr double kStep = 0.01;
  constexpr double kScale = 0.5;
  double all = 0.0;
  double inside = 0.0;
  for (int i = -100000; i < 100000; ++i) {
    const double value = (i + 0.5) * kStep;
    const double mass =
        kStep * std::exp(-NegativeLogDensity(value, 2.0, kScale * kScale));
    all += mass;
    inside +=
        std::abs(value - 2.0) <= MeasurementPrediction::kTwoSided95 * kScale
            ? mass
            : 0.0;
  }
  EXPECT_NEAR(all, 1.0, 1e-6);
  EXPECT_NEAR(inside, 0.95, 1e-3);
}

TEST(MeasurementPrediction, RejectsValuesWithoutALeaveOneOutPrediction) {
  EXPECT_THROW((void)PredictMeasurements(Vector({1.0}), {}, kThree),
               std::invalid_argument);
  EXPECT_THROW((void)PredictMeasurements(
                   Vector({1.0}), {Vector({1.0}), Vector({1.0, 2.0})}, kThree),
               std::invalid_argument);
  EXPECT_THROW((void)PredictMeasurements(
                   Vector({1.0}), {Vector({1.0, 2.0}), Vector({1.0})}, kThree),
               std::invalid_argument);
}

// 3/8 (1 + x^2 / 4)^(-5/2) / s at x = (3 - 1) / 2 and s = 2.
TEST(MeasurementPrediction, TheDensityIsStudentsWithFourDegreesOfFreedom) {
  EXPECT_NEAR(NegativeLogDensity(3.0, 1.0, 4.0),
              -std::log(3.0 / 8.0 / 2.0) + 2.5 * std::log(1.25), 1e-12);
}

}  // namespace surrogates::measurement_test
