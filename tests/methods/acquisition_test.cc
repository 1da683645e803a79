#include "methods/acquisition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "tests/reference/csv.h"

namespace methods {
namespace {

constexpr double kMeanAbsoluteNormal = 0.79788456080286535588;  // sqrt(2 / pi)

ConstrainedBelief RandomBelief(std::mt19937_64& engine) {
  std::uniform_real_distribution<double> uniform;
  return {.throughput_mean = 3.0 * uniform(engine) - 0.3,
          .throughput_stddev = uniform(engine) * uniform(engine),
          .excess_mean = 16.0 * uniform(engine) - 12.0,
          .excess_stddev = std::exp(8.0 * uniform(engine) - 5.0)};
}

struct Beliefs {
  surrogates::Prediction throughput;
  surrogates::Prediction excess;

  [[nodiscard]] std::size_t Size() const {
    return static_cast<std::size_t>(throughput.mean.size());
  }
};

Beliefs RandomBeliefs(int size, std::mt19937_64& engine) {
  Beliefs beliefs;
  for (surrogates::Prediction* p : {&beliefs.throughput, &beliefs.excess}) {
    p->mean.resize(size);
    p->variance.resize(size);
  }
  for (int i = 0; i < size; ++i) {
    const ConstrainedBelief belief = RandomBelief(engine);
    beliefs.throughput.mean[i] = belief.throughput_mean;
    beliefs.throughput.variance[i] = std::pow(belief.throughput_stddev, 2);
    beliefs.excess.mean[i] = belief.excess_mean;
    beliefs.excess.variance[i] = std::pow(belief.excess_stddev, 2);
  }
  return beliefs;
}

int BruteForce(const Beliefs& beliefs,
               double beta,
               const std::vector<char>& excluded) {
  int best = -1;
  double best_value = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < beliefs.throughput.mean.size(); ++i) {
    const double value =
        ConstrainedUcb({beliefs.throughput.mean[i],
                        std::sqrt(beliefs.throughput.variance[i]),
                        beliefs.excess.mean[i],
                        std::sqrt(beliefs.excess.variance[i])},
                       beta);
    if (excluded[static_cast<std::size_t>(i)] == 0 && value > best_value) {
      best = i;
      best_value = value;
    }
  }
  return best;
}

TEST(ConstrainedUcb, AgreesWithReferenceToOneInAMillion) {
  const auto rows = tests::ReadNumbers(fakes::SourceFolder() /
                                       "tests/reference/cucb_reference.csv");
  ASSERT_EQ(rows.size(), 20u);
  for (const auto& row : rows) {
    const ConstrainedBelief belief{row[0], row[1], row[2], row[3]};
    EXPECT_NEAR(ConstrainedUcb(belief, row[4]) / row[6], 1.0, 2e-7);
    EXPECT_NEAR(belief.throughput_mean *
                    Feasibility(belief.excess_mean, belief.excess_stddev).first,
                row[5],
                3e-8 * std::abs(row[0]));
  }
}

TEST(ConstrainedUcb, TendsToTheUnconstrainedBoundFarBelowCapacity) {
  const ConstrainedBelief feasible{2.0, 0.3, -60.0, 1.0};
  EXPECT_NEAR(ConstrainedUcb(feasible, 1.5),
              2.0 + 1.5 * kMeanAbsoluteNormal * 0.3,
              1e-9);
  EXPECT_NEAR(
      ConstrainedUcb(feasible, GaussianBeta(1.5)), 2.0 + 1.5 * 0.3, 1e-9);
}

TEST(ConstrainedUcb, VanishesFarAboveCapacity) {
  EXPECT_NEAR(ConstrainedUcb({2.0, 0.3, 60.0, 1.0}, 1.0), 0.0, 1e-9);
}

TEST(ConstrainedUcb, IsContinuousAsTheExcessBecomesCertain) {
  const double certain = ConstrainedUcb({0.8, 0.3, -1.0, 0.0}, 1.0);
  EXPECT_NEAR(ConstrainedUcb({0.8, 0.3, -1.0, 1e-7}, 1.0), certain, 1e-9);
}

TEST(ConstrainedUcb, AgreesWithSamples) {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  const ConstrainedBelief belief{1.3, 0.4, 0.2, 2.5};
  constexpr int kSamples = 200000;
  std::vector<double> x(kSamples);
  double mean = 0.0;
  for (double& value : x) {
    const double r =
        belief.throughput_mean + belief.throughput_stddev * normal(engine);
    const double m = belief.excess_mean + belief.excess_stddev * normal(engine);
    value = r / (1.0 + std::exp(m));
    mean += value / kSamples;
  }
  double deviation = 0.0;
  for (const double value : x) {
    deviation += std::abs(value - mean) / kSamples;
  }
  EXPECT_NEAR(ConstrainedUcb(belief, 1.0), mean + deviation, 0.005);
}

TEST(ConstrainedUcb, StaysBelowItsBound) {
  std::mt19937_64 engine(5);
  for (int i = 0; i < 5000; ++i) {
    const ConstrainedBelief belief = RandomBelief(engine);
    const double bound = ConstrainedUcbBound(belief, 1.0);
    ASSERT_LE(ConstrainedUcb(belief, 1.0),
              bound + 1e-7 * (std::abs(belief.throughput_mean) +
                              belief.throughput_stddev));
  }
}

TEST(Feasibility, IsTheSameFromBothRulesWhereTheyMeet) {
  for (const double mean : {-8.0, -2.0, 0.0, 0.7, 3.0}) {
    const FeasibilityMoments below = Feasibility(mean, 1.5);
    const FeasibilityMoments above = Feasibility(mean, 1.5 + 1e-9);
    EXPECT_NEAR(below.first, above.first, 5e-8);
    EXPECT_NEAR(below.second, above.second, 5e-7);
  }
}

TEST(ArgMaxConstrainedUcb, EqualsBruteForceOnRandomProblems) {
  std::mt19937_64 engine(7);
  for (int problem = 0; problem < 60; ++problem) {
    const int size = 1 + static_cast<int>(engine() % 400);
    const Beliefs beliefs = RandomBeliefs(size, engine);
    std::vector<char> excluded(static_cast<std::size_t>(size));
    for (char& flag : excluded) {
      flag = engine() % 3 == 0 ? 1 : 0;
    }
    const double beta = static_cast<double>(problem % 4);
    EXPECT_EQ(ArgMaxConstrainedUcb(
                  beliefs.throughput, beliefs.excess, beta, excluded),
              BruteForce(beliefs, beta, excluded));
  }
}

// Batches that are small against the whole, so that every bound decides.
TEST(AcquisitionSearch, EqualsBruteForceInAnyBatchesOnAnyNumberOfThreads) {
  std::mt19937_64 engine(19);
  AcquisitionSearch search;
  for (int problem = 0; problem < 15; ++problem) {
    const int size = 1 + static_cast<int>(engine() % 3000);
    const Beliefs beliefs = RandomBeliefs(size, engine);
    const double beta = 0.5 * static_cast<double>(problem % 5);
    const int expected =
        BruteForce(beliefs, beta, std::vector<char>(beliefs.Size(), 0));
    for (const int batch : {1, 7, 100, 5000}) {
      for (const int threads : {1, 3}) {
        const int best = search.ArgMax(
            beliefs.throughput,
            [&](const std::vector<int>& candidates,
                surrogates::PredictionView excess) {
              excess.mean = beliefs.excess.mean(candidates);
              excess.variance = beliefs.excess.variance(candidates);
            },
            {},
            {.beta = beta, .threads = threads, .first_batch = batch});
        ASSERT_EQ(best, expected) << size << ' ' << batch << ' ' << threads;
      }
    }
  }
}

double Improvement(const Beliefs& beliefs, int i, double best) {
  return LogExpectedImprovement(beliefs.throughput.mean[i],
                                std::sqrt(beliefs.throughput.variance[i]),
                                best) +
         std::log(Feasibility(beliefs.excess.mean[i],
                              std::sqrt(beliefs.excess.variance[i]))
                      .first);
}

TEST(AcquisitionSearch, FindsTheLargestImprovementInAnyBatches) {
  std::mt19937_64 engine(31);
  AcquisitionSearch search;
  for (int problem = 0; problem < 15; ++problem) {
    const int size = 1 + static_cast<int>(engine() % 3000);
    const Beliefs beliefs = RandomBeliefs(size, engine);
    const double best = 0.5 * static_cast<double>(problem % 7);
    int expected = 0;
    for (int i = 1; i < size; ++i) {
      if (Improvement(beliefs, i, best) >
          Improvement(beliefs, expected, best)) {
        expected = i;
      }
    }
    for (const int batch : {1, 100, 5000}) {
      const int found =
          search.ArgMax(beliefs.throughput,
                        [&](const std::vector<int>& candidates,
                            surrogates::PredictionView excess) {
                          excess.mean = beliefs.excess.mean(candidates);
                          excess.variance = beliefs.excess.variance(candidates);
                        },
                        {},
                        {.acquisition = Acquisition::kConstrainedImprovement,
                         .best_steps_per_s = best,
                         .first_batch = batch});
      ASSERT_EQ(found, expected) << size << ' ' << batch;
    }
  }
}

TEST(LogExpectedImprovement, IsTheIntegralAndContinuousFarBelowTheBest) {
  // E[max(Z, 0)] = phi(0) for a standard normal Z.
  EXPECT_NEAR(LogExpectedImprovement(2.0, 3.0, 2.0),
              std::log(3.0 * 0.3989422804014327),
              1e-12);
  // Far above the best it is the difference.
  EXPECT_NEAR(LogExpectedImprovement(50.0, 1.0, 2.0), std::log(48.0), 1e-12);
  EXPECT_NEAR(LogExpectedImprovement(-19.9999999, 1.0, 0.0),
              LogExpectedImprovement(-20.0000001, 1.0, 0.0),
              1e-5);
  EXPECT_TRUE(std::isfinite(LogExpectedImprovement(-1e6, 1.0, 0.0)));
  EXPECT_EQ(LogExpectedImprovement(1.0, 0.0, 2.0),
            -std::numeric_limits<double>::infinity());
}

TEST(AcquisitionSearch, AsksForTheExcessOfFewWhereThroughputDecides) {
  std::mt19937_64 engine(23);
  Beliefs beliefs = RandomBeliefs(100000, engine);
  beliefs.throughput.variance.setConstant(1e-4);
  beliefs.excess.mean.setConstant(-8.0);
  beliefs.excess.variance.setConstant(0.1);
  beliefs.throughput.mean =
      Eigen::VectorXd::LinSpaced(100000, 0.0, 1.0).array().pow(8.0);
  AcquisitionSearch search;
  const int best =
      search.ArgMax(beliefs.throughput,
                    [&](const std::vector<int>& candidates,
                        surrogates::PredictionView excess) {
                      excess.mean = beliefs.excess.mean(candidates);
                      excess.variance = beliefs.excess.variance(candidates);
                    },
                    {},
                    {});
  EXPECT_EQ(best, 99999);
  EXPECT_LT(search.summary().memory_evaluations, 10000);
  EXPECT_EQ(search.summary().belief.throughput_mean, 1.0);
}

// Candidates in another order are the same candidates.
TEST(AcquisitionSearch, ChoosesTheSameWhereverItStands) {
  std::mt19937_64 engine(29);
  const Beliefs beliefs = RandomBeliefs(2000, engine);
  std::vector<int> order(2000);
  std::iota(order.begin(), order.end(), 0);
  const int expected =
      ArgMaxConstrainedUcb(beliefs.throughput, beliefs.excess, 1.0, {});
  for (int round = 0; round < 5; ++round) {
    std::shuffle(order.begin(), order.end(), engine);
    Beliefs shuffled;
    shuffled.throughput = {beliefs.throughput.mean(order),
                           beliefs.throughput.variance(order)};
    shuffled.excess = {beliefs.excess.mean(order),
                       beliefs.excess.variance(order)};
    const int best =
        ArgMaxConstrainedUcb(shuffled.throughput, shuffled.excess, 1.0, {});
    EXPECT_EQ(order[static_cast<std::size_t>(best)], expected);
  }
}

TEST(ArgMaxConstrainedUcb, EvaluatesFewCandidatesExactly) {
  std::mt19937_64 engine(11);
  const Beliefs beliefs = RandomBeliefs(20000, engine);
  ArgMaxSummary summary;
  const int best = ArgMaxConstrainedUcb(
      beliefs.throughput, beliefs.excess, 1.0, {}, &summary);
  EXPECT_GE(best, 0);
  EXPECT_LT(summary.exact_evaluations, 200);
}

TEST(ArgMaxConstrainedUcb, GivesTheLowestIndexOfEquals) {
  Beliefs beliefs;
  for (surrogates::Prediction* p : {&beliefs.throughput, &beliefs.excess}) {
    p->mean.setConstant(1000, 1.0);
    p->variance.setConstant(1000, 0.25);
  }
  std::vector<char> excluded(1000);
  excluded[0] = 1;
  ArgMaxSummary summary;
  EXPECT_EQ(ArgMaxConstrainedUcb(
                beliefs.throughput, beliefs.excess, 1.0, excluded, &summary),
            1);
  EXPECT_EQ(summary.exact_evaluations, 1);
}

TEST(ArgMaxConstrainedUcb, ChoosesNothingWhenAllAreExcludedOrUnknown) {
  std::mt19937_64 engine(13);
  Beliefs beliefs = RandomBeliefs(3, engine);
  EXPECT_EQ(
      ArgMaxConstrainedUcb(beliefs.throughput, beliefs.excess, 1.0, {1, 1, 1}),
      -1);
  beliefs.throughput.mean.setConstant(std::nan(""));
  EXPECT_EQ(ArgMaxConstrainedUcb(beliefs.throughput, beliefs.excess, 1.0, {}),
            -1);
}

TEST(ArgMaxConstrainedUcb, RejectsShapesThatDiffer) {
  std::mt19937_64 engine(17);
  const Beliefs beliefs = RandomBeliefs(3, engine);
  EXPECT_THROW((void)ArgMaxConstrainedUcb(
                   beliefs.throughput, beliefs.excess, 1.0, {0, 0}),
               std::invalid_argument);
}

TEST(MemoryExcess, IsInUnitsOfTheScale) {
  const surrogates::Prediction memory{Eigen::VectorXd::Constant(1, 26e9),
                                      Eigen::VectorXd::Constant(1, 4e18)};
  const surrogates::Prediction excess = MemoryExcess(memory, 24e9, 0.5e9);
  EXPECT_DOUBLE_EQ(excess.mean[0], 4.0);
  EXPECT_DOUBLE_EQ(excess.variance[0], 16.0);
  EXPECT_THROW((void)MemoryExcess(memory, 24e9, 0.0), std::invalid_argument);
}

}  // namespace
}  // namespace methods
