#include "surrogates/gp/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/reference/gp_reference.h"
#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::gaussian_process_test {

using tests::MakeSyntheticProblem;
using tests::Observe;
using tests::SyntheticProblem;

Prediction Predict(const GaussianProcess& process) {
  Prediction prediction;
  process.Predict(prediction);
  return prediction;
}

Prediction FitAndPredict(const SyntheticProblem& problem,
                         const Observations& observations,
                         const GaussianProcess::Options& options = {}) {
  GaussianProcess process(problem.space, problem.mean, options);
  process.Fit(observations);
  return Predict(process);
}

std::map<std::string, double> ByName(const FitSummary& summary) {
  std::map<std::string, double> values;
  for (const FitSummary::Parameter& parameter : summary.parameters) {
    values[parameter.name] = parameter.value;
  }
  return values;
}

double RootMeanSquare(const Eigen::VectorXd& values) {
  return std::sqrt(values.squaredNorm() / static_cast<double>(values.size()));
}

// The share of values that lie within their intervals of 95 percent.
double Covered(const Prediction& prediction, const SyntheticProblem& problem) {
  return ((prediction.mean - problem.truth).array().abs() <
          1.96 * prediction.variance.array().sqrt())
      .cast<double>()
      .mean();
}

TEST(GaussianProcess, PosteriorAgreesWithReferenceToTenDigits) {
  const tests::GpReference reference = tests::ReadGpReference();
  GaussianProcess process(reference.space, reference.mean,
                          {.as_printed = true});
  process.Condition(reference.observations, reference.hyperparameters);
  const Prediction prediction = Predict(process);
  EXPECT_LT((prediction.mean.tail(4) - reference.posterior_mean)
                .lpNorm<Eigen::Infinity>(),
            1e-12);
  EXPECT_LT((prediction.variance.tail(4) - reference.posterior_variance)
                .lpNorm<Eigen::Infinity>(),
            1e-12);
  EXPECT_NEAR(process.log_posterior(), reference.log_likelihood, 1e-12);
}

TEST(GaussianProcess, LearnsAProblemOfItsOwnKind) {
  const SyntheticProblem problem = MakeSyntheticProblem(2000, 4, 6, 1);
  const Prediction prediction = FitAndPredict(problem, Observe(problem, 40, 2));
  const Eigen::VectorXd error = prediction.mean - problem.truth;
  const Eigen::VectorXd spread = problem.truth.array() - problem.truth.mean();
  EXPECT_LT(RootMeanSquare(error), 0.2 * RootMeanSquare(spread));
  EXPECT_GT(Covered(prediction, problem), 0.85);
}

// Fewer observations than coefficients: taken for certain, these explain all.
TEST(GaussianProcess, KnowsWhatItDoesNotKnowOfTheCoefficients) {
  double integrated = 0.0;
  double certain = 0.0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const SyntheticProblem problem = MakeSyntheticProblem(300, 6, 12, seed);
    const Observations observations = Observe(problem, 8, seed + 50);
    integrated += Covered(FitAndPredict(problem, observations), problem) / 10.0;
    certain += Covered(FitAndPredict(problem, observations,
                                     {.integrate_coefficients = false}),
                       problem) /
               10.0;
  }
  EXPECT_GT(integrated, 0.85);
  EXPECT_LT(certain, integrated - 0.1);
}

// Few observations: the marginal likelihood alone explains them too well.
TEST(GaussianProcess, PriorsKeepItFromFalseConfidence) {
  double with_priors = 0.0;
  double as_printed = 0.0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SyntheticProblem problem = MakeSyntheticProblem(400, 10, 10, seed);
    problem.mean = ConstantMean(400, 0.0, 3.0);
    const Observations observations = Observe(problem, 8, seed + 100);
    with_priors +=
        Covered(FitAndPredict(problem, observations), problem) / 12.0;
    as_printed +=
        Covered(FitAndPredict(problem, observations, {.as_printed = true}),
                problem) /
        12.0;
  }
  EXPECT_GT(with_priors, 0.85);
  EXPECT_LT(as_printed, with_priors);
}

TEST(GaussianProcess, WithoutObservationsIsItsPrior) {
  const SyntheticProblem problem = MakeSyntheticProblem(100, 3, 4, 1);
  GaussianProcess process(problem.space, problem.mean, {});
  const Eigen::VectorXd prior =
      problem.mean.EvaluateAll(Eigen::VectorXd::Zero(4));
  for (int round = 0; round < 2; ++round) {
    const Prediction prediction = Predict(process);
    EXPECT_TRUE(prediction.mean.isApprox(prior));
    EXPECT_GT(prediction.variance.minCoeff(), 0.0);
    EXPECT_EQ(process.Fit({}).starts, 0);
  }
}

TEST(GaussianProcess, IsTheSameToTheLastBitForAnyOrderOfObservations) {
  const SyntheticProblem problem = MakeSyntheticProblem(300, 4, 6, 1);
  const Observations observations = Observe(problem, 15, 4);
  Observations reversed = observations;
  std::reverse(reversed.candidate.begin(), reversed.candidate.end());
  reversed.value.reverseInPlace();
  reversed.noise_variance.reverseInPlace();
  const Prediction a = FitAndPredict(problem, observations);
  const Prediction b = FitAndPredict(problem, reversed);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.variance, b.variance);
}

TEST(GaussianProcess, IsTheSameToTheLastBitOnAnyNumberOfThreads) {
  const SyntheticProblem problem = MakeSyntheticProblem(60000, 4, 6, 1);
  const Observations observations = Observe(problem, 15, 4);
  const Prediction one = FitAndPredict(problem, observations);
  const Prediction three = FitAndPredict(problem, observations, {.threads = 3});
  EXPECT_EQ(one.mean, three.mean);
  EXPECT_EQ(one.variance, three.variance);
}

TEST(GaussianProcess, IsTheSameToTheLastBitForAnyOrderOfCandidates) {
  const SyntheticProblem problem = MakeSyntheticProblem(500, 4, 6, 1);
  GaussianProcess process(problem.space, problem.mean, {.threads = 2});
  process.Fit(Observe(problem, 15, 4));
  const Prediction all = Predict(process);
  // Some twice, some never, and a tile that is not full.
  std::mt19937_64 engine(5);
  std::vector<int> chosen(777);
  for (int& candidate : chosen) {
    candidate = static_cast<int>(engine() % 500);
  }
  Prediction some;
  some.Resize(777);
  process.PredictSome(chosen, some.Head(777));
  EXPECT_EQ(some.mean, Eigen::VectorXd(all.mean(chosen)));
  EXPECT_EQ(some.variance, Eigen::VectorXd(all.variance(chosen)));
  const Eigen::VectorXd before = some.mean;
  process.PredictSome({}, some.Head(0));
  EXPECT_EQ(some.mean, before);
}

// Four families of neighbours; each differs from the next in one knob.
void AddFamilies(SyntheticProblem& problem) {
  Families& families = problem.space.families;
  families.values = {{0, 0}, {0, 1}, {1, 1}, {1, 2}};
  for (int i = 0; i < problem.space.size(); ++i) {
    families.of_candidate.push_back(i / 7 % 4);
  }
}

// One family is observed twenty times. The others are no more certain than
// after two observations, where without families they are nearly known.
TEST(GaussianProcess, SiblingsOfOneFamilyLeaveOtherFamiliesUncertain) {
  SyntheticProblem problem = MakeSyntheticProblem(300, 2, 1, 1);
  AddFamilies(problem);
  problem.truth.setOnes();
  problem.mean.features.setOnes();
  Observations siblings;
  for (int i = 0; siblings.size() < 20; ++i) {
    if (problem.space.families.of_candidate[i] == 0) {
      siblings.candidate.push_back(i);
    }
  }
  siblings.value.setOnes(20);
  siblings.noise_variance.setConstant(20, 1e-4);
  const auto stddev_of_family = [&](double scale, int family) {
    const Prediction prediction = FitAndPredict(
        problem, siblings, {.family = {.scale = scale}, .target_scale = 0.1});
    return std::sqrt(prediction.variance[7 * family + 3]);
  };
  EXPECT_LT(stddev_of_family(0.0, 3), 0.08);
  EXPECT_GT(stddev_of_family(0.3, 3), 2.0 * stddev_of_family(0.0, 3));
  EXPECT_GT(stddev_of_family(0.3, 3), 2.0 * stddev_of_family(0.3, 0));
  // The more structural knobs differ, the less is known.
  EXPECT_GT(stddev_of_family(0.3, 3), stddev_of_family(0.3, 1));
}

// The repetition leaves no pivot: everything is factorized again, with jitter.
TEST(GaussianProcess, AppendsARepetitionWithoutNoise) {
  const SyntheticProblem problem = MakeSyntheticProblem(300, 4, 6, 1);
  Observations observations = Observe(problem, 12, 4);
  observations.noise_variance.setZero();
  GaussianProcess process(problem.space, problem.mean,
                          {.learn_nugget = false, .relative_noise_floor = 0.0});
  process.Fit(observations);
  for (int i = 0; i < 3; ++i) {
    process.Append(observations.candidate[0], observations.value[0], 0.0);
  }
  const Prediction prediction = Predict(process);
  EXPECT_TRUE(prediction.mean.allFinite());
  EXPECT_NEAR(prediction.mean[observations.candidate[0]], observations.value[0],
              1e-3 * observations.value[0]);
  EXPECT_THROW(process.Append(300, 1.0, 0.0), std::invalid_argument);
}

TEST(GaussianProcess, TrustsTheLessNoisyOfTwoObservationsOfOnePlace) {
  const SyntheticProblem problem = MakeSyntheticProblem(100, 3, 4, 1);
  Observations observations = Observe(problem, 6, 5);
  const double value = observations.value[0];
  observations.candidate[1] = observations.candidate[0];
  observations.value[1] = 1.5 * value;
  observations.noise_variance[0] = std::pow(1e-3 * value, 2);
  observations.noise_variance[1] = std::pow(0.5 * value, 2);
  const Prediction prediction = FitAndPredict(problem, observations);
  EXPECT_NEAR(prediction.mean[observations.candidate[0]], value, 0.01 * value);
}

TEST(GaussianProcess, InterpolatesAsNoiseVanishes) {
  const SyntheticProblem problem = MakeSyntheticProblem(200, 3, 4, 1);
  Observations observations = Observe(problem, 12, 6);
  for (int i = 0; i < 12; ++i) {
    observations.value[i] = problem.truth[observations.candidate[i]];
  }
  observations.noise_variance.setZero();
  const Prediction prediction =
      FitAndPredict(problem, observations, {.learn_nugget = false});
  for (int i = 0; i < 12; ++i) {
    const int at = observations.candidate[i];
    EXPECT_NEAR(prediction.mean[at], observations.value[i],
                2e-3 * observations.value[i]);
  }
}

TEST(GaussianProcess, LearnsNoiseThatNobodyToldOf) {
  const SyntheticProblem problem = MakeSyntheticProblem(300, 3, 4, 1);
  Observations observations = Observe(problem, 60, 8);
  std::mt19937_64 engine(9);
  std::normal_distribution<double> normal;
  const double untold = 0.2 * RootMeanSquare(observations.value);
  for (double& value : observations.value) {
    value += untold * normal(engine);
  }
  GaussianProcess process(problem.space, problem.mean, {});
  const FitSummary summary = process.Fit(observations);
  EXPECT_NEAR(ByName(summary).at("misfit_stddev") / untold, 1.0, 0.35);
  // A configuration that was not tried may deviate by as much.
  EXPECT_GT(Predict(process).variance.minCoeff(),
            std::pow(ByName(summary).at("misfit_stddev"), 2) * 0.999);
}

TEST(GaussianProcess, StandsEqualValuesAndEqualPlaces) {
  const SyntheticProblem problem = MakeSyntheticProblem(100, 3, 4, 1);
  Observations observations = Observe(problem, 8, 7);
  observations.value.setConstant(2.0);
  observations.noise_variance.setZero();
  for (const bool as_printed : {false, true}) {
    const Prediction same_value =
        FitAndPredict(problem, observations, {.as_printed = as_printed});
    EXPECT_TRUE(same_value.mean.allFinite());
    EXPECT_TRUE(same_value.variance.allFinite());
    Observations same_place = observations;
    same_place.candidate.assign(8, 5);
    const Prediction one_place =
        FitAndPredict(problem, same_place, {.as_printed = as_printed});
    EXPECT_NEAR(one_place.mean[5], 2.0, 0.02);
  }
}

// The candidates are indistinguishable, so the predictions must be equal.
TEST(GaussianProcess, StandsASpaceOfEqualCandidates) {
  SyntheticProblem problem = MakeSyntheticProblem(70, 3, 4, 1);
  problem.space.points.colwise() = Eigen::Vector3d(0.25, 0.5, 1.0);
  problem.mean.features.setOnes();
  Observations observations = Observe(problem, 6, 7);
  for (const bool as_printed : {false, true}) {
    const Prediction prediction =
        FitAndPredict(problem, observations, {.as_printed = as_printed});
    EXPECT_TRUE(prediction.mean.allFinite());
    EXPECT_EQ(prediction.mean,
              Eigen::VectorXd::Constant(70, prediction.mean[0]));
    EXPECT_EQ(prediction.variance,
              Eigen::VectorXd::Constant(70, prediction.variance[0]));
    EXPECT_GE(prediction.mean[0], observations.value.minCoeff());
    EXPECT_LE(prediction.mean[0], observations.value.maxCoeff());
  }
}

TEST(GaussianProcess, DoesNotDependOnTheUnitOfTheTarget) {
  const SyntheticProblem problem = MakeSyntheticProblem(200, 3, 1, 1);
  const Observations observations = Observe(problem, 12, 8);
  const auto constant = [](double scale) {
    return ConstantMean(200, std::log(scale), 2.0);
  };
  GaussianProcess process(problem.space, constant(1.0), {});
  process.Fit(observations);
  const Prediction prediction = Predict(process);
  for (const double scale : {1e-9, 1e11}) {
    Observations scaled = observations;
    scaled.value *= scale;
    scaled.noise_variance *= scale * scale;
    GaussianProcess other(problem.space, constant(scale), {});
    other.Fit(scaled);
    const Prediction theirs = Predict(other);
    EXPECT_LT((theirs.mean / scale - prediction.mean).norm(),
              1e-3 * prediction.mean.norm());
    EXPECT_LT((theirs.variance / (scale * scale) - prediction.variance).norm(),
              1e-2 * prediction.variance.norm());
  }
}

TEST(GaussianProcess, MeanAloneFindsTheCoefficientsOfExactData) {
  const SyntheticProblem problem = MakeSyntheticProblem(500, 4, 4, 1);
  Eigen::VectorXd log_c(4);
  log_c << 0.5, -1.0, 0.2, -0.3;
  const Eigen::VectorXd truth = problem.mean.EvaluateAll(log_c);
  Observations observations = Observe(problem, 30, 9);
  for (int i = 0; i < 30; ++i) {
    observations.value[i] = truth[observations.candidate[i]];
  }
  GaussianProcess process(problem.space, problem.mean, {.mean_only = true});
  const auto learned = ByName(process.Fit(observations));
  const Prediction prediction = Predict(process);
  EXPECT_LT((prediction.mean - truth).norm(), 0.01 * truth.norm());
  for (int j = 0; j < 4; ++j) {
    EXPECT_NEAR(std::log(learned.at("prior[c" + std::to_string(j) + "]")),
                log_c[j], 0.05);
  }
  EXPECT_EQ(learned.count("length_scale[x0]"), 0u);
  // The nugget, and what is not known of the coefficients.
  EXPECT_GT(prediction.variance.minCoeff(),
            std::pow(learned.at("misfit_stddev"), 2));
  GaussianProcess certain(problem.space, problem.mean,
                          {.integrate_coefficients = false, .mean_only = true});
  const double nugget = ByName(certain.Fit(observations)).at("misfit_stddev");
  EXPECT_NEAR(Predict(certain).variance[0] / (nugget * nugget), 1.0, 1e-12);
}

// Either size alone is refused.
TEST(GaussianProcess, RejectsHyperparametersOfOtherSizes) {
  const SyntheticProblem problem = MakeSyntheticProblem(300, 4, 6, 1);
  const Observations observations = Observe(problem, 6, 2);
  GaussianProcess process(problem.space, problem.mean, {.starts = 1});
  (void)process.Fit(observations);
  Hyperparameters fewer_scales = process.hyperparameters();
  fewer_scales.log_length_scales.conservativeResize(3);
  EXPECT_THROW(process.Condition(observations, fewer_scales),
               std::invalid_argument);
  Hyperparameters fewer_coefficients = process.hyperparameters();
  fewer_coefficients.log_coefficients.conservativeResize(5);
  EXPECT_THROW(process.Condition(observations, fewer_coefficients),
               std::invalid_argument);
}

// What would fail later, as a covariance without a factor, is refused by name.
TEST(GaussianProcess, NamesWhatItRefuses) {
  const SyntheticProblem problem = MakeSyntheticProblem(10, 2, 2, 1);
  const auto refusal = [&](const Observations& observations) {
    GaussianProcess process(problem.space, problem.mean, {.starts = 1});
    return fakes::ErrorOf([&] { return process.Fit(observations); });
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Eigen::Vector2d fine(1.0, 2.0);
  EXPECT_EQ(refusal({{0, 1}, fine, fine}), "no error");
  EXPECT_NE(refusal({{0, 10}, fine, fine}).find("outside the space"),
            std::string::npos);
  EXPECT_NE(refusal({{0, 1}, fine, -fine}).find("must not be negative"),
            std::string::npos);
  for (const double wrong : {kInfinity, std::nan("")}) {
    const Eigen::Vector2d not_finite(1.0, wrong);
    for (const Observations& observations :
         {Observations{{0, 1}, not_finite, fine},
          Observations{{0, 1}, fine, not_finite}}) {
      EXPECT_NE(refusal(observations).find("must be finite"),
                std::string::npos);
    }
  }
  const Eigen::Vector3d longer(1.0, 2.0, 3.0);
  for (const Observations& observations :
       {Observations{{0, 1}, longer, fine},
        Observations{{0, 1}, fine, longer}}) {
    EXPECT_NE(refusal(observations).find("one value and one noise variance"),
              std::string::npos);
  }
}

TEST(GaussianProcess, RejectsOptionsBeyondTheirRangesAndNoneWithin) {
  const SyntheticProblem problem = MakeSyntheticProblem(10, 2, 2, 1);
  const auto accepts = [&](const GaussianProcess::Options& options) {
    try {
      const GaussianProcess process(problem.space, problem.mean, options);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  EXPECT_TRUE(accepts({.starts = 1, .threads = 1}));
  EXPECT_TRUE(accepts({.min_length_scale = 0.5, .max_length_scale = 0.6}));
  for (const GaussianProcess::Options& options :
       {GaussianProcess::Options{.threads = 0},
        {.relative_noise_floor = -1e-9},
        {.target_scale = -1e-9},
        {.min_length_scale = 0.5, .max_length_scale = 0.5},
        {.min_length_scale = 0.0},
        {.coefficient_reach = 0.0}}) {
    EXPECT_FALSE(accepts(options));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [center, stddev] :
       {std::pair(0.0, 0.0), std::pair(0.0, -1.0), std::pair(kInfinity, 1.0),
        std::pair(std::nan(""), 1.0)}) {
    EXPECT_THROW(
        GaussianProcess(problem.space, ConstantMean(10, center, stddev),
                        {.as_printed = true}),
        std::invalid_argument);
  }
  EXPECT_NO_THROW(
      GaussianProcess(problem.space, ConstantMean(10, 0.0, 1e-3), {}));
  GaussianProcess process(problem.space, ConstantMean(10), {});
  EXPECT_THROW(process.SetLogCenters(Eigen::Vector2d(0.0, 0.0)),
               std::invalid_argument);
  EXPECT_THROW(process.SetLogCenters(Eigen::VectorXd::Constant(1, kInfinity)),
               std::invalid_argument);
}

// The prediction of each observation by a process conditioned on the rest.
Prediction RefitWithoutEach(const SyntheticProblem& problem,
                            const GaussianProcess& process,
                            const GaussianProcess::Options& options) {
  const Observations& all = process.observations();
  const int n = all.size();
  Prediction others{Eigen::VectorXd(n), Eigen::VectorXd(n)};
  for (int i = 0; i < n; ++i) {
    std::vector<int> rest(n);
    std::iota(rest.begin(), rest.end(), 0);
    rest.erase(rest.begin() + i);
    Observations observations{{}, all.value(rest), all.noise_variance(rest)};
    for (const int j : rest) {
      observations.candidate.push_back(all.candidate[j]);
    }
    GaussianProcess without(problem.space, problem.mean, options);
    without.Condition(observations, process.hyperparameters());
    without.PredictSome(
        {&all.candidate[i], 1},
        {others.mean.segment(i, 1), others.variance.segment(i, 1)});
    others.variance[i] += all.noise_variance[i];
  }
  return others;
}

// A prediction counts the nugget of what was not tried, and what the
// coefficients add.
TEST(GaussianProcess, LeaveOneOutIsConditioningOnTheOthers) {
  const SyntheticProblem problem = MakeSyntheticProblem(60, 3, 2, 5);
  for (const bool integrate : {false, true}) {
    const GaussianProcess::Options options{.integrate_coefficients = integrate};
    GaussianProcess process(problem.space, problem.mean, options);
    process.Fit(Observe(problem, 12, 3));
    const Prediction others = process.LeaveOneOut();
    const Prediction direct = RefitWithoutEach(problem, process, options);
    ASSERT_EQ(others.mean.size(), 12);
    EXPECT_LT((others.variance - direct.variance).lpNorm<Eigen::Infinity>(),
              1e-9);
    if (!integrate) {
      EXPECT_LT((others.mean - direct.mean).lpNorm<Eigen::Infinity>(), 1e-9);
    }
  }
}

// One observation with signal-to-noise k / v: 1/2 log(1 + k / v), Eq. 37. The
// same place observed twice with twice the noise is as informative.
TEST(GaussianProcess, InformationGainIsThatOfTheEquation) {
  const SyntheticProblem problem = MakeSyntheticProblem(20, 2, 2, 3);
  GaussianProcess process(problem.space, problem.mean, {.as_printed = true});
  const Hyperparameters hyperparameters{
      .log_length_scales = Eigen::Vector2d(-1.0, 0.5),
      .log_signal_variance = std::log(2.0),
      .log_coefficients = Eigen::Vector2d::Zero()};
  process.Condition(
      {{4}, Eigen::VectorXd::Ones(1), Eigen::VectorXd::Constant(1, 0.1)},
      hyperparameters);
  const double expected = 0.5 * std::log(1.0 + 2.0 / 0.1);
  EXPECT_NEAR(process.information_gain(), expected, 1e-12);
  process.Condition(
      {{4, 4}, Eigen::Vector2d::Ones(), Eigen::Vector2d::Constant(0.2)},
      hyperparameters);
  EXPECT_NEAR(process.information_gain(), expected, 1e-12);
}

}  // namespace surrogates::gaussian_process_test
