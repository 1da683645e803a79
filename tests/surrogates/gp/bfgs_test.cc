#include "surrogates/gp/bfgs.h"

#include <cmath>
#include <limits>
#include <random>
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

namespace surrogates {
namespace {

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
  const BfgsSummary summary =
      MinimizeBfgs(Rosenbrock,
                   Constant(6, -1.2),
                   Constant(6, -5.0),
                   Constant(6, 5.0),
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
    const BfgsSummary summary =
        MinimizeBfgs(objective,
                     Constant(8, 0.3),
                     Constant(8, -0.5),
                     Constant(8, 1.0),
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
  const BfgsSummary summary = MinimizeBfgs(
      objective, Constant(2, 1.0), Constant(2, -9.0), Constant(2, 9.0));
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
  (void)MinimizeBfgs(objective,
                     Constant(1, 0.0),
                     Constant(1, -50.0),
                     Constant(1, 50.0),
                     {.max_step = 2.0});
  EXPECT_LE(longest, 2.0);
  EXPECT_NEAR(last[0], 50.0, 1e-6);
}

#if OPPA_HAVE_NLOPT

struct NloptCall {
  Likelihood* likelihood;
};

double NloptObjective(const std::vector<double>& x,
                      std::vector<double>& gradient,
                      void* data) {
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
    Likelihood likelihood(problem.space,
                          problem.mean,
                          observations,
                          KernelPriors::DimensionScaled(6, 0.2),
                          {});
    const Eigen::Index size = likelihood.parameter_count();
    const Objective objective = [&](const Eigen::VectorXd& x,
                                    Eigen::VectorXd* gradient) {
      const double value = -likelihood.Evaluate(x, gradient);
      *gradient = -*gradient;
      return value;
    };
    const BfgsSummary ours = MinimizeBfgs(objective,
                                          Constant(size, 0.0),
                                          Constant(size, -4.0),
                                          Constant(size, 5.0),
                                          {.max_iterations = 500});
    nlopt::opt peer(nlopt::LD_SLSQP, static_cast<unsigned>(size));
    NloptCall call{&likelihood};
    peer.set_max_objective(NloptObjective, &call);
    peer.set_lower_bounds(-4.0);
    peer.set_upper_bounds(5.0);
    peer.set_xtol_rel(1e-9);
    peer.set_maxeval(2000);
    std::vector<double> x(static_cast<std::size_t>(size), 0.0);
    double peers = 0.0;
    peer.optimize(x, peers);
    not_worse += -ours.value >= peers - 1e-5 ? 1 : 0;
  }
  // They may diverge at a saddle and end in different local maxima; a minimizer
  // that stops short loses nearly always.
  EXPECT_GE(not_worse, kFits - 3);
}

#endif

}  // namespace
}  // namespace surrogates
