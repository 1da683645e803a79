#include "surrogates/cost/misspecification.h"

#include <gtest/gtest.h>

#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates {
namespace {

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

}  // namespace
}  // namespace surrogates
