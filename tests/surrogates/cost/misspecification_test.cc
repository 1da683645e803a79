#include "surrogates/cost/misspecification.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::misspecification_test {

TEST(Misspecification, IsAWaveThatReachesOneAndBothSigns) {
  const auto problem = tests::MakeSyntheticProblem(400, 5, 2, 1);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Eigen::VectorXd wave = Misspecification(problem.space, seed);
    ASSERT_EQ(wave.size(), 400);
    EXPECT_DOUBLE_EQ(wave.cwiseAbs().maxCoeff(), 1.0);
    EXPECT_LT(wave.minCoeff(), 0.0);
    EXPECT_GT(wave.maxCoeff(), 0.0);
    EXPECT_EQ(wave, Misspecification(problem.space, seed));
    EXPECT_NE(wave, Misspecification(problem.space, seed + 10));
  }
}

// In one dimension the direction is +-1, so half of the range is half a wave.
TEST(Misspecification, HasOneWavePerUnit) {
  EncodedSpace space;
  space.points = Eigen::RowVectorXd::LinSpaced(5, 0.0, 1.0);
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const Eigen::VectorXd wave = Misspecification(space, seed);
    EXPECT_NEAR(wave[4], wave[0], 1e-12);
    EXPECT_NEAR(wave[2], -wave[0], 1e-12);
    EXPECT_NEAR(wave[3], -wave[1], 1e-12);
  }
}

TEST(Misspecification, OfOneCandidateIsOneOrMinusOne) {
  EncodedSpace space;
  space.points.resize(0, 1);
  EXPECT_EQ(std::abs(Misspecification(space, 1)[0]), 1.0);
}

}  // namespace surrogates::misspecification_test
