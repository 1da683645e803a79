#include "surrogates/cost/predicted_prior.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/encoding.h"
#include "surrogates/gp/gaussian_process.h"
#include "trials/search_space.h"

namespace surrogates::predicted_prior_test {

// Sixteen candidates on a line, predicted to take 1, 2, ... s.
class PredictedMeanTest : public testing::Test {
 protected:
  static constexpr int kSize = 16;

  PredictedMeanTest() {
    std::vector<trials::ParallelConfig> configs;
    for (int i = 1; i <= kSize; ++i) {
      configs.push_back({.microbatches = i});
    }
    space_ = Encode(trials::SearchSpace(configs));
    x_ = -Eigen::VectorXd::LinSpaced(kSize, 1.0, kSize).array().log();
  }

  // The mean of a process after it has seen `truth` at some candidates.
  [[nodiscard]] Prediction After(const Eigen::VectorXd& y,
                                 const Eigen::VectorXd& truth,
                                 const std::vector<int>& seen) const {
    GaussianProcess process(space_, PredictedMean(x_, y, false, 0.0, 2.0),
                            {.target_scale = 0.2, .signal_log_stddev = 2.0});
    const auto n = static_cast<Eigen::Index>(seen.size());
    process.Fit({seen, truth(seen), Eigen::VectorXd::Constant(n, 1e-6)});
    Prediction prediction;
    process.Predict(prediction);
    return prediction;
  }

  static double Error(const Prediction& prediction,
                      const Eigen::VectorXd& truth) {
    return (prediction.mean - truth).cwiseAbs().maxCoeff();
  }

  EncodedSpace space_;
  Eigen::VectorXd x_;
  // Nothing is known of the order.
  Eigen::VectorXd nothing_ = Eigen::VectorXd::Zero(kSize);
};

TEST_F(PredictedMeanTest, BeforeTheFirstObservationIsThePrediction) {
  EXPECT_LT(Error(After(nothing_, x_, {}), x_), 1e-9);
}

TEST_F(PredictedMeanTest, OneObservationGivesTheScaleOfAllCandidates) {
  const Eigen::VectorXd twice_as_slow = x_.array() - std::log(2.0);
  EXPECT_LT(Error(After(nothing_, twice_as_slow, {3}), twice_as_slow), 0.05);
}

TEST_F(PredictedMeanTest, UselessPredictionsGiveWayToTheOtherModel) {
  Eigen::VectorXd truth = x_;
  for (int i = 0; i < kSize; ++i) {
    truth[i] = std::sin(5.0 * i);  // which the other model knows
  }
  const std::vector<int> seen = {0, 2, 4, 6, 8, 10, 12, 14};
  const double with = Error(After(truth, truth, seen), truth);
  EXPECT_LT(with, 0.5 * Error(After(nothing_, truth, seen), truth));
}

TEST_F(PredictedMeanTest, UncertaintyOfTheCoefficientsIsThatOfALinearModel) {
  // Without an observation: 4 + 0.1^2 u^2 + 0.3^2 d^2, the kernel aside.
  const ParametricMean mean = PredictedMean(x_, nothing_, false, 0.0, 2.0);
  const Prediction prior = After(nothing_, x_, {});
  const auto variance = [&](int i) {
    return 4.0 + std::pow(0.1 * mean.features(i, 1), 2) +
           std::pow(0.3 * mean.features(i, 2), 2);
  };
  for (int i = 1; i < kSize; ++i) {
    EXPECT_NEAR(prior.variance[i] - prior.variance[0],
                variance(i) - variance(0), 1e-9);
  }
}

// Predictions of a smaller model have the wrong level; the other model's is
// that of the job.
TEST_F(PredictedMeanTest, TheLevelOfTheOtherModelCountsWhereItIsKnown) {
  const Eigen::VectorXd y = x_.array() + 2.0;
  const auto uncertainty = [&](bool level_of_y) {
    GaussianProcess process(space_, PredictedMean(x_, y, level_of_y, 0.0, 0.1),
                            {.target_scale = 0.1});
    Prediction prediction;
    process.Predict(prediction);
    return prediction.variance[3];
  };
  EXPECT_NEAR(uncertainty(true) - uncertainty(false), std::pow(0.3 * 2.0, 2),
              1e-9);
}

// Every other candidate needs more by the other model, and more by the
// assumption.
TEST_F(PredictedMeanTest, ObservationsSayWhichOfItsModelsIsRight) {
  const Eigen::VectorXd parity = Eigen::VectorXd::NullaryExpr(
      kSize, [](Eigen::Index i) { return i % 2 == 0 ? 1.0 : 0.0; });
  const Eigen::VectorXd z = std::log(2.0) * parity;
  const auto log_odds = [&](const Eigen::VectorXd& y,
                            const Eigen::VectorXd& other,
                            const Eigen::VectorXd& truth,
                            const std::vector<int>& seen, int coefficient) {
    GaussianProcess process(space_,
                            PredictedMean(x_, y, false, 0.0, 0.3, other),
                            {.target_scale = 0.1});
    process.Fit({seen, truth(seen),
                 Eigen::VectorXd::Constant(
                     static_cast<Eigen::Index>(seen.size()), 1e-6)});
    return process.LogOddsOfOne(coefficient);
  };
  const auto of_model = [&](const Eigen::VectorXd& truth,
                            const std::vector<int>& seen) {
    return log_odds(x_ + parity, {}, truth, seen, kDifference);
  };
  EXPECT_NEAR(of_model(x_, {}), 0.0, 1e-9);
  // At any level.
  EXPECT_GT(of_model(x_.array() + parity.array() + 0.3, {2, 5, 8, 11}), 3.0);
  EXPECT_LT(of_model(x_.array() - 0.3, {2, 5, 8, 11}), -3.0);
  const auto of_assumption = [&](const Eigen::VectorXd& truth,
                                 const std::vector<int>& seen) {
    return log_odds(nothing_, z, truth, seen, kAssumption);
  };
  EXPECT_NEAR(of_assumption(x_, {}), 0.0, 1e-9);
  EXPECT_GT(of_assumption(x_ + z, {2, 5, 8, 11}), 3.0);
  EXPECT_LT(of_assumption(x_, {2, 5, 8, 11}), -3.0);
  // One kind alone may have another level.
  EXPECT_LT(std::abs(of_assumption(x_ + z, {2, 8})), 2.5);
}

TEST_F(PredictedMeanTest, RejectsPredictionsThatAreNotFiniteAndPositive) {
  for (const double value : {0.0, -1.0}) {
    Eigen::VectorXd wrong = x_;
    wrong[1] = std::log(value);
    EXPECT_THROW((void)PredictedMean(wrong, nothing_, false, 0.0, 1.0),
                 std::invalid_argument);
    EXPECT_THROW((void)PredictedMean(x_, wrong, false, 0.0, 1.0),
                 std::invalid_argument);
  }
  EXPECT_THROW((void)PredictedMean({}, {}, false, 0.0, 1.0),
               std::invalid_argument);
}

// Twelve candidates in six families, predicted to be equally fast. With slow
// links, those of the families 3, 4 and 5 take e times as long, and with fast
// ones that much less.
class AlternativesTest : public testing::Test {
 protected:
  AlternativesTest() {
    Eigen::VectorXd slower = Eigen::VectorXd::Zero(12);
    slower.tail(6).setConstant(-1.0);
    all_ = {{"slow links", std::log(0.25), slower},
            {"fast links", std::log(0.25), -slower}};
    std::vector<int> families;
    for (int i = 0; i < 12; ++i) {
      families.push_back(i / 2);
    }
    alternatives_ = Alternatives(Eigen::VectorXd::Zero(12), all_, families);
  }

  // Of these candidates with slow links, at any level.
  void Observe(const std::vector<int>& seen, double level) {
    const auto n = static_cast<Eigen::Index>(seen.size());
    alternatives_.Weigh({seen, all_[0].difference(seen).array() + level,
                         Eigen::VectorXd::Constant(n, 1e-4)},
                        {});
  }

  // What candidates of the families 3, 4 and 5 lose to the others.
  [[nodiscard]] double Loss() const {
    return alternatives_.difference()[0] - alternatives_.difference()[11];
  }

  std::vector<Alternative> all_;
  Alternatives alternatives_;
};

TEST_F(AlternativesTest, WithoutObservationsAreAsLikelyAsTheirOdds) {
  EXPECT_NEAR(Loss(), 0.0, 1e-12);
  EXPECT_NEAR(alternatives_.variance()[0] + alternatives_.variance()[11],
              10.0 / 36.0, 1e-12);
  ASSERT_EQ(alternatives_.shares().size(), 2u);
  EXPECT_NEAR(alternatives_.shares()[0].probability, 0.25 / 1.5, 1e-12);
}

TEST_F(AlternativesTest, AreLearnedFromAFewFamiliesAtAnyLevel) {
  for (const double level : {-1.5, 0.0, 2.0}) {
    Observe({0, 2, 6, 8}, level);
    EXPECT_GT(Loss(), 0.9) << level;
    EXPECT_EQ(alternatives_.shares().front().assumption, "slow links");
    EXPECT_GT(alternatives_.shares().front().probability, 0.9);
  }
}

// It may be wrong about the family alone.
TEST_F(AlternativesTest, AreNotLearnedFromOneFamily) {
  Observe({6, 7}, 0.0);
  EXPECT_LT(Loss(), 0.1);
}

TEST_F(AlternativesTest, AnErrorFarBeyondAllOfThemLeavesNumbers) {
  Eigen::VectorXd wild(4);
  wild << 0.0, 300.0, -300.0, 500.0;
  alternatives_.Weigh({{0, 2, 6, 8}, wild, Eigen::VectorXd::Constant(4, 1e-4)},
                      {});
  EXPECT_TRUE(alternatives_.difference().allFinite());
}

// Of memory, say: links have nothing to do with it.
TEST_F(AlternativesTest, AnotherTargetWeighsWhatChangesIt) {
  const auto probability = [this](const Alternatives::Evidence& evidence) {
    Alternatives alternatives(Eigen::VectorXd::Zero(12), all_,
                              std::vector<int>(12));
    alternatives.Weigh({}, evidence);
    for (const auto& share : alternatives.shares()) {
      if (share.assumption == all_[1].assumption) {
        return share.probability;
      }
    }
    return 0.0;
  };
  all_[1].another_model = true;
  EXPECT_NEAR(probability({}), 0.25 / 1.5, 1e-12);
  EXPECT_NEAR(probability({.another_model = std::log(4.0), .other_memory = 5}),
              1.0 / 2.25, 1e-12);
  EXPECT_EQ(probability({.another_model = -100.0}), 0.0);
  all_[1].another_model = false;
  all_[1].other_memory = true;
  EXPECT_NEAR(probability({.another_model = 5, .other_memory = std::log(4.0)}),
              1.0 / 2.25, 1e-12);
}

TEST_F(AlternativesTest, NeedADifferenceForEveryCandidate) {
  EXPECT_THROW(Alternatives(Eigen::VectorXd::Zero(3), all_, {0, 1, 2}),
               std::invalid_argument);
}

}  // namespace surrogates::predicted_prior_test
