#include "methods/remaining.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "methods/surrogate_pair.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace methods::remaining_test {

constexpr double kCapacity = 16e9;

trials::SearchSpace Space() {
  return trials::SearchSpace(
      fakes::Grid({{"dp", {1, 2, 3, 4, 5, 6, 7, 8}}, {"tp", {1, 2, 3, 4}}}));
}

class RemainingTest : public testing::Test {
 protected:
  void Try(int candidate, trials::Outcome outcome = trials::Outcome::kCompleted,
           double scale = 1.0) {
    trials::Measurement measurement;
    measurement.outcome = outcome;
    if (outcome != trials::Outcome::kOutOfMemory) {
      const double step_s = scale * (1.0 / space_[candidate].dp + 0.05);
      measurement.step_times_s = {step_s, 1.001 * step_s, 0.999 * step_s,
                                  step_s};
      measurement.peak_memory_bytes = 0.1 * kCapacity * space_[candidate].tp;
    }
    history_.Add(MakeTrial(candidate, space_[candidate], measurement));
  }

  std::optional<trials::Remaining> Estimate() {
    SurrogatePair pair(problem_,
                       {.throughput_prior = surrogates::CostModelForm::kNone,
                        .memory_prior = surrogates::CostModelForm::kNone});
    (void)pair.Fit(history_);
    (void)pair.ArgMax({.beta = 1.0}, history_.tried());
    return pair.EstimateRemaining(history_);
  }

  trials::SearchSpace space_ = Space();
  Problem problem_{.space = &space_,
                   .machine = trials::GpuType{.memory_bytes = kCapacity}};
  History history_{space_.size()};
};

TEST_F(RemainingTest, IsAbsentBeforeTheFirstCompletedTrial) {
  EXPECT_FALSE(Estimate());
  Try(5, trials::Outcome::kOutOfMemory);
  EXPECT_FALSE(Estimate());
  Try(6, trials::Outcome::kTerminatedEarly);
  EXPECT_FALSE(Estimate());
  Try(7);
  EXPECT_TRUE(Estimate());
}

TEST_F(RemainingTest, ExpectedGainIsZeroWhenEverythingWasTried) {
  for (int i = 0; i < space_.size(); ++i) {
    Try(i);
  }
  const trials::Remaining remaining = Estimate().value();
  EXPECT_EQ(remaining.expected_gain, 0.0);
  EXPECT_EQ(remaining.candidate, -1);
  EXPECT_GT(remaining.p_within_5, 0.95);
}

// Throughput grows with dp alone.
TEST_F(RemainingTest, LessIsLeftOnceTheBestWasFound) {
  for (const int i : {0, 6, 12, 15}) {
    Try(i);
  }
  const trials::Remaining before = Estimate().value();
  EXPECT_GT(before.expected_gain, 0.05);
  EXPECT_LT(before.p_within_5, 0.5);
  for (const int i : {24, 25, 26, 28, 29, 30, 31}) {
    Try(i);
  }
  const trials::Remaining after = Estimate().value();
  EXPECT_LT(after.expected_gain, 0.5 * before.expected_gain);
  EXPECT_GT(after.p_within_5, before.p_within_5);
}

// A run that may have been 20% too fast hides what others gain.
TEST_F(RemainingTest, RunsThatDifferLeaveMoreToGain) {
  for (const int i : {0, 6, 12, 15, 24, 25, 26, 28, 29, 30, 31}) {
    Try(i);
  }
  const trials::Remaining steady = Estimate().value();
  history_.set_run_variance(0.2 * 0.2);
  const trials::Remaining noisy = Estimate().value();
  EXPECT_GT(noisy.expected_gain, steady.expected_gain + 0.005);
  EXPECT_LT(noisy.p_within_5, steady.p_within_5);
  history_.set_run_variance(1e-12);
  EXPECT_EQ(Estimate().value(), steady) << "less than steps show";
}

TEST_F(RemainingTest, AFasterPlanLeavesLessToGain) {
  for (const int i : {0, 6, 12, 15}) {
    Try(i);
  }
  const trials::Remaining before = Estimate().value();
  history_.Add(tests::CompletedPlan(0.1));  // dp = 8 takes 0.175
  const trials::Remaining after = Estimate().value();
  EXPECT_LT(after.expected_gain, 0.5 * before.expected_gain);
  EXPECT_GT(after.p_within_5, before.p_within_5);
}

TEST_F(RemainingTest, IsAbsentWhileOnlyPlansHaveCompleted) {
  history_.Add(tests::CompletedPlan(0.1));
  EXPECT_FALSE(Estimate());
}

// The mean of what a candidate has above the incumbent, by integration, times
// the probability that it fits.
TEST_F(RemainingTest, ExpectedGainIsTheMeanAboveTheIncumbent) {
  const int last = space_.size() - 1;
  for (int i = 0; i < last; ++i) {
    Try(i);
  }
  SurrogatePair pair(problem_,
                     {.throughput_prior = surrogates::CostModelForm::kNone,
                      .memory_prior = surrogates::CostModelForm::kNone});
  (void)pair.Fit(history_);
  (void)pair.ArgMax({.beta = 1.0}, history_.tried());
  surrogates::Prediction speed, memory;
  pair.Predict(speed, memory);
  double best = 0.0;
  for (const trials::Trial& trial : history_.trials()) {
    best = std::max(best, trial.throughput.steps_per_s);
  }
  const double mean = speed.mean[last];
  const double stddev = std::sqrt(speed.variance[last]);
  double above = 0.0;
  constexpr int kSteps = 100000;
  for (int i = 0; i < kSteps; ++i) {
    const double z = -10.0 + 20.0 * (i + 0.5) / kSteps;
    above += std::max(mean + stddev * z - best, 0.0) * std::exp(-0.5 * z * z) *
             20.0 / kSteps;
  }
  above /= std::sqrt(2.0 * std::acos(-1.0));
  const double fits = 0.5 * std::erfc((memory.mean[last] - 1.0) /
                                      std::sqrt(2.0 * memory.variance[last]));
  const trials::Remaining remaining = *pair.EstimateRemaining(history_);
  EXPECT_EQ(remaining.candidate, last);
  EXPECT_NEAR(remaining.expected_gain, fits * above / best,
              1e-6 + 1e-3 * above / best);
}

TEST_F(RemainingTest, DoesNotDependOnTheUnitOfTime) {
  const auto after_all = [&](double scale) {
    history_ = History(space_.size());
    for (int i = 0; i < space_.size(); ++i) {
      Try(i, trials::Outcome::kCompleted, scale);
    }
    return *Estimate();
  };
  const trials::Remaining fast = after_all(1.0);
  const trials::Remaining slow = after_all(128.0);
  EXPECT_EQ(fast.p_within_1, slow.p_within_1);
  EXPECT_EQ(fast.p_within_5, slow.p_within_5);
  EXPECT_EQ(slow.p_within_5, HighestProbability());
}

// A process that expects this value everywhere, with this deviation, and has
// measured it at candidate 0 with this variance of noise.
surrogates::GaussianProcess SameEverywhere(
    const surrogates::EncodedSpace& space, double value, double stddev,
    double noise_variance, double log_length_scale) {
  surrogates::GaussianProcess process(space,
                                      surrogates::ConstantMean(space.size()),
                                      {.integrate_coefficients = false,
                                       .learn_nugget = false,
                                       .relative_noise_floor = 0.0});
  surrogates::Observations observations;
  observations.candidate = {0};
  observations.value.setConstant(1, value);
  observations.noise_variance.setConstant(1, noise_variance);
  process.Condition(
      observations,
      {.log_length_scales =
           Eigen::VectorXd::Constant(space.dimension_count(), log_length_scale),
       .log_signal_variance = 2.0 * std::log(stddev),
       .log_coefficients = Eigen::VectorXd::Constant(1, std::log(value))});
  return process;
}

// It learns nothing of candidates other than the measured one.
surrogates::GaussianProcess AroundOne(const surrogates::EncodedSpace& space,
                                      double stddev) {
  return SameEverywhere(space, 1.0, stddev, 1e-8, std::log(0.05));
}

// One trial, of candidate 0, with one step a second.
History OneTrial(const trials::SearchSpace& space) {
  History history(space.size());
  history.Add(MakeTrial(0, space[0], tests::Completed(1.0, kCapacity)));
  return history;
}

double Tempered(double probability) {
  return 1.0 / (1.0 + std::sqrt((1.0 - probability) / probability));
}

// Another candidate fits with probability 1/2 and, whether or not it does, is
// faster than 1 / (1 - x) with the probability of a normal number.
TEST(Remaining, SpeedAndMemoryOfACandidateAreIndependent) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  constexpr double kStddev = 0.2;
  const surrogates::GaussianProcess speed = AroundOne(encoded, kStddev);
  const surrogates::GaussianProcess memory = AroundOne(encoded, 0.1);
  surrogates::Prediction prediction;
  speed.Predict(prediction);
  const trials::Remaining remaining =
      EstimateRemaining(OneTrial(space), prediction, speed, memory).value();
  const auto within = [](double x) {
    const double above = 1.0 / (1.0 - x) - 1.0;
    return Tempered(1.0 - 0.25 * std::erfc(above / kStddev / std::sqrt(2.0)));
  };
  // Five deviations of a share of 1024 samples.
  EXPECT_NEAR(remaining.p_within_1, within(0.01), 0.04);
  EXPECT_NEAR(remaining.p_within_3, within(0.03), 0.04);
  EXPECT_NEAR(remaining.p_within_5, within(0.05), 0.04);
  // Half of E[Z^+] deviations.
  EXPECT_NEAR(remaining.expected_gain,
              0.5 * kStddev / std::sqrt(2.0 * std::acos(-1.0)), 1e-3);
}

// Two configurations take the same time, and runs of each vary by 20%.
TEST(Remaining, WhichOfThoseTriedIsTheBestIsNoReasonToTryAnother) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const surrogates::GaussianProcess process = AroundOne(encoded, 0.1);
  surrogates::Prediction prediction;
  process.Predict(prediction);
  History history = OneTrial(space);
  history.Add(MakeTrial(1, space[1], tests::Completed(1.0)));
  history.set_run_variance(0.2 * 0.2);
  const trials::Remaining remaining =
      EstimateRemaining(history, prediction, process, process).value();
  EXPECT_EQ(remaining.p_found_5, HighestProbability());
  EXPECT_LT(remaining.p_within_5, 0.7);
}

// A trial of one step a second, and one that was stopped early and is faster:
// the first is within x of it or it is not, as there is no noise.
TEST(Remaining, WithinIsAShareOfTheHighestThroughput) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const surrogates::GaussianProcess process = AroundOne(encoded, 0.1);
  surrogates::Prediction prediction;
  process.Predict(prediction);
  const auto after = [&](double gap) {
    trials::Measurement measurement = tests::Completed(1.0 - gap);
    measurement.outcome = trials::Outcome::kTerminatedEarly;
    History history = OneTrial(space);
    history.Add(MakeTrial(1, space[1], measurement));
    return EstimateRemaining(history, prediction, process, process).value();
  };
  const double most = HighestProbability();
  EXPECT_EQ(after(0.0099).p_within_1, most);
  EXPECT_NEAR(after(0.0101).p_within_1, 1.0 - most, 1e-12);
  EXPECT_EQ(after(0.0299).p_within_3, most);
  EXPECT_NEAR(after(0.0301).p_within_3, 1.0 - most, 1e-12);
  EXPECT_EQ(after(0.0499).p_within_5, most);
  EXPECT_NEAR(after(0.0501).p_within_5, 1.0 - most, 1e-12);
}

// One candidate is faster almost surely, the other by more on average.
TEST(Remaining, TheGainIsThatOfTheCandidateWithTheMost) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}, {.dp = 4}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const surrogates::GaussianProcess process = AroundOne(encoded, 0.1);
  surrogates::Prediction prediction;
  process.Predict(prediction);
  prediction.mean << 1.0, 1.05, 1.0;
  prediction.variance << 0.0, 1e-6, 0.25;
  const auto gain = [&] {
    return EstimateRemaining(OneTrial(space), prediction, process, process)
        .value();
  };
  EXPECT_EQ(gain().candidate, 2);
  EXPECT_NEAR(gain().expected_gain,
              0.5 * 0.5 / std::sqrt(2.0 * std::acos(-1.0)), 1e-3);
  prediction.mean[1] = 2.0;
  EXPECT_EQ(gain().candidate, 1);
  EXPECT_NEAR(gain().expected_gain, 0.5, 1e-3);
}

// Of two equal candidates one gains the mean of what the other has too much.
TEST(Remaining, ALuckyIncumbentLeavesAGain) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const surrogates::GaussianProcess process = AroundOne(encoded, 0.1);
  surrogates::Prediction prediction;
  process.Predict(prediction);
  prediction.variance.setZero();
  for (const double noise : {0.0, 0.1}) {
    trials::Trial trial =
        MakeTrial(0, space[0], tests::Completed(1.0, kCapacity));
    trial.throughput.variance = noise * noise * trial.throughput.steps_used;
    History history(space.size());
    history.Add(trial);
    EXPECT_NEAR(EstimateRemaining(history, prediction, process, process)
                    .value()
                    .expected_gain,
                0.5 * noise / std::sqrt(2.0 * std::acos(-1.0)), 1e-6);
  }
}

// A process of logarithms around 0 is one of values around 1, where the
// deviation is small.
TEST(Remaining, IsTheSameOfLogarithmsAndWithDoubtThatOfALargerVariance) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const auto remaining = [&](bool logarithmic, double stddev, double doubt) {
    surrogates::ParametricMean mean = surrogates::ConstantMean(2, 0.0, 1e-6);
    if (logarithmic) {
      mean.link = surrogates::ParametricMean::Link::kLogLinear;
    }
    surrogates::GaussianProcess process(
        encoded, mean, {.learn_nugget = false, .target_scale = stddev});
    surrogates::Prediction prediction;
    process.Predict(prediction);
    return EstimateRemaining(OneTrial(space), prediction, process, process,
                             doubt)
        .value();
  };
  const trials::Remaining values = remaining(false, 0.02, 1.0);
  for (const trials::Remaining& same :
       {remaining(true, 0.02, 1.0), remaining(false, 0.01, 4.0),
        remaining(true, 0.01, 4.0)}) {
    EXPECT_NEAR(same.expected_gain, values.expected_gain, 1e-3);
    EXPECT_NEAR(same.p_within_1, values.p_within_1, 0.02);
    EXPECT_NEAR(same.p_within_3, values.p_within_3, 0.02);
  }
  EXPECT_GT(values.expected_gain, 0.003);
  EXPECT_LT(remaining(false, 0.01, 1.0).expected_gain,
            0.7 * values.expected_gain);
}

// A trial of this throughput without noise.
trials::Trial TrialOf(int candidate, double steps_per_s) {
  trials::Trial trial =
      MakeTrial(candidate, {}, tests::Completed(1.0 / steps_per_s));
  trial.throughput.steps_per_s = steps_per_s;
  trial.throughput.variance = 0.0;
  return trial;
}

trials::SearchSpace SpaceOf(int size) {
  std::vector<trials::ParallelConfig> configs;
  for (int i = 0; i < size; ++i) {
    configs.push_back({.dp = i + 1});
  }
  return trials::SearchSpace(configs);
}

// P(within 1%) where 100 candidates have one unknown speed, which is so with
// probability 1/2, in any unit of throughput and however well it is known.
TEST(Remaining, CandidatesThatAreOneUnknownCountOnce) {
  const trials::SearchSpace space = SpaceOf(101);
  const surrogates::EncodedSpace encoded = surrogates::Encode(space);
  const surrogates::GaussianProcess memory =
      SameEverywhere(encoded, 0.1, 1e-3, 1e-8, std::log(0.05));
  for (const double unit : {1e-6, 1.0, 1e6}) {
    for (const double noise : {1e8, 1e-8, 1e-9}) {
      const double spread = 0.1 * unit;
      const surrogates::GaussianProcess speed = SameEverywhere(
          encoded, unit, spread, noise * spread * spread, std::log(1e10));
      surrogates::Prediction prediction;
      speed.Predict(prediction);
      prediction.mean.setConstant(unit / 0.99);
      History history(space.size());
      history.Add(TrialOf(0, unit));
      const auto remaining =
          EstimateRemaining(history, prediction, speed, memory);
      EXPECT_NEAR(remaining->p_within_1, 0.5, 0.04) << unit << ' ' << noise;
    }
  }
}

}  // namespace methods::remaining_test
