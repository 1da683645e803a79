// The documented behavior of each method, on a small problem with known
// answers.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/guided/cost_model.h"
#include "methods/guided/xgboost.h"
#include "methods/oppa/oppa.h"
#include "methods/sampling/random.h"

namespace methods::search_methods_test {

using trials::ChosenBy;
using trials::Measurement;
using trials::Outcome;
using trials::ParallelConfig;

constexpr double kCapacity = 24e9;

// 8 GPUs: every (dp, tp, pp) with microbatches and checkpointing.
trials::SearchSpace Space() {
  std::vector<ParallelConfig> configs;
  for (const int dp : {1, 2, 4, 8}) {
    for (const int tp : {1, 2, 4, 8}) {
      if (8 % (dp * tp) != 0) {
        continue;
      }
      const int pp = 8 / dp / tp;
      for (const int mb : {1, 2, 4, 8, 16}) {
        if ((pp == 1) != (mb == 1) || (pp > 1 && mb < pp)) {
          continue;
        }
        for (const bool checkpoint : {false, true}) {
          configs.push_back({.dp = dp,
                             .tp = tp,
                             .pp = pp,
                             .microbatches = mb,
                             .grad_checkpoint = checkpoint});
        }
      }
    }
  }
  return trials::SearchSpace(configs);
}

double StepTime(const ParallelConfig& c) {
  const double compute =
      (1.0 + (c.pp - 1.0) / c.microbatches) * (c.grad_checkpoint ? 1.33 : 1.0);
  return compute + 0.4 * (c.dp - 1.0) / c.dp / (c.tp * c.pp) +
         0.8 * (c.tp - 1.0) / c.tp + 0.01 * c.microbatches * (c.pp - 1);
}

double Memory(const ParallelConfig& c) {
  return kCapacity * (0.7 / (c.tp * c.pp) + 0.1 +
                      (c.grad_checkpoint ? 0.1 : 0.6) / c.microbatches);
}

Measurement Run(const ParallelConfig& config, const Suggestion& suggestion) {
  Measurement measurement;
  if (Memory(config) > kCapacity) {
    measurement.outcome = Outcome::kOutOfMemory;
    return measurement;
  }
  measurement.peak_memory_bytes = Memory(config);
  measurement.outcome = Outcome::kCompleted;
  for (int step = 0; step < 10; ++step) {
    const double wobble = 1.0 + 0.004 * ((step * 7) % 5 - 2);
    measurement.step_times_s.push_back(StepTime(config) * wobble);
    if (step < 9 && suggestion.stop &&
        ShouldStop(*suggestion.stop, measurement.step_times_s)) {
      measurement.outcome = Outcome::kTerminatedEarly;
      break;
    }
  }
  return measurement;
}

void Observe(int candidate, const Measurement& measurement, Method& method) {
  method.Observe(MakeTrial(candidate, {}, measurement,
                           method.history().throughput_options()));
}

struct Trace {
  std::vector<int> candidates;
  std::vector<ChosenBy> chosen_by;
  std::vector<Measurement> measurements;
};

Trace Search(Method& method, const trials::SearchSpace& space, int trials) {
  Trace trace;
  for (int i = 0; i < trials; ++i) {
    const auto suggestion = method.Suggest();
    if (!suggestion) {
      break;
    }
    trace.candidates.push_back(suggestion->candidate);
    trace.chosen_by.push_back(suggestion->chosen_by);
    trace.measurements.push_back(
        Run(space[suggestion->candidate], *suggestion));
    Observe(suggestion->candidate, trace.measurements.back(), method);
  }
  return trace;
}

class SearchMethods : public testing::Test {
 protected:
  trials::SearchSpace space_ = Space();
  Problem problem_{.space = &space_,
                   .machine = trials::GpuType{.gpus = 8,
                                              .gpus_per_node = 8,
                                              .memory_bytes = kCapacity},
                   .q_max = 10};

  double Optimum() const {
    double best = 0.0;
    for (const ParallelConfig& config : space_.configs()) {
      if (Memory(config) <= kCapacity) {
        best = std::max(best, 1.0 / StepTime(config));
      }
    }
    return best;
  }

  double BestFound(const Trace& trace) const {
    double best = 0.0;
    for (std::size_t i = 0; i < trace.candidates.size(); ++i) {
      if (trace.measurements[i].outcome == Outcome::kCompleted) {
        best = std::max(best, 1.0 / StepTime(space_[trace.candidates[i]]));
      }
    }
    return best;
  }
};

TEST_F(SearchMethods, OppaFindsTheOptimumWhereItsPriorIsRight) {
  for (int seed = 1; seed <= 5; ++seed) {
    const auto method = MakeOppa(problem_, {}, seed);
    EXPECT_GE(BestFound(Search(*method, space_, 16)), 0.97 * Optimum()) << seed;
  }
}

TEST_F(SearchMethods, OppaStartsWithRandomTrialsAndThenAsksItsModel) {
  const auto method = MakeOppa(problem_, {.random_trials = 4}, 1);
  const Trace trace = Search(*method, space_, 10);
  EXPECT_EQ(std::count(trace.chosen_by.begin(), trace.chosen_by.begin() + 4,
                       ChosenBy::kRandom),
            4);
  EXPECT_GE(std::count(trace.chosen_by.begin(), trace.chosen_by.end(),
                       ChosenBy::kModel),
            4);
}

TEST_F(SearchMethods, EarlyTerminationStopsOnlyTrialsThatAreNotTheBest) {
  const auto method = MakeOppa(problem_, {.q_min = 3}, 2);
  const Trace trace = Search(*method, space_, 12);
  double best = 0.0;
  int stopped = 0;
  for (const Measurement& measurement : trace.measurements) {
    if (measurement.step_times_s.empty()) {
      continue;
    }
    const double throughput =
        trials::EstimateThroughput(measurement.step_times_s).steps_per_s;
    if (measurement.outcome == Outcome::kTerminatedEarly) {
      ++stopped;
      EXPECT_GE(measurement.step_times_s.size(), 3U);
      EXPECT_LT(throughput, best + 1e-3);
    }
    best = std::max(best, throughput);
  }
  EXPECT_GT(stopped, 2);
}

TEST_F(SearchMethods, XgboostLearnsToAvoidWhatFails) {
  const auto method = MakeXgboost(problem_, {}, 3);
  const Trace trace = Search(*method, space_, 25);
  EXPECT_GE(BestFound(trace), 0.8 * Optimum());
  EXPECT_EQ(trace.chosen_by[1], ChosenBy::kRandom);
  EXPECT_EQ(trace.chosen_by[2], ChosenBy::kModel);
}

TEST_F(SearchMethods, RandomXgboostAndCostModelDrawTheSameUniformTrials) {
  const auto random = MakeRandom(problem_, {}, 6);
  const auto by_cell = MakeRandom(problem_, {.draw = DrawLaw::kCell}, 6);
  const auto xgboost = MakeXgboost(problem_, {}, 6);
  const auto cost_model = MakeCostModel(problem_, {}, 6);
  std::vector<char> tried(space_.size(), 0);
  const int uniform = Draw(DrawLaw::kUniform, space_, tried, 6, 0);
  const int cell = Draw(DrawLaw::kCell, space_, tried, 6, 0);
  ASSERT_NE(uniform, cell);
  EXPECT_EQ(random->Suggest()->candidate, uniform);
  EXPECT_EQ(by_cell->Suggest()->candidate, cell);
  EXPECT_EQ(xgboost->Suggest()->candidate, uniform);
  EXPECT_EQ(cost_model->Suggest()->candidate, uniform);
  EXPECT_EQ(MakeOppa(problem_, {}, 6)->Suggest()->candidate, cell);
}

TEST_F(SearchMethods, ATrialMustBeatTheBestByAShareOfIt) {
  const auto oppa = MakeOppa(problem_, {.tau_share = 0.01}, 6);
  const auto first = oppa->Suggest();
  EXPECT_EQ(first->stop->tau_steps_per_s, 0.0);
  Observe(first->candidate,
          {.outcome = trials::Outcome::kCompleted,
           .step_times_s = {2.0, 2.0, 2.0},
           .peak_memory_bytes = 1e9,
           .duration_s = 6.0},
          *oppa);
  EXPECT_NEAR(oppa->Suggest()->stop->tau_steps_per_s, 0.005, 1e-12);
}

// Step throughputs 0.49 and 0.51: s = 0.01. The problem's q_max is 10.
TEST_F(SearchMethods, TheoryAsksForTheMarginOfEquation56) {
  OppaOptions options;
  options.theory_tau = true;
  options.theory = {.delta = 0.05, .rounds = 30};
  const auto oppa = MakeOppa(problem_, options, 6);
  const auto first = oppa->Suggest();
  Observe(first->candidate,
          {.outcome = trials::Outcome::kCompleted,
           .step_times_s = {2.0, 1.0 / 0.49, 1.0 / 0.51},
           .peak_memory_bytes = 1e9,
           .duration_s = 6.0},
          *oppa);
  const trials::StopRule rule = *oppa->Suggest()->stop;
  EXPECT_EQ(rule.tau_steps_per_s, 0.0);
  EXPECT_NEAR(rule.confidence_steps_per_s,
              0.01 * std::sqrt(2.0 * std::log(2.0 * 30 * 10 / 0.05)), 1e-12);
}

TEST_F(SearchMethods, OnlyWhereStepsSettleATrialIsComparedWithFirstSteps) {
  const std::vector<double> times = {3.0, 1.5, 1.0};
  for (const bool settle : {false, true}) {
    problem_.steps_settle = settle;
    const auto oppa = MakeOppa(problem_, {}, 6);
    Observe(oppa->Suggest()->candidate,
            {.outcome = trials::Outcome::kCompleted,
             .step_times_s = times,
             .peak_memory_bytes = 1e9,
             .duration_s = 6.0},
            *oppa);
    EXPECT_EQ(oppa->Suggest()->stop->best_step_times_s,
              settle ? times : std::vector<double>());
  }
}

// beta_i = B + ...: with B = 1000 the bound is all uncertainty.
TEST_F(SearchMethods, BetaOfTheTheoryGrowsWithTheNorm) {
  const auto modest = MakeOppa(problem_, {.beta = 0.0}, 6);
  OppaOptions options;
  options.theory_beta = true;
  options.theory.rkhs_bound = 1e3;
  const auto bold = MakeOppa(problem_, options, 6);
  const auto bound = [&](Method& method) {
    const Trace trace = Search(method, space_, 4);
    const auto suggestion = method.Suggest();
    return suggestion->fits.back().summary.parameters.at(0).value;
  };
  EXPECT_GT(bound(*bold), 50.0 * bound(*modest));
}

TEST_F(SearchMethods, AWrongPriorIsOvercome) {
  OppaOptions options;
  options.surrogates.prior_error = 0.5;
  const auto oppa = MakeOppa(problem_, options, 7);
  EXPECT_GE(BestFound(Search(*oppa, space_, 25)), 0.95 * Optimum());
}

// OPPA-SIM on predictions that are the truth times these factors, in the order
// of `order`.
class PredictedSearch : public SearchMethods {
 protected:
  static OppaOptions Sim() {
    using surrogates::CostModelForm;
    OppaOptions options;
    options.random_trials = 0;
    options.surrogates.throughput_prior = CostModelForm::kPredicted;
    options.surrogates.memory_prior = CostModelForm::kPredicted;
    return options;
  }

  std::unique_ptr<Method> Make(double time_factor, double memory_factor,
                               bool permuted = false) {
    std::vector<int> order(space_.size());
    std::iota(order.begin(), order.end(), 0);
    if (permuted) {
      std::mt19937 engine(3);
      std::shuffle(order.begin(), order.end(), engine);
    }
    problem_.predict = [=, this](const std::string& source) {
      trials::Predictions predictions{.source = source};
      for (const int i : order) {
        predictions.step_time_s.push_back(time_factor * StepTime(space_[i]));
        predictions.peak_memory_bytes.push_back(memory_factor *
                                                Memory(space_[i]));
      }
      return predictions;
    };
    return MakeOppa(problem_, Sim(), 1);
  }
};

TEST_F(PredictedSearch, TriesTheLeastMemoryAfterFailuresAlone) {
  const auto method = Make(1.0, 0.1);  // everything is predicted to fit
  for (int i = 0; i < 3; ++i) {
    Observe(method->Suggest()->candidate, {.outcome = Outcome::kOutOfMemory},
            *method);
  }
  const double memory = Memory(space_[method->Suggest()->candidate]);
  int smaller = 0;
  for (const trials::ParallelConfig& config : space_.configs()) {
    smaller += Memory(config) < memory ? 1 : 0;
  }
  EXPECT_LT(smaller, space_.size() / 4);
}

// The fastest is predicted to need 0.97 of the memory: worth a try.
TEST_F(PredictedSearch, FirstTrialIsTheFirstOfTheOrderOfPredictions) {
  for (const double memory_factor : {0.5, 0.9, 1.0, 1.1}) {
    const auto method = Make(1.0, memory_factor);
    EXPECT_EQ(
        method->Suggest()->candidate,
        trials::Order(problem_.predict(""), problem_.machine.memory_bytes())
            .front())
        << memory_factor;
  }
}

TEST_F(PredictedSearch, FindsTheOptimumWithinThreeTrialsOfRightPredictions) {
  const auto method = Make(1.0, 1.0);
  EXPECT_GE(BestFound(Search(*method, space_, 3)), 0.99 * Optimum());
}

TEST_F(PredictedSearch, LearnsTheScaleOfPredictions) {
  for (const double time_factor : {0.2, 5.0}) {
    for (const double memory_factor : {0.5, 4.0}) {
      const auto method = Make(time_factor, memory_factor);
      EXPECT_GE(BestFound(Search(*method, space_, 10)), 0.97 * Optimum())
          << time_factor << " " << memory_factor;
    }
  }
}

TEST_F(PredictedSearch, PermutedPredictionsDoNotPreventTheOptimum) {
  const auto method = Make(1.0, 1.0, true);
  EXPECT_GE(BestFound(Search(*method, space_, 20)), 0.97 * Optimum());
}

TEST_F(PredictedSearch, NeedsPredictions) {
  EXPECT_THROW((void)MakeOppa(problem_, Sim(), 1), common::InputError);
}

}  // namespace methods::search_methods_test
