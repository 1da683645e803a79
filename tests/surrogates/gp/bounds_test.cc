#include "surrogates/gp/bounds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/encoding.h"
#include "trials/search_space.h"

namespace surrogates::bounds_test {

// Eight candidates on a line, whose value has this mean and an error of 0.3.
class BoundsTest : public testing::Test {
 protected:
  BoundsTest() {
    std::vector<trials::ParallelConfig> configs;
    for (int i = 1; i <= 8; ++i) {
      configs.push_back({.microbatches = i});
    }
    space_ = Encode(trials::SearchSpace(configs));
  }

  [[nodiscard]] GaussianProcess Around(double mean) const {
    ParametricMean prior;
    prior.link = ParametricMean::Link::kLogLinear;
    prior.features = Eigen::MatrixXd::Ones(8, 1);
    prior.coefficients = {{"level", mean, 1e-6}};
    return {space_, prior, {.learn_nugget = false, .target_scale = 0.3}};
  }

  [[nodiscard]] static Prediction Of(const GaussianProcess& process) {
    Prediction prediction;
    process.Predict(prediction);
    return prediction;
  }

  [[nodiscard]] static Prediction After(GaussianProcess process,
                                        const std::vector<Bound>& bounds) {
    const Observations all = WithBounds(process, {}, bounds);
    process.Condition(all, process.hyperparameters());
    return Of(process);
  }

  EncodedSpace space_;
};

// The moments of p(bound | f) N(f; m, v), integrated numerically.
TEST_F(BoundsTest, TheObservationLeavesTheMomentsOfTheBound) {
  for (const double mean : {-0.9, -0.2, 0.0, 0.4}) {
    for (const bool at_least : {true, false}) {
      const GaussianProcess process = Around(mean);
      const double variance = Of(process).variance[2];
      const double e = at_least ? 0.02 : 0.001;
      double mass = 0.0, first = 0.0, second = 0.0;
      const double step = 1e-4;
      for (double f = mean - 4.0; f < mean + 4.0; f += step) {
        const bool beyond = at_least ? f >= 0.0 : f <= 0.0;
        const double p = (e + (beyond ? 1.0 - e : 0.0)) *
                         std::exp(-0.5 * (f - mean) * (f - mean) / variance);
        mass += p;
        first += p * f;
        second += p * f * f;
      }
      const double expected = first / mass;
      const double left = second / mass - expected * expected;
      const Prediction after = After(process, {{2, at_least}});
      EXPECT_NEAR(after.mean[2], expected, 2e-3) << mean << at_least;
      // No observation can widen a belief.
      EXPECT_NEAR(after.variance[2], std::min(left, 10.0 / 11.0 * variance),
                  2e-3)
          << mean << at_least;
    }
  }
}

TEST_F(BoundsTest, AFailureRaisesItsNeighboursMoreThanOthers) {
  const GaussianProcess process = Around(-0.1);
  const Eigen::VectorXd moved =
      After(process, {{0, true}}).mean - Of(process).mean;
  EXPECT_GT(moved[0], 0.05);
  for (int i = 1; i < 8; ++i) {
    EXPECT_LT(moved[i], moved[i - 1]);
  }
}

// The posterior of two failures next to each other, integrated numerically.
TEST_F(BoundsTest, ASecondFailureOfAKindIsNoCoincidence) {
  for (const double mean : {-0.2, -0.4, -0.5, -0.6}) {
    const GaussianProcess process = Around(mean);
    const Eigen::Matrix2d precision = process.JointCovariance({2, 3}).inverse();
    double mass = 0.0, first = 0.0;
    constexpr int kSteps = 400;
    for (int i = 0; i < kSteps * kSteps; ++i) {
      const Eigen::Vector2d d(0.01 * (i % kSteps) - 2.0,
                              0.01 * (i / kSteps) - 2.0);
      const double p = (mean + d[0] >= 0.0 ? 1.0 : 0.02) *
                       (mean + d[1] >= 0.0 ? 1.0 : 0.02) *
                       std::exp(-0.5 * d.dot(precision * d));
      mass += p;
      first += p * (mean + d[1]);
    }
    EXPECT_NEAR(After(process, {{2, true}, {3, true}}).mean[3], first / mass,
                0.08)
        << mean;
  }
}

// Its cause is likely another one.
TEST_F(BoundsTest, AFailureThatWasImpossibleMovesNothing) {
  const GaussianProcess process = Around(-3.0);
  EXPECT_LT((After(process, {{0, true}}).mean - Of(process).mean).maxCoeff(),
            0.01);
}

TEST_F(BoundsTest, KeepsWhatWasMeasured) {
  const Observations measured{{3},
                              Eigen::VectorXd::Constant(1, -0.5),
                              Eigen::VectorXd::Constant(1, 1e-4)};
  GaussianProcess process = Around(-0.5);
  const Observations all =
      WithBounds(process, measured, {{5, true}, {6, false}});
  EXPECT_EQ(all.candidate, (std::vector<int>{3, 5, 6}));
  EXPECT_EQ(all.value[0], -0.5);
  EXPECT_EQ(all.noise_variance[0], 1e-4);
}

}  // namespace surrogates::bounds_test
