#include "surrogates/gp/bfgs.h"

#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/gp/likelihood.h"
#include "tests/surrogates/gp/synthetic_problem.h"

#if __has_include(<nlopt.hpp>)
#include <nlopt.hpp>
#define OPPA_HAVE_NLOPT 1
#else
#define OPPA_HAVE_NLOPT 0
#endif

namespace surrogates::bfgs_test {

const double kInfinity = std::numeric_limits<double>::infinity();

Eigen::VectorXd Constant(Eigen::Index n, double value) {
  return Eigen::VectorXd::Constant(n, value);
}

double Rosenbrock(const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
  double f = 0.0;
  gradient->setZero(x.size());
  for (Eigen::Index i = 0; i + 1 < x.size(); ++i) {
    const double u = x[i + 1] - x[i] * x[i];
    const double v = 1.0 - x[i];
    f += 100.0 * u * u + v * v;
    (*gradient)[i] += -400.0 * x[i] * u - 2.0 * v;
    (*gradient)[i + 1] += 200.0 * u;
  }
  return f;
}

TEST(MinimizeBfgs, FindsTheMinimumOfRosenbrock) {
  const BfgsSummary summary = MinimizeBfgs(
      Rosenbrock, Constant(6, -1.2), Constant(6, -5.0), Constant(6, 5.0),
      {.gradient_tolerance = 1e-6, .value_tolerance = 0.0});
  EXPECT_TRUE(summary.converged);
  EXPECT_LT((summary.x - Constant(6, 1.0)).norm(), 1e-5);
  EXPECT_LT(summary.evaluations, 150);
}

TEST(MinimizeBfgs, StopsAtTheBoundsThatHoldTheMinimum) {
  // Minimum of a skewed quadratic over a box: the optimality conditions hold.
  std::mt19937_64 engine(1);
  std::normal_distribution<double> normal;
  for (int problem = 0; problem < 20; ++problem) {
    const Eigen::MatrixXd root =
        Eigen::MatrixXd::NullaryExpr(8, 8, [&] { return normal(engine); });
    const Eigen::MatrixXd hessian =
        root * root.transpose() + 0.1 * Eigen::MatrixXd::Identity(8, 8);
    const Eigen::VectorXd linear =
        Eigen::VectorXd::NullaryExpr(8, [&] { return 5.0 * normal(engine); });
    const Objective objective = [&](const Eigen::VectorXd& x,
                                    Eigen::VectorXd* gradient) {
      *gradient = hessian * x - linear;
      return 0.5 * x.dot(hessian * x) - linear.dot(x);
    };
    const BfgsSummary summary = MinimizeBfgs(
        objective, Constant(8, 0.3), Constant(8, -0.5), Constant(8, 1.0),
        {.gradient_tolerance = 1e-6, .value_tolerance = 0.0});
    const Eigen::VectorXd gradient = hessian * summary.x - linear;
    const Eigen::VectorXd projected =
        (summary.x - gradient).cwiseMax(-0.5).cwiseMin(1.0) - summary.x;
    EXPECT_LT(projected.norm(), 1e-5);
    EXPECT_GE(summary.x.minCoeff(), -0.5);
    EXPECT_LE(summary.x.maxCoeff(), 1.0);
  }
}

TEST(MinimizeBfgs, StepsBackFromInfinity) {
  const Objective objective = [](const Eigen::VectorXd& x,
                                 Eigen::VectorXd* gradient) {
    *gradient = Constant(1, 1.0 - 1.0 / x[0]);
    return x[0] > 0.0 ? x[0] - std::log(x[0]) : kInfinity;
  };
  const BfgsSummary summary = MinimizeBfgs(
      objective, Constant(1, 9.0), Constant(1, -10.0), Constant(1, 10.0));
  EXPECT_NEAR(summary.x[0], 1.0, 1e-4);
}

TEST(MinimizeBfgs, GoesOnWhereTheFunctionCrossesZero) {
  // A relative test that divides by the signed value stops here at once.
  const Objective objective = [](const Eigen::VectorXd& x,
                                 Eigen::VectorXd* gradient) {
    *gradient = 2.0 * (x.array() - 3.0);
    return (x.array() - 3.0).square().sum() - 4.0;
  };
  const BfgsSummary summary = MinimizeBfgs(objective, Constant(2, 1.0),
                                           Constant(2, -9.0), Constant(2, 9.0));
  EXPECT_LT((summary.x - Constant(2, 3.0)).norm(), 1e-5);
}

TEST(MinimizeBfgs, NeverMovesAParameterFurtherThanAllowedInOneStep) {
  Eigen::VectorXd last = Constant(1, 0.0);
  double longest = 0.0;
  const Objective objective = [&](const Eigen::VectorXd& x,
                                  Eigen::VectorXd* gradient) {
    *gradient = Constant(1, -1e3);
    longest = std::max(longest, std::abs(x[0] - last[0]));
    last = x;
    return -1e3 * x[0];
  };
  (void)MinimizeBfgs(objective, Constant(1, 0.0), Constant(1, -50.0),
                     Constant(1, 50.0), {.max_step = 2.0});
  EXPECT_LE(longest, 2.0);
  EXPECT_NEAR(last[0], 50.0, 1e-6);
}

// What an objective returns at one evaluation.
struct Answer {
  double value;
  Eigen::VectorXd gradient;
};

Eigen::VectorXd Vector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), std::ssize(values));
}

struct Trace {
  std::vector<Eigen::VectorXd> x;  // of each evaluation
  BfgsSummary summary;
};

// The search where the objective returns the answers in turn, wherever it is
// evaluated. After the last answer every point is a minimum.
Trace Follow(const std::vector<Answer>& answers,
             const BfgsOptions& options = {},
             const std::vector<double>& lower = {-1e3, -1e3},
             const std::vector<double>& upper = {1e3, 1e3},
             const std::vector<double>& start = {0.0, 0.0}) {
  const Eigen::Index n = answers.front().gradient.size();
  Trace trace;
  const Objective objective = [&](const Eigen::VectorXd& x,
                                  Eigen::VectorXd* gradient) {
    const std::size_t i = trace.x.size();
    trace.x.push_back(x);
    *gradient = i < answers.size() ? answers[i].gradient : Constant(n, 0.0);
    return i < answers.size() ? answers[i].value : -1e9;
  };
  trace.summary =
      MinimizeBfgs(objective, Vector(start).head(n), Vector(lower).head(n),
                   Vector(upper).head(n), options);
  return trace;
}

// The moves of one variable, upwards if `sign` is 1 and downwards if it is -1:
// the evaluations of the mirrored objective are mirrored.
std::vector<double> Moves(const std::vector<std::pair<double, double>>& answers,
                          double sign,
                          const BfgsOptions& options = {.max_iterations = 1}) {
  std::vector<Answer> mirrored;
  for (const auto& [value, slope] : answers) {
    mirrored.push_back({value, Constant(1, sign * slope)});
  }
  std::vector<double> moves;
  for (const Eigen::VectorXd& x : Follow(mirrored, options).x) {
    moves.push_back(sign * x[0]);
  }
  return moves;
}

void ExpectMoves(const std::vector<std::pair<double, double>>& answers,
                 const std::vector<double>& expected,
                 const BfgsOptions& options = {.max_iterations = 1}) {
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double> moves = Moves(answers, sign, options);
    ASSERT_EQ(moves.size(), expected.size());
    for (std::size_t i = 0; i < moves.size(); ++i) {
      EXPECT_NEAR(moves[i], expected[i], 1e-13) << "evaluation " << i;
    }
  }
}

TEST(MinimizeBfgs, FirstMoveIsTheGradientUpToAThirdOfTheLongestMove) {
  ExpectMoves({{0.0, -0.25}}, {0.0, 0.25});
  ExpectMoves({{0.0, -10.0}}, {0.0, 1.0});
  ExpectMoves({{0.0, -10.0}}, {0.0, 2.0},
              {.max_iterations = 1, .max_step = 6.0});
}

// Slopes that stay steep: 2.5 times as far each time, but no further than 3.
// There the step is taken, however steep the slope is.
TEST(MinimizeBfgs, GoesFurtherWhileTheSlopeIsSteepUpToTheLongestMove) {
  ExpectMoves({{0.0, -0.1},
               {-1.0, -0.1},
               {-2.0, -0.1},
               {-3.0, -0.1},
               {-4.0, -0.1},
               {-5.0, -0.1}},
              {0.0, 0.1, 0.25, 0.625, 1.5625, 3.0});
}

TEST(MinimizeBfgs, HalvesTheBracket) {
  constexpr double kHigh = 9.0;
  ExpectMoves({{0.0, -0.1},
               {-1.0, -0.1},    // 1: too steep
               {kHigh, -0.1},   // 2.5: too high
               {-1.5, -0.1},    // 1.75: too steep
               {kHigh, -0.1},   // 2.125: too high
               {-2.0, -0.1},    // 1.9375: too steep
               {-2.5, -0.08}},  // 2.03125
              {0.0, 0.1, 0.25, 0.175, 0.2125, 0.19375, 0.203125});
}

// The parabola with f(0) = 0, f'(0) = -1 and f(1) = c - 1 has its minimum at
// 1 / (2 c).
TEST(MinimizeBfgs, StepsBackToTheMinimumOfAParabolaButNotBelowATenth) {
  ExpectMoves({{0.0, -1.0}, {1.0, 0.0}}, {0.0, 1.0, 0.25});
  ExpectMoves({{7.0, -1.0}, {8.0, 0.0}}, {0.0, 1.0, 0.25});
  ExpectMoves({{0.0, -1.0}, {0.25, 0.0}}, {0.0, 1.0, 0.4});
  ExpectMoves({{0.0, -1.0}, {4.0, 0.0}}, {0.0, 1.0, 0.1});
  ExpectMoves({{0.0, -1.0}, {99.0, 0.0}}, {0.0, 1.0, 0.1});
  // From 0.4 with f = 0.6: 0.4^2 / 2 / (0.6 + 0.4) = 0.08.
  ExpectMoves({{0.0, -1.0}, {0.25, 0.0}, {0.6, 0.0}}, {0.0, 1.0, 0.4, 0.08});
  // In any unit: f(0.1) = 0.01 with f'(0) = -0.1.
  ExpectMoves({{0.0, -0.1}, {0.01, 0.0}}, {0.0, 0.1, 0.025});
  // The slope is that along the move: 4 for a gradient of 2.
  ExpectMoves({{0.0, -2.0}, {2.0, 0.0}}, {0.0, 2.0, 2.0 / 3.0},
              {.max_iterations = 1, .max_step = 6.0});
}

// The second direction is almost a level line: the first variable would climb
// as much as the second one descends, but stops at its bound. The step promises
// far more than the slope, and fails to keep it; the minimum of the parabola is
// at 0.98 of the step.
TEST(MinimizeBfgs, StepsBackToThreeQuartersAtMost) {
  const Eigen::Vector2d step(8e-6, 6e-6);
  const Eigen::Vector2d change =
      Eigen::Vector2d(0.6, -0.8) + 5.8e-6 * Eigen::Vector2d(0.8, 0.6);
  const Trace trace =
      Follow({{1.0, -step}, {0.0, change - step}, {-1e-10, Constant(2, 0.0)}},
             {.max_iterations = 2, .gradient_tolerance = 0.0}, {-1.0, -1.0},
             {step[0] + 1e-12, 1.0});
  ASSERT_GE(trace.x.size(), 4u);
  EXPECT_EQ(trace.x[1], step);
  const double whole = trace.x[2][1] - step[1];
  EXPECT_GT(whole, 1e-6);
  EXPECT_NEAR((trace.x[3][1] - step[1]) / whole, 0.75, 1e-9);
}

TEST(MinimizeBfgs, HalvesAStepToWhereTheObjectiveOrItsGradientIsUndefined) {
  const double nan = std::nan("");
  ExpectMoves({{0.0, -1.0}, {kInfinity, 0.0}}, {0.0, 1.0, 0.5});
  ExpectMoves({{0.0, -1.0}, {nan, 0.0}}, {0.0, 1.0, 0.5});
  ExpectMoves({{0.0, -1.0}, {-1.0, nan}}, {0.0, 1.0, 0.5});
  ExpectMoves({{0.0, -1.0}, {-1.0, kInfinity}}, {0.0, 1.0, 0.5});
}

// Of the first condition: 1e-4 of the expected decrease, which is 1 here.
TEST(MinimizeBfgs, AStepGainsAtLeastAShareOfWhatTheSlopePromises) {
  ExpectMoves({{0.0, -1.0}, {-1e-4, 0.0}}, {0.0, 1.0});
  EXPECT_EQ(Moves({{0.0, -1.0}, {-1.05e-4, 0.0}}, 1.0).size(), 2u);
  EXPECT_EQ(Moves({{0.0, -1.0}, {-0.95e-4, 0.0}}, 1.0).size(), 3u);
}

// Of the second condition: 0.9 of the slope at the beginning.
TEST(MinimizeBfgs, AStepEndsWhereTheSlopeIsLessSteep) {
  ExpectMoves({{0.0, -1.0}, {-1.0, -0.9}}, {0.0, 1.0});
  ExpectMoves({{0.0, -1.0}, {-1.0, -0.91}}, {0.0, 1.0, 2.5});
  ExpectMoves({{0.0, -1.0}, {-1.0, 3.0}}, {0.0, 1.0});
}

TEST(MinimizeBfgs, TriesThirtyStepsAlongTheGradient) {
  const std::vector<Answer> answers(100, {kInfinity, Constant(1, -1.0)});
  std::vector<Answer> from_zero = answers;
  from_zero[0].value = 0.0;
  const Trace trace = Follow(from_zero);
  EXPECT_EQ(trace.summary.evaluations, 31);
  EXPECT_EQ(trace.x.back()[0], std::pow(0.5, 29));
  EXPECT_EQ(trace.summary.iterations, 0);
  EXPECT_EQ(trace.summary.x[0], 0.0);
  EXPECT_FALSE(trace.summary.converged);
}

TEST(MinimizeBfgs, EndsAtAStartWhereTheObjectiveIsUndefined) {
  for (const Answer& start : {Answer{kInfinity, Constant(1, -1.0)},
                              Answer{std::nan(""), Constant(1, -1.0)},
                              Answer{1.0, Constant(1, std::nan(""))}}) {
    const Trace trace = Follow({start});
    EXPECT_EQ(trace.summary.evaluations, 1);
    EXPECT_EQ(trace.summary.iterations, 0);
    EXPECT_FALSE(trace.summary.converged);
  }
}

// The moves are lost in the rounding of the start.
TEST(MinimizeBfgs, EndsWhereNoMoveChangesTheParameters) {
  for (const double value : {1.0, 2.0}) {
    const Trace trace =
        Follow({{1.0, Constant(1, -1e3)}, {value, Constant(1, -1e3)}}, {},
               {-1e18}, {1e18}, {1e17});
    EXPECT_EQ(trace.summary.evaluations, 2);
    EXPECT_EQ(trace.summary.iterations, 0);
    EXPECT_FALSE(trace.summary.converged);
  }
}

TEST(MinimizeBfgs, EndsWhereTheSlopeIsTooSmallForANumber) {
  const Trace trace =
      Follow({{0.0, Constant(1, -1e-200)}}, {.gradient_tolerance = 0.0});
  EXPECT_EQ(trace.summary.evaluations, 1);
  EXPECT_FALSE(trace.summary.converged);
}

// All steps beyond the first one of the bracket are too steep, and no lower.
TEST(MinimizeBfgs, AnExhaustedStepEndsAtTheLowestPointThatWasTried) {
  for (const double other : {-4.0, -5.0}) {
    std::vector<Answer> answers(31, {other, Constant(1, -0.1)});
    answers[0].value = 0.0;
    answers[1].value = -5.0;
    answers[2].value = 9.0;
    const Trace trace = Follow(answers, {.max_iterations = 1});
    EXPECT_EQ(trace.summary.evaluations, 31);
    EXPECT_EQ(trace.summary.iterations, 1);
    EXPECT_DOUBLE_EQ(trace.summary.x[0], 0.1);
    EXPECT_EQ(trace.summary.value, -5.0);
  }
}

// The first step makes the inverse Hessian 1. The second one moves by 3 less a
// small share, then by 3, which is too high: what is between is searched if it
// is wider than 1e-10.
TEST(MinimizeBfgs, ABracketThatIsAlmostEmptyIsNotSearched) {
  const auto evaluations = [](double share) {
    const double slope = -3.0 * (1.0 - share);
    return Moves({{0.0, slope - 1.0},
                  {-1.0, slope},
                  {-5.0, slope},
                  {9.0, slope},
                  {-5.0, slope / 2.0}},
                 1.0, {.max_iterations = 2})
        .size();
  };
  EXPECT_EQ(evaluations(0.95e-10), 4u);
  EXPECT_EQ(evaluations(1.05e-10), 5u);
}

TEST(MinimizeBfgs, StopsAtAGradientAsSmallAsItsTolerance) {
  const Trace at = Follow({{5.0, Constant(1, 1e-4)}});
  EXPECT_TRUE(at.summary.converged);
  EXPECT_EQ(at.summary.evaluations, 1);
  EXPECT_GT(Follow({{5.0, Constant(1, 1.01e-4)}}).summary.evaluations, 1);
}

// A gain is small up to the tolerance times 1 + |f|.
TEST(MinimizeBfgs, StopsAfterTwoSmallGainsInARow) {
  const auto iterations = [](double tolerance, const std::vector<double>& f) {
    std::vector<Answer> answers;
    double slope = -1e-3;
    for (const double value : f) {
      answers.push_back({value, Constant(1, slope)});
      slope *= 0.85;
    }
    const Trace trace = Follow(answers, {.value_tolerance = tolerance});
    EXPECT_TRUE(trace.summary.converged);
    return trace.summary.iterations;
  };
  // 0.25 (1 + 3) = 1 and 0.25 (1 + 2) = 0.75.
  EXPECT_EQ(iterations(0.25, {3.0, 2.0, 1.25, 0.0, -9.0}), 2);
  EXPECT_EQ(iterations(0.25, {-1.0, -1.5, -2.0, -9.0}), 2);
  // Four small gains, of which the first and the last two are in a row.
  EXPECT_EQ(iterations(0.25, {3.0, 2.0, 0.0, -0.2, -9.0, -10.0, -11.0, -99.0}),
            6);
  // 4e-8 is small at 3, 4.05e-8 is not: the search ends where the gradient is
  // zero.
  const auto gains = [&](double gain) {
    return iterations(1e-8, {3.0, 3.0 - gain, 3.0 - 2.0 * gain, 0.0});
  };
  EXPECT_EQ(gains(3.95e-8), 2);
  EXPECT_EQ(gains(4.05e-8), 4);
}

TEST(MinimizeBfgs, EndsAfterTheIterationsAllowed) {
  for (const int most : {1, 2, 7}) {
    const BfgsSummary summary =
        MinimizeBfgs(Rosenbrock, Constant(2, -1.2), Constant(2, -5.0),
                     Constant(2, 5.0), {.max_iterations = most});
    EXPECT_EQ(summary.iterations, most);
    EXPECT_FALSE(summary.converged);
  }
}

TEST(BoxBfgs, APauseChangesNothing) {
  const auto search = [](const std::vector<int>& until) {
    BoxBfgs bfgs(Constant(2, -1.2), Constant(2, -5.0), Constant(2, 5.0));
    for (const int iterations : until) {
      bfgs.Advance(Rosenbrock, iterations);
    }
    return bfgs.summary();
  };
  const BfgsSummary at_once = search({20});
  const BfgsSummary in_parts = search({1, 5, 5, 20});
  EXPECT_EQ(at_once.x, in_parts.x);
  EXPECT_EQ(at_once.evaluations, in_parts.evaluations);
  EXPECT_EQ(at_once.iterations, in_parts.iterations);
}

// At a bound, a variable that is pushed outwards is held: it takes no part in
// the direction, in its scale or in the expected slope.
TEST(MinimizeBfgs, AVariableThatIsPushedOverItsBoundIsHeld) {
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double> lower = {sign > 0.0 ? 0.0 : -9.0, -9.0};
    const std::vector<double> upper = {sign > 0.0 ? 9.0 : 0.0, 9.0};
    const auto moves = [&](const std::vector<Answer>& answers) {
      std::vector<Answer> mirrored = answers;
      for (Answer& answer : mirrored) {
        answer.gradient[0] *= sign;
      }
      return Follow(mirrored, {.max_iterations = 1}, lower, upper).x;
    };
    const auto wide = moves({{0.0, Vector({100.0, -0.5})}});
    ASSERT_EQ(wide.size(), 2u);
    EXPECT_EQ(wide[1], Vector({0.0, 0.5}));
    // The slope is -0.01 at first, then -0.012, which is too steep.
    const auto steep =
        moves({{0.0, Vector({0.09, -0.1})}, {-1.0, Vector({0.09, -0.12})}});
    ASSERT_EQ(steep.size(), 3u);
    EXPECT_EQ(steep[2], Vector({0.0, 0.25}));
    // Inwards it is free.
    for (const double slope : {0.5, 0.05}) {
      const auto inwards = moves({{0.0, Vector({-slope, -0.25})}});
      EXPECT_EQ(inwards[1], Vector({sign * slope, 0.25}));
    }
  }
}

TEST(MinimizeBfgs, AStartThatIsHeldByItsBoundsHasConverged) {
  const Trace trace =
      Follow({{0.0, Vector({3.0, -3.0})}}, {}, {0.0, -1.0}, {1.0, 0.0});
  EXPECT_TRUE(trace.summary.converged);
  EXPECT_EQ(trace.summary.evaluations, 1);
}

// The first variable stops at its bound on the way: the slope there, and what
// the move is expected to gain, are those of the second one.
TEST(MinimizeBfgs, AVariableThatReachesItsBoundNoLongerCounts) {
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double> bound = {0.5, 9.0};
    const auto moves = [&](double value, double slope) {
      return Follow({{0.0, Vector({-sign, -sign})},
                     {value, Vector({-5.0 * sign, slope * sign})}},
                    {.max_iterations = 1}, {-bound[0], -bound[1]}, bound)
          .x;
    };
    // 1.5 is less steep than 0.9 * 2.
    const auto taken = moves(-1.0, -1.5);
    ASSERT_EQ(taken.size(), 2u);
    EXPECT_EQ(taken[1], Vector({0.5 * sign, sign}));
    EXPECT_EQ(moves(-1.0, -1.9).size(), 3u);
    // The move is expected to gain 0.5 + 1.
    EXPECT_EQ(moves(-1.55e-4, 0.0).size(), 2u);
    EXPECT_EQ(moves(-1.45e-4, 0.0).size(), 3u);
    // However little it moves: 0.89 is less steep than 0.9 * (1 + 0.05^2).
    EXPECT_EQ(Follow({{0.0, Vector({-0.05 * sign, -sign})},
                      {-1.0, Vector({-5.0 * sign, -0.89 * sign})}},
                     {.max_iterations = 1}, {-0.025, -9.0}, {0.025, 9.0})
                  .x.size(),
              2u);
  }
}

// After s = (1, 0.5) and y = (0.5, 0), H y = s holds for the inverse Hessian
// ((2, 1), (1, 3)). The first variable is held at its bound: the second one
// moves by 3 * 0.5.
TEST(MinimizeBfgs, AHeldVariableDoesNotBendTheDirection) {
  const Trace trace =
      Follow({{0.0, Vector({-1.0, -0.5})}, {-1.0, Vector({-0.5, -0.5})}},
             {.max_iterations = 2}, {-9.0, -9.0}, {1.0, 9.0});
  ASSERT_EQ(trace.x.size(), 3u);
  EXPECT_LT((trace.x[2] - Vector({1.0, 2.0})).norm(), 1e-14);
}

// After s = (1, 0.5) and y = (1, 3) the inverse Hessian is
// ((0.85, 0.05), (0.05, 0.15)): the slope of 2.5 along the second variable
// alone would draw the first one off its bound, where it has none.
TEST(MinimizeBfgs, AVariableWithoutSlopeStaysAtItsBound) {
  for (const double sign : {1.0, -1.0}) {
    const Trace trace = Follow(
        {{0.0, sign * Vector({-1.0, -0.5})}, {-1.0, sign * Vector({0.0, 2.5})}},
        {.max_iterations = 2}, {sign > 0.0 ? -9.0 : -1.0, -9.0},
        {sign > 0.0 ? 1.0 : 9.0, 9.0});
    ASSERT_EQ(trace.x.size(), 3u);
    EXPECT_LT((trace.x[2] - sign * Vector({1.0, 0.125})).norm(), 1e-14);
  }
}

// Nocedal & Wright (2006), Eqs. 6.17 and 6.20, with the product form
// (I - rho s y') H (I - rho y s') + rho s s'.
TEST(MinimizeBfgs, StepsAreThoseOfTheTextbook) {
  constexpr int kSize = 3;
  Eigen::Matrix3d hessian;
  hessian << 1.2, 0.3, -0.1, 0.3, 0.9, 0.2, -0.1, 0.2, 1.5;
  std::vector<Eigen::VectorXd> at;
  const auto gradient_at = [&](const Eigen::VectorXd& x) {
    return Eigen::VectorXd(hessian * x - Vector({0.4, -0.5, 0.3}));
  };
  const Objective objective = [&](const Eigen::VectorXd& x,
                                  Eigen::VectorXd* gradient) {
    at.push_back(x);
    *gradient = gradient_at(x);
    return 0.5 * x.dot(hessian * x) - x.dot(Vector({0.4, -0.5, 0.3}));
  };
  (void)MinimizeBfgs(objective, Constant(kSize, 0.0), Constant(kSize, -9.0),
                     Constant(kSize, 9.0),
                     {.max_iterations = 5, .gradient_tolerance = 0.0});
  ASSERT_EQ(at.size(), 6u);  // all steps are taken as they are
  const Eigen::MatrixXd identity = Eigen::MatrixXd::Identity(kSize, kSize);
  Eigen::MatrixXd inverse = identity;
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    const Eigen::VectorXd gradient = gradient_at(at[i]);
    const Eigen::VectorXd expected = at[i] - inverse * gradient;
    EXPECT_LT((at[i + 1] - expected).norm(), 1e-12) << "step " << i;
    const Eigen::VectorXd s = at[i + 1] - at[i];
    const Eigen::VectorXd y = gradient_at(at[i + 1]) - gradient;
    const double rho = 1.0 / s.dot(y);
    if (i == 0) {
      inverse *= s.dot(y) / y.dot(y);
    }
    const Eigen::MatrixXd left = identity - rho * s * y.transpose();
    inverse = left * inverse * left.transpose() + rho * s * s.transpose();
  }
}

// A second derivative of 0.5 doubles the next step, however small all are.
TEST(MinimizeBfgs, LearnsTheCurvatureAtAnyScale) {
  for (const double scale : {1.0, 1e-7}) {
    const std::vector<double> moves =
        Moves({{0.0, -0.5 * scale}, {-1.0, -0.25 * scale}}, 1.0,
              {.max_iterations = 2, .gradient_tolerance = 0.0});
    ASSERT_EQ(moves.size(), 3u);
    EXPECT_NEAR(moves[1] / scale, 0.5, 1e-12);
    EXPECT_NEAR(moves[2] / scale, 1.0, 1e-12);
  }
}

// Steps of 1, 2.5 and 3, the longest one. A curvature of less than 1e-12 of
// what the lengths of the step and of the change of the gradient allow may be
// rounding: the next direction is again the gradient's.
TEST(MinimizeBfgs, IgnoresACurvatureThatMayBeRounding) {
  const auto second_move = [](double share) {
    const Trace trace = Follow({{0.0, Vector({-1.0, 0.0})},
                                {-1.0, Vector({-1.0, 0.0})},
                                {-2.0, Vector({-1.0, 0.0})},
                                {-3.0, Vector({share - 1.0, 1.0})}},
                               {.max_iterations = 2});
    EXPECT_EQ(trace.x.at(3), Vector({3.0, 0.0}));
    return Eigen::VectorXd(trace.x.at(4) - trace.x.at(3));
  };
  EXPECT_LT((second_move(0.95e-12) - Vector({1.0, -1.0})).norm(), 1e-9);
  EXPECT_GT((second_move(1.05e-12) - Vector({1.0, -1.0})).norm(), 0.1);
}

// The slope is steeper after the longest move: the next one is again the
// gradient's.
TEST(MinimizeBfgs, IgnoresANegativeCurvature) {
  ExpectMoves({{0.0, -10.0}, {-1.0, -11.0}, {-2.0, -12.0}, {-3.0, -13.0}},
              {0.0, 1.0, 2.5, 3.0, 4.0}, {.max_iterations = 2});
}

// A curvature of 2 asks for a move of 4, which is cut to 3. After 30 trials the
// search starts again from the gradient alone.
TEST(MinimizeBfgs, FollowsTheGradientWhereItsDirectionFails) {
  std::vector<std::pair<double, double>> answers(32, {kInfinity, 0.0});
  answers[0] = {0.0, -10.0};
  answers[1] = {-1.0, -8.0};
  for (const double sign : {1.0, -1.0}) {
    const std::vector<double> moves =
        Moves(answers, sign, {.max_iterations = 2});
    ASSERT_EQ(moves.size(), 33u);
    EXPECT_DOUBLE_EQ(moves[1], 1.0);
    EXPECT_DOUBLE_EQ(moves[2], 4.0);
    EXPECT_DOUBLE_EQ(moves[3], 2.5);
    EXPECT_DOUBLE_EQ(moves[32], 2.0);
  }
}

#if OPPA_HAVE_NLOPT

struct NloptCall {
  Likelihood* likelihood;
};

double NloptObjective(const std::vector<double>& x,
                      std::vector<double>& gradient, void* data) {
  Likelihood& likelihood = *static_cast<NloptCall*>(data)->likelihood;
  Eigen::VectorXd slope;
  const double value = likelihood.Evaluate(
      Eigen::Map<const Eigen::VectorXd>(x.data(), std::ssize(x)), &slope);
  if (!gradient.empty()) {
    Eigen::Map<Eigen::VectorXd>(gradient.data(), slope.size()) = slope;
  }
  return value;
}

TEST(MinimizeBfgs, ReachesAtLeastWhatNloptReachesOnRealFits) {
  const auto problem = tests::MakeSyntheticProblem(400, 6, 8, 5);
  int not_worse = 0;
  constexpr int kFits = 12;
  for (int fit = 0; fit < kFits; ++fit) {
    const Observations observations =
        tests::Observe(problem, 20, static_cast<std::uint64_t>(fit));
    Likelihood likelihood(problem.space, problem.mean, observations,
                          KernelPriors::DimensionScaled(6, 0.2), {});
    const Eigen::Index size = likelihood.parameter_count();
    const Objective objective = [&](const Eigen::VectorXd& x,
                                    Eigen::VectorXd* gradient) {
      const double value = -likelihood.Evaluate(x, gradient);
      *gradient = -*gradient;
      return value;
    };
    const BfgsSummary ours =
        MinimizeBfgs(objective, Constant(size, 0.0), Constant(size, -4.0),
                     Constant(size, 5.0), {.max_iterations = 500});
    nlopt::opt peer(nlopt::LD_SLSQP, static_cast<unsigned>(size));
    NloptCall call{&likelihood};
    peer.set_max_objective(NloptObjective, &call);
    peer.set_lower_bounds(-4.0);
    peer.set_upper_bounds(5.0);
    peer.set_xtol_rel(1e-9);
    peer.set_maxeval(2000);
    std::vector<double> x(size, 0.0);
    double peers = 0.0;
    peer.optimize(x, peers);
    not_worse += -ours.value >= peers - 1e-5 ? 1 : 0;
  }
  // They may diverge at a saddle and end in different local maxima; a minimizer
  // that stops short loses nearly always.
  EXPECT_GE(not_worse, kFits - 3);
}

#endif

}  // namespace surrogates::bfgs_test
