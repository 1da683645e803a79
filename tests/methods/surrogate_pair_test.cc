#include "methods/surrogate_pair.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "common/error.h"
#include "surrogates/cost/misspecification.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace methods::surrogate_pair_test {

constexpr double kCapacity = 16e9;

trials::SearchSpace Space() {
  return trials::SearchSpace(fakes::Grid(
      {{"dp", {1, 2, 3, 4, 5, 6, 7, 8}}, {"tp", {1, 2, 3, 4, 5, 6, 7, 8}}}));
}

void Try(const trials::SearchSpace& space, int candidate, History& history,
         double offset_s = 0.0) {
  const double s = offset_s + 1.0 / space[candidate].dp +
                   0.1 * std::sin(space[candidate].tp);
  history.Add(
      MakeTrial(candidate, space[candidate],
                tests::Completed({s, 1.01 * s, 0.99 * s, s},
                                 0.1 * kCapacity * space[candidate].tp)));
}

class SurrogatePairTest : public testing::Test {
 protected:
  [[nodiscard]] SurrogatePair Make(int refit_every_trial_until) const {
    return {problem_,
            {.throughput_prior = surrogates::CostModelForm::kNone,
             .memory_prior = surrogates::CostModelForm::kNone,
             .refit_every_trial_until = refit_every_trial_until}};
  }

  trials::SearchSpace space_ = Space();
  Problem problem_{.space = &space_,
                   .machine = trials::GpuType{.memory_bytes = kCapacity}};
};

// Before the first trial, with money as the objective.
TEST_F(SurrogatePairTest, ThePriorOfAValueIsThatOfTheThroughputOverThePrice) {
  problem_.machine = {
      {.gpus = 64, .gpus_per_node = 8, .memory_bytes = kCapacity}, {1, 64}};
  problem_.workload = nullptr;
  problem_.predict = tests::PredictionsBy(space_.size(), [this](int i) {
    return std::pair(3.0 / space_[i].dp + 0.2 * space_[i].tp, 0.5 * kCapacity);
  });
  for (const auto form : {surrogates::CostModelForm::kPrinted,
                          surrogates::CostModelForm::kPhysical,
                          surrogates::CostModelForm::kPredicted}) {
    const auto prior = [&](const trials::Weight& weight) {
      problem_.weight = weight;
      SurrogatePair pair(problem_,
                         {.throughput_prior = form,
                          .memory_prior = surrogates::CostModelForm::kNone});
      (void)pair.Fit(History(space_.size()));
      surrogates::Prediction throughput, memory;
      pair.Predict(throughput, memory);
      return throughput.mean;
    };
    const Eigen::VectorXd time = prior({});
    const trials::Weight weight = {64};
    const Eigen::VectorXd money = prior(weight);
    for (int i = 0; i < space_.size(); ++i) {
      ASSERT_NEAR(money[i] * weight(space_[i]) / time[i], 1.0, 1e-9) << i;
    }
  }
}

// OPPA App. I.5: the prior is wrong by a field, in units of the best
// throughput.
TEST_F(SurrogatePairTest, AWrongPriorDisplacesWhatIsNotTriedByItsField) {
  SurrogatePair::Options options{
      .throughput_prior = surrogates::CostModelForm::kNone,
      .memory_prior = surrogates::CostModelForm::kNone};
  SurrogatePair right(problem_, options);
  options.prior_error = 0.05;
  SurrogatePair wrong(problem_, options);
  History history(space_.size());
  Try(space_, 0, history);
  (void)right.Fit(history);
  (void)wrong.Fit(history);
  surrogates::Prediction expected, displaced, memory;
  right.Predict(expected, memory);
  wrong.Predict(displaced, memory);
  const Eigen::VectorXd field = surrogates::Misspecification(
      surrogates::Encode(space_, surrogates::InactiveKnobs::kNeutral,
                         options.encoding),
      options.fit.seed);
  const Eigen::VectorXd moved = displaced.mean - expected.mean;
  const double amplitude = 0.05 * history.best_value();
  // The observation takes the place of the prior where it was made, and moves
  // the others by at most as much.
  EXPECT_LT(std::abs(moved[0]), 0.2 * amplitude * std::abs(field[0]) + 1e-9);
  for (int i = 32; i < space_.size(); ++i) {
    EXPECT_NEAR(moved[i], amplitude * field[i],
                1.01 * amplitude * std::abs(field[0]))
        << i;
  }
  EXPECT_GT(moved.norm(), 0.5 * amplitude * field.norm());
}

// The variance of a measurement grows with its mean, relative to the mean
// square of the measured throughputs.
TEST_F(SurrogatePairTest, MeasurementsArePredictedFromThoseWithAWrongPriorToo) {
  for (const double prior_error : {0.0, 0.5}) {
    SurrogatePair pair(problem_,
                       {.throughput_prior = surrogates::CostModelForm::kNone,
                        .memory_prior = surrogates::CostModelForm::kNone,
                        .prior_error = prior_error});
    History history(space_.size());
    for (const int candidate : {3, 40, 21, 62, 17}) {
      Try(space_, candidate, history);
    }
    (void)pair.Fit(history);
    surrogates::Prediction throughput, memory;
    pair.Predict(throughput, memory);
    const auto measured = pair.PredictThroughputMeasurements();
    EXPECT_EQ(measured.location, throughput.mean);
    const double mean_square =
        history.ThroughputObservations().value.squaredNorm() / 5.0;
    const Eigen::ArrayXd ratio =
        measured.scale_squared.array() / throughput.variance.array() /
        (0.2 + throughput.mean.array().max(0.0).square() / mean_square);
    EXPECT_LT(ratio.maxCoeff() / ratio.minCoeff() - 1.0, 1e-9) << prior_error;
  }
}

// The kriging believer: means stay, and less can be learned nearby.
TEST_F(SurrogatePairTest, RunningTrialsCountAsTriedWithWhatIsPredicted) {
  SurrogatePair pair = Make(100);
  SurrogatePair alone = Make(100);
  History history(space_.size());
  for (const int candidate : {3, 40, 21}) {
    Try(space_, candidate, history);
  }
  (void)alone.Fit(history);
  const auto without = alone.ArgMax({.beta = 3.0}, alone.Excluded(history));
  history.Start(without.candidate);
  (void)pair.Fit(history);
  const auto with = pair.ArgMax({.beta = 3.0}, pair.Excluded(history));
  EXPECT_NE(with.candidate, without.candidate);
  surrogates::Prediction before, after, memory;
  alone.Predict(before, memory);
  pair.Predict(after, memory);
  EXPECT_LT((after.mean - before.mean).cwiseAbs().maxCoeff(),
            1e-6 * before.mean.maxCoeff());
  EXPECT_LT(after.variance[without.candidate],
            0.5 * before.variance[without.candidate]);
  EXPECT_TRUE(
      (after.variance.array() <= before.variance.array() * (1.0 + 1e-6)).all());
  // The estimate counts what they may find, and is that without them.
  const History observed = [&] {
    History same(space_.size());
    for (const trials::Trial& trial : history.trials()) {
      same.Add(trial);
    }
    return same;
  }();
  EXPECT_EQ(pair.EstimateRemaining(history)->expected_gain,
            alone.EstimateRemaining(observed)->expected_gain);
}

TEST_F(SurrogatePairTest, AFamilyWhoseMemoryIsInDoubtRunsOneTrialAtATime) {
  space_ = trials::SearchSpace(
      fakes::Grid({{"tp", {1, 8}}, {"microbatches", {1, 2, 4}}}));
  problem_.predict = tests::PredictionsBy(space_.size(), [this](int i) {
    return std::pair(1.0, kCapacity * 0.12 * space_[i].tp);
  });
  SurrogatePair pair(problem_,
                     {.throughput_prior = surrogates::CostModelForm::kPredicted,
                      .memory_prior = surrogates::CostModelForm::kPredicted});
  for (const int running : {0, space_.size() - 1}) {
    History history(space_.size());
    history.Start(running);
    (void)pair.Fit(history);
    const std::vector<char> excluded = pair.Excluded(history);
    for (int i = 0; i < space_.size(); ++i) {
      const bool in_doubt = space_[running].tp == 8 && space_[i].tp == 8;
      EXPECT_EQ(excluded[i] != 0, i == running || in_doubt) << i;
    }
  }
}

// Predicted and measured times agree, or do not by a factor that no candidate
// shares with its neighbours.
TEST_F(SurrogatePairTest, PredictionsThatMissLeaveALargerGain) {
  const auto step_time_s = [this](int i) {
    return 1.0 + 0.02 * space_[i].dp + 0.02 * space_[i].tp;
  };
  const auto gain = [&](double error) {
    problem_.predict = tests::PredictionsBy(space_.size(), [=](int i) {
      return std::pair(step_time_s(i) * std::exp(error * std::sin(100.0 * i)),
                       0.1 * kCapacity);
    });
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    History history(space_.size());
    for (const int candidate : {0, 1, 8, 9, 2, 16}) {
      history.Add(
          MakeTrial(candidate, space_[candidate],
                    tests::Completed(step_time_s(candidate), 0.1 * kCapacity)));
      (void)pair.Fit(history);
    }
    (void)pair.ArgMax({.beta = 1.0}, history.tried());
    return pair.EstimateRemaining(history)->expected_gain;
  };
  EXPECT_GT(gain(0.7), 2.0 * gain(0.0));
}

// Predicted are links that make tp = 8 the fastest, and with slow links tp = 2
// is. None with tp = 1 has run.
TEST_F(SurrogatePairTest, SlowLinksMoveWhatHasNotRun) {
  const auto step_time_s = [this](int i, double slowdown) {
    return 1.0 / (1.0 + space_[i].tp) + 0.05 * slowdown * space_[i].tp +
           0.03 * (8 - space_[i].dp);
  };
  const auto ratio = [&](bool has_alternative) {
    problem_.predict = [&, has_alternative](const std::string& source) {
      trials::Predictions predictions =
          tests::PredictionsBy(space_.size(), [&](int i) {
            return std::pair(step_time_s(i, 0.1), 0.1 * kCapacity);
          })(source);
      if (has_alternative) {
        predictions.alternatives = [&] {
          trials::Predictions::Alternative slow{
              "slow links", std::log(0.1), {}};
          for (int i = 0; i < space_.size(); ++i) {
            slow.slowdown.push_back(step_time_s(i, 2.0) / step_time_s(i, 0.1));
          }
          return std::vector{slow};
        };
      }
      return predictions;
    };
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    History history(space_.size());
    for (const int candidate : {63, 59, 57}) {  // tp 8, 4 and 2
      history.Add(MakeTrial(
          candidate, space_[candidate],
          tests::Completed(step_time_s(candidate, 2.0), 0.1 * kCapacity)));
    }
    (void)pair.Fit(history);
    surrogates::Prediction throughput, memory;
    pair.Predict(throughput, memory);
    return throughput.mean[56] / throughput.mean[63];  // tp 1 and 8
  };
  const double truth = step_time_s(63, 2.0) / step_time_s(56, 2.0);
  EXPECT_NEAR(ratio(true), truth, 0.2 * truth);
  EXPECT_LT(ratio(false), 0.7 * truth);
}

// All with tp = 8 ran, which are the best ones of the predictions.
TEST_F(SurrogatePairTest, AnAlternativeThatNothingRefutesLeavesAGain) {
  const auto gain = [&](double odds) {
    problem_.predict = [&](const std::string& source) {
      trials::Predictions predictions =
          tests::PredictionsBy(space_.size(), [&](int i) {
            return std::pair(10.0 - space_[i].tp, 0.1 * kCapacity);
          })(source);
      predictions.alternatives = [&] {
        trials::Predictions::Alternative slow{"slow links", std::log(odds), {}};
        for (int i = 0; i < space_.size(); ++i) {
          slow.slowdown.push_back(space_[i].tp * space_[i].tp);
        }
        return std::vector{slow};
      };
      return predictions;
    };
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    History history(space_.size());
    for (int dp = 1; dp <= 8; ++dp) {
      const int candidate = 8 * dp - 1;
      history.Add(MakeTrial(candidate, space_[candidate],
                            tests::Completed(2.0, 0.1 * kCapacity)));
    }
    (void)pair.Fit(history);
    (void)pair.ArgMax({}, history.tried());
    return pair.EstimateRemaining(history)->expected_gain;
  };
  EXPECT_GT(gain(0.3), 2.0 * gain(0.001));
}

// Step times cannot tell: both models predict those of what ran.
TEST_F(SurrogatePairTest, PeaksThatContradictThePredictionsRefuteTheirTimes) {
  const Eigen::VectorXd terms = [this] {
    SurrogatePair own(problem_, {});
    (void)own.Fit(History(space_.size()));
    surrogates::Prediction throughput, memory;
    own.Predict(throughput, memory);
    return memory.mean;
  }();
  const auto predicted = [&terms](int i) {
    return terms[i] * (i % 2 == 0 ? 0.3 : 3.0) * kCapacity;
  };
  problem_.predict = [&](const std::string& source) {
    trials::Predictions predictions = tests::PredictionsBy(
        space_.size(),
        [&](int i) { return std::pair(1.0, predicted(i)); })(source);
    predictions.alternatives = [this] {
      trials::Predictions::Alternative another{
          "another model", std::log(0.02), {}, true};
      for (int i = 0; i < space_.size(); ++i) {
        another.slowdown.push_back(space_[i].tp == 8 ? 0.2 : 1.0);
      }
      return std::vector{another};
    };
    return predictions;
  };
  // Of a candidate that only the other model predicts to be fast, over one that
  // ran.
  const auto ratio = [&](const auto& peak) {
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    History history(space_.size());
    for (const int candidate : {0, 9, 28, 53}) {
      history.Add(MakeTrial(candidate, space_[candidate],
                            tests::Completed(1.0, peak(candidate))));
    }
    (void)pair.Fit(history);
    surrogates::Prediction throughput, memory;
    pair.Predict(throughput, memory);
    return throughput.mean[63] / throughput.mean[0];
  };
  EXPECT_LT(ratio(predicted), 1.2);
  EXPECT_GT(ratio([&](int i) { return terms[i] * kCapacity; }), 2.0);
}

// All candidates are predicted to need 0.8 of the memory. Some that need it
// ran, one with tp = 8 did not.
TEST_F(SurrogatePairTest, OneFailureCorrectsItsKindAndNotTheOthers) {
  problem_.predict = tests::PredictionsBy(
      space_.size(), [](int) { return std::pair(1.0, 0.8 * kCapacity); });
  SurrogatePair pair(problem_,
                     {.throughput_prior = surrogates::CostModelForm::kPredicted,
                      .memory_prior = surrogates::CostModelForm::kPredicted});
  History history(space_.size());
  for (const int candidate : {0, 17, 34}) {  // tp 1, 2 and 3
    history.Add(MakeTrial(candidate, space_[candidate],
                          tests::Completed(1.0, 0.8 * kCapacity)));
  }
  const auto share_of = [&](int tp) {
    (void)pair.Fit(history);
    surrogates::Prediction throughput, memory;
    pair.Predict(throughput, memory);
    double sum = 0.0;
    for (int i = 0; i < space_.size(); ++i) {
      sum += space_[i].tp == tp ? memory.mean[i] / 8.0 : 0.0;
    }
    return sum;
  };
  EXPECT_NEAR(share_of(8), 0.8, 0.05);
  history.Add(MakeTrial(63, space_[63], tests::OutOfMemory()));
  EXPECT_GT(share_of(8), 0.9);
  EXPECT_LT(share_of(1), 0.85);
}

// Of an assumption by which every other candidate needs twice as much. Two of
// these failed.
TEST_F(SurrogatePairTest,
       AnAssumptionThatExplainsFailuresHoldsForAllOfItsKind) {
  const auto fit = [this](bool has_alternative) {
    problem_.predict = [this, has_alternative](const std::string& source) {
      trials::Predictions predictions = tests::PredictionsBy(
          space_.size(),
          [](int) { return std::pair(1.0, 0.55 * kCapacity); })(source);
      if (has_alternative) {
        predictions.alternatives = [this] {
          trials::Predictions::Alternative stored{
              .assumption = "stored scores",
              .log_odds = std::log(0.1),
              .slowdown = std::vector(64, 1.0)};
          for (int i = 0; i < space_.size(); ++i) {
            stored.memory.push_back((i / 8 + i) % 2 == 1 ? 2.0 : 1.0);
          }
          return std::vector{stored};
        };
      }
      return predictions;
    };
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    History history(space_.size());
    for (const int candidate : {0, 20, 38}) {
      history.Add(MakeTrial(candidate, space_[candidate],
                            tests::Completed(1.0, 0.55 * kCapacity)));
    }
    for (const int candidate : {12, 37}) {
      history.Add(
          MakeTrial(candidate, space_[candidate], tests::OutOfMemory()));
    }
    double share = 0.0;
    for (const Suggestion::Fit& each : pair.Fit(history)) {
      for (const auto& parameter : each.summary.parameters) {
        share =
            parameter.name == "share[stored scores]" ? parameter.value : share;
      }
    }
    surrogates::Prediction throughput, memory;
    pair.Predict(throughput, memory);
    return std::array{memory.mean[21], memory.mean[22], share};
  };
  const auto [kin, other, share] = fit(true);
  EXPECT_GT(kin, 0.95);
  EXPECT_LT(other, 0.65);
  EXPECT_GT(share, 0.5);
  EXPECT_LT(fit(false)[0], 0.9);
}

// Also where all of them are predicted to exceed the capacity.
TEST_F(SurrogatePairTest,
       TheLeastMemoryIsThatOfThePredictionsBeyondTheCapacityToo) {
  problem_.predict = tests::PredictionsBy(space_.size(), [this](int i) {
    return std::pair(1.0, kCapacity * (2.0 + space_[i].tp + 0.1 * (i / 8)));
  });
  SurrogatePair pair(problem_,
                     {.throughput_prior = surrogates::CostModelForm::kPredicted,
                      .memory_prior = surrogates::CostModelForm::kPredicted});
  History history(space_.size());
  history.Add(
      MakeTrial(0, space_[0], {.outcome = trials::Outcome::kOutOfMemory}));
  (void)pair.Fit(history);
  EXPECT_EQ(space_[pair.LeastMemory(history.tried()).candidate].tp, 1);
  std::vector<char> excluded(64, 1);
  excluded[13] = excluded[52] = excluded[60] = 0;  // tp 6, 5 and 5
  EXPECT_EQ(space_[pair.LeastMemory(excluded).candidate].tp, 5);
}

// Nor if predictions are exact but for a stall, and for a failure that was a
// gamble.
TEST_F(SurrogatePairTest, WhatIsPredictedFarBeyondTheCapacityIsNotTried) {
  const auto memory = [this](int i) {
    return i == 7 ? 0.97 : i % 8 > 3 ? 0.5 * space_[i].tp : 0.1 * space_[i].tp;
  };
  problem_.predict = tests::PredictionsBy(space_.size(), [&](int i) {
    return std::pair(1.0 / space_[i].tp, kCapacity * memory(i));
  });
  SurrogatePair pair(problem_,
                     {.throughput_prior = surrogates::CostModelForm::kPredicted,
                      .memory_prior = surrogates::CostModelForm::kPredicted});
  History history(space_.size());
  history.Add(
      MakeTrial(7, space_[7], {.outcome = trials::Outcome::kOutOfMemory}));
  history.Add(MakeTrial(3, space_[3],
                        tests::Completed(6.0 / 4, memory(3) * kCapacity)));
  std::vector<char> all_but_the_largest(64, 1);
  all_but_the_largest[63] = 0;
  for (int trial = 0; trial < 6; ++trial) {
    (void)pair.Fit(history);
    EXPECT_GT(pair.ArgMax({}, all_but_the_largest).memory_mean, 2.0);
    const int next = pair.ArgMax({}, history.tried()).candidate;
    EXPECT_LT(memory(next), 1.5) << next;
    history.Add(MakeTrial(next, space_[next],
                          memory(next) > 1.0
                              ? tests::OutOfMemory()
                              : tests::Completed(1.0 / space_[next].tp,
                                                 memory(next) * kCapacity)));
  }
}

// The memory of each candidate as a share of the capacity; all others need as
// much as the last one.
class FirstToTryTest : public SurrogatePairTest {
 protected:
  SurrogatePair::Choice First(const std::vector<double>& step_time_s,
                              const std::vector<double>& shares,
                              double log_stddev,
                              const std::vector<int>& allowed) {
    const auto at = [](const std::vector<double>& values, int i) {
      return values[std::min(static_cast<std::size_t>(i), values.size() - 1)];
    };
    problem_.predict = tests::PredictionsBy(
        64,
        [=](int i) {
          return std::pair(at(step_time_s, i), kCapacity * at(shares, i));
        },
        log_stddev);
    SurrogatePair pair(
        problem_, {.throughput_prior = surrogates::CostModelForm::kPredicted,
                   .memory_prior = surrogates::CostModelForm::kPredicted});
    std::vector<char> excluded(64, 1);
    for (const int candidate : allowed) {
      excluded[candidate] = 0;
    }
    return pair.FirstToTry(excluded);
  }
};

// P(m <= 1) of the logarithm.
TEST_F(FirstToTryTest, IsWeighedByTheProbabilityToFit) {
  const std::vector<double> shares = {0.05, 0.5, 0.95, 1.5};
  for (const double log_stddev : {0.5, 2.0}) {
    for (int i = 0; i < 4; ++i) {
      const SurrogatePair::Choice choice =
          First({2.0}, shares, log_stddev, {i});
      EXPECT_EQ(choice.candidate, i);
      const double excess = std::log(shares[i]);
      EXPECT_NEAR(choice.acquisition / choice.throughput_mean,
                  0.5 * std::erfc(excess / log_stddev / std::sqrt(2.0)), 1e-6);
    }
  }
}

// The first candidate would fit, as predictions are scaled to let the smallest
// fit. It is excluded, as all of the others that need as much as the last.
TEST_F(FirstToTryTest, IsTheOneWithTheLeastMemoryWhereNothingFits) {
  EXPECT_EQ(First({1.0, 2.0, 9.0, 1.0}, {2.0, 8.0, 5.0, 6.0}, 0.0, {1, 2, 3})
                .candidate,
            2);
  EXPECT_EQ(First({1.0}, {2.0}, 0.0, {}).candidate, -1);
}

// Chances of 4% and 5% to fit; the second one is 50 times as slow.
TEST_F(FirstToTryTest, MayBeUnlikelyToFit) {
  EXPECT_EQ(First({1.0, 50.0}, {1.17, 1.155, 0.5}, 0.1, {0, 1}).candidate, 0);
}

double UcbOf(const surrogates::Prediction& throughput,
             const surrogates::Prediction& memory, int i) {
  return ConstrainedUcb(
      {.throughput_mean = throughput.mean[i],
       .throughput_stddev = std::sqrt(throughput.variance[i]),
       .excess_mean = (memory.mean[i] - 1.0) / 0.025,
       .excess_stddev = std::sqrt(memory.variance[i]) / 0.025},
      1.0);
}

// Where memory is about the capacity, it decides on the value.
TEST_F(SurrogatePairTest, TheValueOfAChoiceIsThatOfItsBeliefs) {
  SurrogatePair pair = Make(100);
  History history(space_.size());
  for (const int candidate : {0, 9, 18, 27, 36, 45}) {
    const int tp = space_[candidate].tp;
    history.Add(
        MakeTrial(candidate, space_[candidate],
                  tests::Completed(1.0 / (1.0 + tp), 0.25 * kCapacity * tp)));
  }
  (void)pair.Fit(history);
  surrogates::Prediction throughput, memory;
  pair.Predict(throughput, memory);
  for (int i = 0; i < space_.size(); ++i) {
    std::vector<char> excluded(64, 1);
    excluded[i] = 0;
    const SurrogatePair::Choice choice = pair.ArgMax({.beta = 1.0}, excluded);
    EXPECT_NEAR(choice.acquisition, UcbOf(throughput, memory, i), 1e-9);
  }
}

// The pruned search of a pair, against the beliefs about every candidate.
TEST_F(SurrogatePairTest, ChoosesWhatItsOwnPredictionsSay) {
  SurrogatePair pair = Make(100);
  History history(space_.size());
  for (int i = 0; i < 12; ++i) {
    Try(space_, (i * 13) % 64, history);
    (void)pair.Fit(history);
    const SurrogatePair::Choice choice =
        pair.ArgMax({.beta = 1.0}, history.tried());
    surrogates::Prediction r, m;
    pair.Predict(r, m);
    for (int other = 0; other < space_.size(); ++other) {
      ASSERT_TRUE(history.tried()[other] != 0 ||
                  UcbOf(r, m, other) <= UcbOf(r, m, choice.candidate));
    }
    EXPECT_EQ(choice.throughput_mean, r.mean[choice.candidate]);
    EXPECT_EQ(choice.memory_variance, m.variance[choice.candidate]);
  }
}

// With layers of width 4096; the state of 25 of them has 81e9 bytes.
trials::TrainedJob JobOf(const trials::SearchSpace& space, int layers) {
  trials::TrainedJob job{.space = space};
  job.workload.model = {.layers = layers,
                        .hidden_size = 4096,
                        .attention_heads = 32,
                        .kv_heads = 32,
                        .head_size = 128,
                        .ffn_size = 16384,
                        .vocab_size = 100};
  job.workload.batch_size = 2;
  job.workload.sequence_length = 16;
  return job;
}

// Two GPUs of 80e9 bytes: a whole replica of 25 layers does not fit on a GPU,
// half of one does, and that of 2 layers.
TEST(SurrogatePair, KnowsBeforeTheFirstTrialWhatFitsIfTheJobIsDescribed) {
  const trials::SearchSpace space({{.dp = 2}, {.tp = 2}});
  const auto memory = [&](int layers, bool job_sizes) {
    const trials::TrainedJob job = JobOf(space, layers);
    Problem problem{
        .space = &space,
        .machine = trials::GpuType{.gpus = 2, .memory_bytes = 80e9}};
    problem.described = [&] { return &job; };
    SurrogatePair pair(problem, {.job_sizes = job_sizes});
    (void)pair.Fit(History(space.size()));
    surrogates::Prediction throughput;
    surrogates::Prediction prediction;
    pair.Predict(throughput, prediction);
    return prediction.mean;
  };
  EXPECT_GT(memory(25, true)[0], 1.0);
  EXPECT_LT(memory(25, true)[1], 0.9);
  EXPECT_LT(memory(2, true)[0], 0.3);
  EXPECT_EQ(memory(25, false), memory(2, false));
}

TEST(SurrogatePair, LeavesOutStatesBeyondTheCapacityUnlessATrialRefutesThem) {
  const trials::SearchSpace space({{.dp = 4}, {.dp = 2, .tp = 2}, {.tp = 4}});
  const trials::TrainedJob job = JobOf(space, 25);
  Problem problem{.space = &space,
                  .machine = trials::GpuType{.gpus = 4, .memory_bytes = 80e9}};
  problem.described = [&] { return &job; };
  const auto excluded = [&](const SurrogatePair::Options& options,
                            const std::vector<double>& peaks) {
    History history(space.size());
    for (int i = 0; i < std::ssize(peaks); ++i) {
      history.Add(
          MakeTrial(2 - i, space[2 - i], tests::Completed(1.0, peaks[i])));
    }
    return SurrogatePair(problem, options).Excluded(history);
  };
  using Flags = std::vector<char>;
  EXPECT_EQ(excluded({}, {}), (Flags{1, 0, 0}));
  EXPECT_EQ(excluded({.job_sizes = false}, {}), (Flags{0, 0, 0}));
  EXPECT_EQ(excluded(PrintedSurrogates(), {}), (Flags{0, 0, 0}));
  // Of 20e9 bytes, none or half were elsewhere.
  EXPECT_EQ(excluded({}, {25e9}), (Flags{1, 0, 1}));
  EXPECT_EQ(excluded({}, {10e9}), (Flags{0, 0, 1}));
  // Nothing else is left.
  EXPECT_EQ(excluded({}, {25e9, 50e9}), (Flags{0, 1, 1}));
}

TEST(SurrogatePair, FactsThatDescribeNoSingleJobAreNoSizes) {
  const trials::SearchSpace space({{.dp = 2}, {.tp = 2}});
  Problem problem{.space = &space,
                  .machine = trials::GpuType{.gpus = 2, .memory_bytes = 80e9}};
  problem.described = []() -> const trials::TrainedJob* {
    throw common::InputError("rows train different workloads");
  };
  EXPECT_EQ(JobIfDescribed(problem), nullptr);
  EXPECT_NO_THROW(SurrogatePair(problem, {}));
}

}  // namespace methods::surrogate_pair_test
