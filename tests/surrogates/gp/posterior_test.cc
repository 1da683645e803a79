#include "surrogates/gp/posterior.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <Eigen/Cholesky>
#include <gtest/gtest.h>

#include "surrogates/gp/likelihood.h"
#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::posterior_test {

using tests::MakeSyntheticProblem;
using tests::Observe;
using tests::SyntheticProblem;

constexpr int kCandidates = 75;  // two tiles and a part of a third

// A problem in four families of neighbours, and hyperparameters under which
// everything matters: the kernel, families, the nugget and coefficients.
struct Model {
  SyntheticProblem problem = MakeSyntheticProblem(kCandidates, 3, 2, 5);
  Hyperparameters h{.log_length_scales = Eigen::Vector3d(-0.4, 0.2, 0.6),
                    .log_signal_variance = std::log(0.3),
                    .log_coefficients = Eigen::Vector2d(0.1, -0.2),
                    .log_nugget_variance = std::log(0.02),
                    .log_family_variance = std::log(0.15)};
  Likelihood::Options options;

  explicit Model(const Likelihood::Options& given) : options(given) {
    options.relative_noise_floor = 0.0;
    problem.space.families.values = {{0, 0}, {0, 1}, {1, 1}, {1, 2}};
    for (int i = 0; i < kCandidates; ++i) {
      problem.space.families.of_candidate.push_back(i / 7 % 4);
    }
  }

  [[nodiscard]] double Variance(bool part, double log_variance) const {
    return part ? std::exp(log_variance) : 0.0;
  }

  [[nodiscard]] double Nugget() const {
    return Variance(options.nugget, h.log_nugget_variance);
  }

  [[nodiscard]] Posterior Condition(const Observations& observations) const {
    Likelihood likelihood(problem.space, problem.mean, observations,
                          KernelPriors::DimensionScaled(3, 1.0), options);
    Posterior posterior(options);
    EXPECT_TRUE(
        posterior.Condition(problem.space, observations, h, likelihood));
    return posterior;
  }

  [[nodiscard]] Prediction Predict(const Posterior& posterior) const {
    Prediction prediction;
    prediction.Resize(kCandidates);
    posterior.Predict(problem.space, problem.mean, kCandidates, nullptr, 1,
                      prediction.Head(kCandidates));
    return prediction;
  }

  // The prior covariance of two candidates but for coefficients and nugget.
  [[nodiscard]] double Kernel(int i, int j) const {
    const Eigen::ArrayXd difference =
        (problem.space.points.col(i) - problem.space.points.col(j)).array() /
        h.log_length_scales.array().exp();
    const double a = std::sqrt(5.0 * difference.square().sum());
    int knobs = 0;
    const auto& families = problem.space.families;
    const auto values = [&](int candidate) {
      return families.values[families.of_candidate[candidate]];
    };
    for (std::size_t k = 0; k < values(i).size(); ++k) {
      knobs += values(i)[k] != values(j)[k] ? 1 : 0;
    }
    return std::exp(h.log_signal_variance) * (1.0 + a + a * a / 3.0) *
               std::exp(-a) +
           Variance(options.family, h.log_family_variance) *
               std::pow(options.family_correlation, knobs);
  }

  // Of all candidates, by the conditional distribution of their joint prior.
  // The mean leaves the coefficients as they are.
  [[nodiscard]] Prediction Dense(const Observations& observations,
                                 Eigen::MatrixXd* joint = nullptr) const {
    const Eigen::Index n = observations.size();
    std::vector<int> all(kCandidates);
    std::iota(all.begin(), all.end(), 0);
    Eigen::VectorXd mean;
    Eigen::MatrixXd jacobian;
    problem.mean.Evaluate(all, h.log_coefficients, mean, &jacobian);
    Eigen::MatrixXd kernel(kCandidates, kCandidates);
    for (const int i : all) {
      for (const int j : all) {
        kernel(i, j) = Kernel(i, j);
      }
    }
    Eigen::MatrixXd prior = kernel;  // the coefficients' deviations are 1
    if (options.integrate_coefficients) {
      prior += jacobian * jacobian.transpose();
    }
    const std::vector<int>& at = observations.candidate;
    const Eigen::VectorXd noise =
        observations.noise_variance.cwiseMax(options.relative_noise_floor *
                                             std::exp(h.log_signal_variance)) +
        Eigen::VectorXd::Constant(n, Nugget());
    Eigen::MatrixXd posterior = prior;
    Prediction prediction;
    prediction.mean = mean;
    if (n > 0) {
      Eigen::MatrixXd observed = kernel(at, at);
      observed.diagonal() += noise;
      const Eigen::VectorXd residual = observations.value - mean(at);
      prediction.mean +=
          kernel(Eigen::all, at) * observed.ldlt().solve(residual);
      Eigen::MatrixXd with_coefficients = prior(at, at);
      with_coefficients.diagonal() += noise;
      posterior -= prior(Eigen::all, at) *
                   with_coefficients.ldlt().solve(prior(at, Eigen::all));
    }
    prediction.variance = posterior.diagonal().array() + Nugget();
    if (joint != nullptr) {
      *joint = posterior;
    }
    return prediction;
  }
};

Observations First(const Observations& observations, int count) {
  return {
      {observations.candidate.begin(), observations.candidate.begin() + count},
      observations.value.head(count),
      observations.noise_variance.head(count)};
}

void ExpectEqual(const Prediction& a, const Prediction& b) {
  EXPECT_LT((a.mean - b.mean).lpNorm<Eigen::Infinity>(), 1e-11);
  EXPECT_LT((a.variance - b.variance).lpNorm<Eigen::Infinity>(), 1e-11);
}

constexpr Likelihood::Options kParts[] = {
    {},
    {.nugget = true},
    {.family = true, .family_correlation = 0.4},
    {.integrate_coefficients = true},
    {.integrate_coefficients = true,
     .nugget = true,
     .family = true,
     .family_correlation = 0.4}};

// Of none, of one and of several observations.
TEST(Posterior, IsTheConditionalDistributionOfTheJointPrior) {
  for (const Likelihood::Options& options : kParts) {
    const Model model(options);
    const Observations observations = Observe(model.problem, 9, 3);
    for (const int count : {0, 1, 2, 9}) {
      const Observations some = First(observations, count);
      const Posterior posterior = model.Condition(some);
      Eigen::MatrixXd joint;
      ExpectEqual(model.Predict(posterior), model.Dense(some, &joint));
      std::vector<int> chosen(joint.rows());
      std::iota(chosen.rbegin(), chosen.rend(), 0);
      const Eigen::MatrixXd covariance = posterior.JointCovariance(
          model.problem.space, model.problem.mean, chosen);
      EXPECT_LT((covariance - joint(chosen, chosen)).norm(), 1e-11);
    }
  }
}

// No observation is factorized again: each has a variance of its own.
TEST(Posterior, AppendingEachObservationIsConditioningOnAll) {
  for (const Likelihood::Options& options : kParts) {
    const Model model(options);
    const Observations observations = Observe(model.problem, 9, 3);
    Posterior posterior = model.Condition(First(observations, 0));
    for (int count = 1; count <= 9; ++count) {
      const Observations some = First(observations, count);
      ASSERT_TRUE(posterior.Append(model.problem.space, model.problem.mean,
                                   some, some.noise_variance[count - 1]));
      ExpectEqual(model.Predict(posterior), model.Dense(some));
      const Posterior all = model.Condition(some);
      EXPECT_NEAR(posterior.log_density(), all.log_density(), 1e-10);
      EXPECT_NEAR(posterior.information_gain(), all.information_gain(), 1e-10);
      const std::vector<int> chosen = {70, 3, 31};
      EXPECT_LT(
          (posterior.JointCovariance(model.problem.space, model.problem.mean,
                                     chosen) -
           all.JointCovariance(model.problem.space, model.problem.mean, chosen))
              .norm(),
          1e-11);
      const Eigen::VectorXd& values = some.value;
      ExpectEqual(posterior.LeaveOneOut(values), all.LeaveOneOut(values));
    }
  }
}

// What is left of a second observation of one place, where the first had no
// noise, is its own noise: it is appended above 1e-9 of the signal variance.
TEST(Posterior, AppendsNothingWithoutAVarianceOfItsOwn) {
  for (const double signal_variance : {0.01, 1.0, 100.0}) {
    Model model({});
    model.h.log_signal_variance = std::log(signal_variance);
    Observations observations{
        {4}, Eigen::VectorXd::Constant(1, 2.0), Eigen::VectorXd::Zero(1)};
    Posterior posterior = model.Condition(observations);
    const Prediction before = model.Predict(posterior);
    observations.candidate.push_back(4);
    observations.value = Eigen::Vector2d(2.0, 2.0);
    observations.noise_variance = Eigen::Vector2d::Zero();
    const auto appends = [&](double share) {
      return posterior.Append(model.problem.space, model.problem.mean,
                              observations, share * signal_variance);
    };
    EXPECT_FALSE(appends(0.0));
    EXPECT_FALSE(appends(0.97e-9));
    EXPECT_EQ(model.Predict(posterior).mean, before.mean);
    EXPECT_EQ(model.Predict(posterior).variance, before.variance);
    EXPECT_TRUE(appends(1.03e-9));
  }
}

// The memory of predictions is shared by all models of a thread.
TEST(Posterior, APredictionDoesNotDependOnEarlierOnes) {
  const Model model({.integrate_coefficients = true});
  const Posterior prior =
      model.Condition(First(Observe(model.problem, 1, 3), 0));
  const Posterior posterior = model.Condition(Observe(model.problem, 9, 3));
  const Prediction of_prior = model.Predict(prior);
  const Prediction of_posterior = model.Predict(posterior);
  EXPECT_EQ(model.Predict(prior).variance, of_prior.variance);
  EXPECT_EQ(model.Predict(prior).mean, of_prior.mean);
  EXPECT_EQ(model.Predict(posterior).variance, of_posterior.variance);
  EXPECT_EQ(model.Predict(posterior).mean, of_posterior.mean);
}

// The deviation of log c given nothing is that of its prior, and falls.
TEST(Posterior, ObservationsNarrowTheCoefficients) {
  const Model model({.integrate_coefficients = true});
  const Observations observations = Observe(model.problem, 9, 3);
  double last = 1.0 + 1e-12;
  for (const int count : {0, 1, 4, 9}) {
    const Posterior posterior = model.Condition(First(observations, count));
    const double stddev = posterior.LogCoefficientStddev(0);
    EXPECT_LT(stddev, last);
    last = stddev;
    if (count == 0) {
      EXPECT_NEAR(stddev, 1.0, 1e-12);
    }
  }
}

}  // namespace surrogates::posterior_test
