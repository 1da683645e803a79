#include "methods/trusted_process.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/encoding.h"
#include "trials/search_space.h"

namespace methods::trusted_process_test {

using surrogates::ParametricMean;

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

// c x over the candidates, where c is exp(scale) and the scale is known.
ParametricMean Predicting(ParametricMean::Link link,
                          const Eigen::VectorXd& values) {
  ParametricMean mean;
  mean.link = link;
  mean.features = values;
  mean.coefficients = {{.name = "predicted", .log_stddev = 0.3}};
  mean.shared_scale = surrogates::SharedScale{0.0, 1e-9};
  return mean;
}

FitInput Observing(const std::vector<int>& candidates,
                   const std::vector<double>& values) {
  const auto n = static_cast<Eigen::Index>(values.size());
  return {.observations = {candidates,
                           Eigen::Map<const Eigen::VectorXd>(values.data(), n),
                           Eigen::VectorXd::Constant(n, 1e-6)}};
}

// The density of Student's t with four degrees of freedom is
// 3/8 (1 + x^2 / 4)^(-5/2).
double LogStudent(double error, double scale) {
  const double x = error / scale;
  return std::log(0.375 / scale) - 2.5 * std::log(1.0 + x * x / 4.0);
}

// Step times of 1 to 8 s are predicted.
std::unique_ptr<FittedProcess> OfTimes() {
  return std::make_unique<FittedProcess>(
      Line(),
      Predicting(ParametricMean::Link::kInverse,
                 Eigen::VectorXd::LinSpaced(8, 1.0, 8.0)),
      FittedProcess::Options{});
}

// Memory of 0.35, 0.7, 1.05, ... of the capacity is predicted.
std::unique_ptr<FittedProcess> OfMemory() {
  ParametricMean mean = Predicting(ParametricMean::Link::kLinear,
                                   Eigen::VectorXd::LinSpaced(8, 0.35, 2.8));
  mean.clip = 1.1;
  return std::make_unique<FittedProcess>(Line(), mean,
                                         FittedProcess::Options{});
}

TEST(FittedProcess, TheRecordComparesPredictionsWithTheMedian) {
  const auto process = OfTimes();
  const auto record = [&](const std::vector<int>& candidates,
                          const std::vector<double>& values) {
    return process->LogRecord(Observing(candidates, values));
  };
  EXPECT_EQ(record({}, {}), 0.0);
  EXPECT_EQ(record({2}, {0.3}), 0.0);  // the median is the observation
  // Times of 1 s, 4 s and 6 s were predicted. The median is the middle one.
  for (const double unit : {1.0, 50.0}) {
    const double expected = LogStudent(std::log(1.0 / (1.1 * unit)), 0.15) -
                            LogStudent(std::log(5 / 1.1), 0.6) +
                            LogStudent(std::log(4.0 / (5.0 * unit)), 0.15) -
                            LogStudent(0.0, 0.6) +
                            LogStudent(std::log(6.0 / (40.0 * unit)), 0.15) -
                            LogStudent(std::log(5.0 / 40.0), 0.6);
    EXPECT_NEAR(record({0, 3, 5}, {1.0 / (1.1 * unit), 1.0 / (5.0 * unit),
                                   1.0 / (40.0 * unit)}),
                2.0 / 3.0 * expected, 1e-6);
  }
}

TEST(FittedProcess, AFailureCountsByHowUnlikelyItWasPredictedToBe) {
  const auto process = OfMemory();
  const FitInput input = Observing({0, 1, 2, 3, 7}, {1.1, 0.6, 1.1, 1.1, 1.1});
  const FitInput measured = process->Measured(input);
  EXPECT_EQ(measured.observations.candidate, std::vector<int>{1});
  EXPECT_EQ(measured.observations.value, Eigen::VectorXd::Constant(1, 0.6));
  EXPECT_EQ(measured.observations.noise_variance.size(), 1);
  // Of 0.35 at most, of nearly 1, and of more than the capacity.
  const double evidence = process->FailureEvidence(input, measured);
  EXPECT_LE(evidence, std::log(0.2));
  EXPECT_GT(evidence, std::log(0.2) + std::log(0.5));
  EXPECT_NEAR(process->FailureEvidence(Observing({0}, {1.1}), measured),
              std::log(0.2), 1e-12);
  EXPECT_EQ(process->FailureEvidence(Observing({7}, {1.1}), measured), 0.0);
}

double Parameter(const surrogates::FitSummary& summary,
                 const std::string& name) {
  for (const auto& parameter : summary.parameters) {
    if (parameter.name == name) {
      return parameter.value;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// The odds of 3 to 2 before the first trial, each failure 1 to 5.
TEST(TrustedProcess, OfFailuresOnlyTheUnpredictedOnesCost) {
  TrustedProcess process(OfMemory(), OfMemory);
  const auto trust = [&](const std::vector<int>& candidates) {
    return Parameter(
        process.Fit(
            Observing(candidates, std::vector<double>(candidates.size(), 1.1))),
        "trust");
  };
  EXPECT_NEAR(trust({6, 7}), 0.6, 1e-12);
  const double odds = 1.5 * 0.2;
  EXPECT_NEAR(trust({7, 6, 0}), odds / (1.0 + odds), 1e-12);
  EXPECT_NEAR(trust({7, 6, 0, 1}), odds * 0.2 / (1.0 + odds * 0.2), 1e-12);
}

std::unique_ptr<FittedProcess> OfOtherTimes() {
  return std::make_unique<FittedProcess>(
      Line(),
      Predicting(ParametricMean::Link::kInverse,
                 Eigen::VectorXd::LinSpaced(8, 1.2, 8.2)),
      FittedProcess::Options{});
}

// log p / (1 - p) = log 3 / 2 + E_P - E_F + LogRecord / 4, and P is used if p
// is at least the threshold.
TEST(TrustedProcess, TheEvidenceAndAQuarterOfTheRecordDecide) {
  for (const FitInput& input :
       {Observing({0, 3}, {1.1, 1.0 / 4.5}),
        Observing({0, 3, 5, 7}, {1.1, 1.0 / 4.5, 1.0 / 5.5, 1.0 / 8.5})}) {
    const auto preferred = OfTimes();
    const double evidence = preferred->Fit(input).log_posterior;
    const double other = OfOtherTimes()->Fit(input).log_posterior;
    const double log_odds =
        std::log(1.5) + evidence - other + 0.25 * preferred->LogRecord(input);
    const double expected = 1.0 / (1.0 + std::exp(-log_odds));
    ASSERT_GT(expected, 0.02);  // it is not settled
    ASSERT_LT(expected, 0.98);
    for (const double threshold : {0.01, 0.99}) {
      TrustedProcess process(OfTimes(), OfOtherTimes);
      const surrogates::FitSummary summary = process.Fit(input, threshold);
      const double trust = Parameter(summary, "trust");
      EXPECT_NEAR(trust, expected, 1e-9);
      EXPECT_EQ(Parameter(summary, "uses_predictions"),
                trust >= threshold ? 1.0 : 0.0);
      EXPECT_EQ(summary.log_posterior, trust >= threshold ? evidence : other);
      EXPECT_EQ(process.plausible().size(), 2U);
      TrustedProcess at_the_threshold(OfTimes(), OfOtherTimes);
      EXPECT_EQ(
          Parameter(at_the_threshold.Fit(input, trust), "uses_predictions"),
          1.0);
    }
  }
}

TEST(TrustedProcess, OneThatIsSettledLeavesNoOther) {
  TrustedProcess process(OfTimes(), OfOtherTimes);
  (void)process.Fit(
      Observing({0, 1, 2, 3, 4, 5, 6, 7},
                {1.0, 0.5, 1.0 / 3.0, 0.25, 0.2, 1.0 / 6.0, 1.0 / 7.0, 0.125}));
  EXPECT_EQ(process.plausible(), std::vector{&process.chosen()});
}

TEST(TrustedProcess, WithoutAFallbackReportsNoTrust) {
  TrustedProcess process(OfTimes(), nullptr);
  const surrogates::FitSummary summary =
      process.Fit(Observing({0, 1, 2}, {0.1, 9.0, 0.1}), 2.0);
  EXPECT_TRUE(std::isnan(Parameter(summary, "trust")));
  EXPECT_TRUE(std::isnan(Parameter(summary, "uses_predictions")));
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

}  // namespace methods::trusted_process_test
