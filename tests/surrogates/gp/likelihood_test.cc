#include "surrogates/gp/likelihood.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include <Eigen/LU>
#include <gtest/gtest.h>

#include "surrogates/cost/cost_model.h"
#include "tests/fakes/grid.h"
#include "tests/reference/gp_reference.h"
#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::likelihood_test {

constexpr Likelihood::Options kMarginal{.with_priors = false};

// Largest relative error of the gradient against central differences of
// fourth order.
double GradientError(Likelihood& likelihood, const Eigen::VectorXd& at) {
  Eigen::VectorXd gradient;
  Eigen::VectorXd differences(at.size());
  const double h = 1e-3;
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    const auto along = [&](double step) {
      Eigen::VectorXd moved = at;
      moved[i] += step;
      return likelihood.Evaluate(moved, nullptr);
    };
    differences[i] =
        (8.0 * (along(h) - along(-h)) - (along(2.0 * h) - along(-2.0 * h))) /
        (12.0 * h);
  }
  likelihood.Evaluate(at, &gradient);
  return ((gradient - differences).array().abs() /
          (1.0 + differences.array().abs()))
      .maxCoeff();
}

Eigen::VectorXd RandomParameters(const Likelihood& likelihood,
                                 std::mt19937_64& engine) {
  std::normal_distribution<double> normal;
  return Eigen::VectorXd::NullaryExpr(likelihood.parameter_count(),
                                      [&] { return 0.7 * normal(engine); });
}

TEST(Likelihood, AgreesWithReferenceToTenDigits) {
  const tests::GpReference reference = tests::ReadGpReference();
  Likelihood likelihood(reference.space, reference.mean, reference.observations,
                        {}, kMarginal);
  Eigen::VectorXd gradient;
  const double value = likelihood.Evaluate(
      likelihood.Pack(reference.hyperparameters), &gradient);
  EXPECT_NEAR(value, reference.log_likelihood, 1e-12);
  EXPECT_LT((gradient - reference.gradient).lpNorm<Eigen::Infinity>(), 1e-12);
  EXPECT_LT((likelihood.alpha() - reference.alpha).lpNorm<Eigen::Infinity>(),
            1e-12);
  EXPECT_LT((likelihood.cholesky().diagonal() - reference.cholesky_diagonal)
                .lpNorm<Eigen::Infinity>(),
            1e-13);
}

// With each part of the covariance, with all of them, and with half of the
// noise at its floor.
TEST(Likelihood, GradientMatchesDifferencesAtRandomPoints) {
  auto problem = tests::MakeSyntheticProblem(500, 5, 9, 1);
  Families& families = problem.space.families;
  families.values = {{0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 2}, {2, 3}, {3, 3}};
  for (int i = 0; i < 500; ++i) {
    families.of_candidate.push_back(i % 7);
  }
  Observations observations = tests::Observe(problem, 12, 2);
  for (int i = 0; i < 12; i += 2) {
    observations.noise_variance[i] = 0.0;
  }
  std::mt19937_64 engine(3);
  for (const auto link :
       {ParametricMean::Link::kInverse, ParametricMean::Link::kLinear}) {
    problem.mean.link = link;
    for (const Likelihood::Options& options :
         {kMarginal, Likelihood::Options{.relative_noise_floor = 1e-2},
          Likelihood::Options{.iid = true, .integrate_coefficients = true},
          Likelihood::Options{.integrate_coefficients = true},
          Likelihood::Options{.family = true},
          Likelihood::Options{.integrate_coefficients = true,
          .nugget = true,
          .family = true}}) {
      Likelihood likelihood(problem.space, problem.mean, observations,
                            KernelPriors::DimensionScaled(5, 0.3), options);
      for (int i = 0; i < 5; ++i) {
        EXPECT_LT(
            GradientError(likelihood, RandomParameters(likelihood, engine)),
            1e-6);
      }
    }
  }
}

// Both prior means of App. D, as printed and physical, with everything that is
// learned in addition to them. Memory stays below its clip: above, the gradient
// is damped on purpose (see ParametricMean).
TEST(Likelihood, GradientMatchesDifferencesUnderThePriorMeansOfThePaper) {
  auto configs = fakes::Grid({{"tp", {1, 2, 4, 8, 16}},
                              {"pp", {1, 2, 4, 8, 16}},
                              {"microbatches", {1, 2, 8}}},
                             {}, 16);
  for (trials::ParallelConfig& config : configs) {
    config.zero_stage = config.dp > 1 ? config.microbatches % 3 : 0;
    config.grad_checkpoint = config.microbatches == 2;
  }
  const trials::SearchSpace space(configs);
  const EncodedSpace encoded = Encode(space);
  std::mt19937_64 engine(3);
  for (const auto form : {CostModelForm::kPrinted, CostModelForm::kPhysical}) {
    for (const ParametricMean& mean :
         {ThroughputPrior(space, {16, 8}, form),
          MemoryPrior(space, {16, 8}, form, 1e9)}) {
      const Eigen::VectorXd centers = CentersFor(mean, 1.0);
      const Eigen::VectorXd level = mean.EvaluateAll(centers);
      Observations observations;
      for (int i = 0; i < space.size(); i += 2) {
        observations.candidate.push_back(i);
      }
      observations.value = 1.1 * level(observations.candidate);
      observations.noise_variance =
          (0.03 * observations.value.array()).square();
      for (const bool integrate : {false, true}) {
        Likelihood likelihood(
            encoded, mean, observations,
            KernelPriors::DimensionScaled(encoded.dimension_count(), 0.3),
            {.integrate_coefficients = integrate, .nugget = true});
        for (int i = 0; i < 3; ++i) {
          Eigen::VectorXd at = RandomParameters(likelihood, engine);
          at.segment(encoded.dimension_count() + 1, mean.size()) += centers;
          EXPECT_LT(GradientError(likelihood, at), 1e-6);
        }
      }
    }
  }
}

TEST(Likelihood, IntegratingALinearMeanIsAddingItToTheCovariance) {
  // Log-coefficients of small spread: the mean is linear in them, and
  // y ~ N(m, A + J S J^T) up to the fit term, which is taken at the optimum.
  auto problem = tests::MakeSyntheticProblem(50, 3, 4, 1);
  Eigen::Vector4d stddev(0.5, 1.0, 2.0, 3.0);
  for (std::size_t j = 0; j < 4; ++j) {
    problem.mean.coefficients[j].log_stddev =
        stddev[static_cast<Eigen::Index>(j)];
  }
  const Observations observations = tests::Observe(problem, 6, 2);
  Likelihood plain(problem.space, problem.mean, observations, {}, kMarginal);
  Likelihood integrated(problem.space, problem.mean, observations, {},
                        {.with_priors = false, .integrate_coefficients = true});
  std::mt19937_64 engine(6);
  const Eigen::VectorXd at = RandomParameters(plain, engine);
  const double difference =
      integrated.Evaluate(at, nullptr) - plain.Evaluate(at, nullptr);
  const Eigen::MatrixXd l = plain.cholesky().triangularView<Eigen::Lower>();
  const Eigen::MatrixXd a = l * l.transpose();
  Eigen::VectorXd mean;
  Eigen::MatrixXd jacobian;
  problem.mean.Evaluate(observations.candidate, at.tail(4), mean, &jacobian);
  const Eigen::MatrixXd scaled = jacobian * stddev.asDiagonal();
  const Eigen::MatrixXd wide = a + scaled * scaled.transpose();
  EXPECT_NEAR(difference, -0.5 * std::log(wide.determinant() / a.determinant()),
              1e-10);
}

TEST(Likelihood, OfWhiteNuggetsIsThatOfIndependentNormals) {
  const tests::GpReference reference = tests::ReadGpReference();
  Likelihood likelihood(reference.space, reference.mean, reference.observations,
                        {}, {.iid = true, .with_priors = false});
  const double nugget = 0.09;
  Hyperparameters parameters = reference.hyperparameters;
  parameters.log_length_scales.resize(0);
  parameters.log_signal_variance = std::log(nugget);
  const Eigen::VectorXd mean =
      reference.mean.EvaluateAll(parameters.log_coefficients);
  double expected = 0.0;
  for (int i = 0; i < reference.observations.size(); ++i) {
    const double variance = nugget + reference.observations.noise_variance[i];
    expected -= 0.5 * std::pow(reference.observations.value[i] - mean[i], 2) /
                    variance +
                0.5 * std::log(2.0 * std::numbers::pi * variance);
  }
  const Eigen::VectorXd packed = likelihood.Pack(parameters);
  EXPECT_NEAR(likelihood.Evaluate(packed, nullptr), expected, 1e-12);
  EXPECT_LT(GradientError(likelihood, packed), 1e-8);
}

TEST(Likelihood, PriorsAddTheirLogDensities) {
  const tests::GpReference reference = tests::ReadGpReference();
  const KernelPriors priors = KernelPriors::DimensionScaled(3, 2.0);
  Likelihood marginal(reference.space, reference.mean, reference.observations,
                      {}, kMarginal);
  Likelihood posterior(reference.space, reference.mean, reference.observations,
                       priors, {});
  const Eigen::VectorXd packed = marginal.Pack(reference.hyperparameters);
  double expected = 0.0;
  for (int k = 0; k < 3; ++k) {
    const double z = (packed[k] - std::numbers::sqrt2 - 0.5 * std::log(3.0)) /
                     std::numbers::sqrt3;
    expected += -0.5 * z * z - packed[k];
  }
  expected -= 0.5 * std::pow(packed[3] - std::log(4.0), 2);
  expected -= 0.5 * (packed.tail(3) / 2.0).squaredNorm();
  EXPECT_NEAR(
      posterior.Evaluate(packed, nullptr) - marginal.Evaluate(packed, nullptr),
      expected, 1e-12);
}

TEST(LogNormalPrior, ModeOfDimensionScaledLengthScalesIsBoTorchs) {
  // exp(mu - s^2) = 0.71 in 12 dimensions. As a density in l, over l.
  const LogNormalPrior prior =
      KernelPriors::DimensionScaled(12, 1.0).length_scale;
  double derivative = 0.0;
  (void)prior.LogDensity(std::numbers::sqrt2 + 0.5 * std::log(12.0) - 3.0,
                         &derivative);
  EXPECT_NEAR(derivative, 0.0, 1e-12);
}

TEST(Likelihood, RetriesWithJitterAndCountsIt) {
  const auto problem = tests::MakeSyntheticProblem(50, 2, 3, 1);
  Observations observations;
  observations.candidate.assign(8, 0);  // the same place again and again
  observations.value.setConstant(8, 1.0);
  observations.noise_variance.setZero(8);
  Likelihood likelihood(problem.space, problem.mean, observations, {},
                        {.relative_noise_floor = 0.0, .with_priors = false});
  Eigen::VectorXd gradient;
  const Eigen::VectorXd at =
      Eigen::VectorXd::Zero(likelihood.parameter_count());
  EXPECT_TRUE(std::isfinite(likelihood.Evaluate(at, &gradient)));
  EXPECT_GT(likelihood.jitter_retries(), 0);
  EXPECT_TRUE(gradient.allFinite());
}

TEST(Likelihood, IsMinusInfinityWhereTheMeanOverflows) {
  const tests::GpReference reference = tests::ReadGpReference();
  Likelihood likelihood(reference.space, reference.mean, reference.observations,
                        {}, kMarginal);
  Eigen::VectorXd packed = likelihood.Pack(reference.hyperparameters);
  packed.tail(3).setConstant(-800.0);
  Eigen::VectorXd gradient;
  EXPECT_EQ(likelihood.Evaluate(packed, &gradient),
            -std::numeric_limits<double>::infinity());
}

}  // namespace surrogates::likelihood_test
