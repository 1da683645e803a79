#include "methods/fitted_process.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/cost/predicted_prior.h"
#include "surrogates/encoding.h"
#include "trials/search_space.h"

namespace methods::fitted_process_test {

// Eight candidates on a line.
const surrogates::EncodedSpace& Line() {
  static const surrogates::EncodedSpace space = [] {
    std::vector<trials::ParallelConfig> configs;
    for (int dp = 1; dp <= 128; dp *= 2) {
      configs.push_back({.dp = dp});
    }
    return surrogates::Encode(trials::SearchSpace(configs));
  }();
  return space;
}

FitInput Observing(const std::vector<int>& candidates,
                   const std::vector<double>& values) {
  const auto n = static_cast<Eigen::Index>(values.size());
  return {.observations = {candidates,
                           Eigen::Map<const Eigen::VectorXd>(values.data(), n),
                           Eigen::VectorXd::Constant(n, 1e-6)}};
}

// The unit of the target has no effect, from the first observation on.
TEST(FittedProcess, CentersThatFollowTheMedianScaleWithTheObservations) {
  const auto coefficient = [](double unit) {
    FittedProcess process(Line(), surrogates::ConstantMean(8),
                          {.centers_follow_median = true});
    FitInput input = Observing({4}, {unit});
    input.observations.noise_variance *= unit * unit;
    (void)process.Fit(input);
    return process.process().hyperparameters().log_coefficients[0];
  };
  EXPECT_NEAR(coefficient(1000.0) - coefficient(1.0), std::log(1000.0), 1e-3);
}

// Memory of 0.3, 0.4, ... of the capacity is predicted.
FittedProcess OfMemory(int refit_every_trial_until = 100) {
  const Eigen::VectorXd predicted =
      Eigen::VectorXd::LinSpaced(8, 0.3, 1.0).array().log();
  return {Line(),
          surrogates::PredictedMean(predicted, predicted, false, 0.0, 0.3),
          {.fit = {.target_scale = 0.2},
           .refit_every_trial_until = refit_every_trial_until}};
}

Eigen::VectorXd Means(const FittedProcess& process) {
  surrogates::Prediction prediction;
  process.process().Predict(prediction);
  return prediction.mean;
}

TEST(FittedProcess, ABoundIsNoMeasurementAndMovesAllThatShareItsCause) {
  FittedProcess before = OfMemory();
  FitInput input = Observing({0}, {std::log(0.3)});
  (void)before.Fit(input);
  FittedProcess after = OfMemory();
  input.bounds = {{5, true}};  // predicted to need 0.8
  (void)after.Fit(input);
  const Eigen::VectorXd moved = Means(after) - Means(before);
  EXPECT_LT(std::abs(moved[0]), 0.01);  // which was measured
  EXPECT_GT(moved[5], 0.1);
  EXPECT_GT(moved[6], 0.05);
  EXPECT_NE(after.process().observations().value[1], 0.0);
}

// What does not fit in is conditioned on nevertheless.
TEST(FittedProcess, ManyObservationsAreFittedToSomeOfThem) {
  const auto fitted = [](const std::vector<int>& candidates,
                         const std::vector<double>& values) {
    FittedProcess process(Line(), surrogates::ConstantMean(8),
                          {.fit = {.target_scale = 1.0}, .most_fitted = 3});
    (void)process.Fit(Observing(candidates, values));
    return process;
  };
  const std::vector<double> values = {1.0, 5.0, 2.0, 4.0, 3.0};
  const FittedProcess all = fitted({0, 1, 3, 5, 7}, values);
  const FittedProcess some = fitted({0, 3, 7}, {1.0, 2.0, 3.0});
  EXPECT_EQ(all.process().hyperparameters().log_length_scales,
            some.process().hyperparameters().log_length_scales);
  EXPECT_EQ(all.process().observations().size(), 5);
  EXPECT_LT(std::abs(Means(all)[5] - 4.0),
            0.8 * std::abs(Means(some)[5] - 4.0));
}

// The largest are kept, and among the others the first and the last.
TEST(FittedProcess, ManyMoreObservationsAreConditionedOnSomeOfThem) {
  FittedProcess process(Line(), surrogates::ConstantMean(8),
                        {.fit = {.target_scale = 1.0},
                         .refit_every_trial_until = 5,
                         .refit_growth = 0.5,
                         .most_fitted = 3,
                         .most_conditioned = 4});
  (void)process.Fit(
      Observing({0, 1, 2, 3, 4, 5}, {1.0, 6.0, 2.0, 4.0, 3.0, 5.0}));
  const auto candidates = [&] {
    return process.process().observations().candidate;
  };
  EXPECT_EQ(candidates(), (std::vector<int>{0, 1, 4, 5}));
  const auto scales = process.process().hyperparameters().log_length_scales;
  (void)process.Fit(
      Observing({0, 1, 2, 3, 4, 5, 6}, {1.0, 6.0, 2.0, 4.0, 3.0, 5.0, 9.0}));
  EXPECT_EQ(candidates(), (std::vector<int>{0, 1, 4, 5, 6}));
  EXPECT_EQ(process.process().hyperparameters().log_length_scales, scales);
  (void)process.Fit(Observing({0, 1, 2, 3, 4, 5, 6, 7},
                              {1.0, 6.0, 2.0, 4.0, 3.0, 5.0, 9.0, 0.5}));
  EXPECT_EQ(candidates(), (std::vector<int>{0, 1, 6, 7}));
}

// Between fits, hyperparameters stay, and bounds follow from all observations.
TEST(FittedProcess, ConditionsOnBoundsBetweenFits) {
  FittedProcess process = OfMemory(4);
  FitInput input = Observing({0, 1, 2}, {-1.1, -0.9, -0.7});
  for (int i = 3; i < 8; ++i) {
    input.bounds.push_back({i, i > 5});
    (void)process.Fit(input);
  }
  const auto scales = process.process().hyperparameters().log_length_scales;
  input.observations = Observing({0, 1, 2}, {-1.1, -0.9, -0.69}).observations;
  const auto summary = process.Fit(input);
  EXPECT_EQ(process.process().hyperparameters().log_length_scales, scales);
  EXPECT_FALSE(summary.parameters.empty());
}

}  // namespace methods::fitted_process_test
