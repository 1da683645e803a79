#include "methods/acquisition.h"

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "tests/reference/csv.h"

namespace methods::acquisition_test {

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

// Predicts what the beliefs, which must outlive it, say of some candidates.
auto PredictExcess(const Beliefs& beliefs) {
  return [&beliefs](const std::vector<int>& candidates,
                    surrogates::PredictionView excess) {
    excess.mean = beliefs.excess.mean(candidates);
    excess.variance = beliefs.excess.variance(candidates);
  };
}

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

int BruteForce(const Beliefs& beliefs, double beta,
               const std::vector<char>& excluded) {
  int best = -1;
  double best_value = -std::numeric_limits<double>::infinity();
  for (int i = 0; i < beliefs.throughput.mean.size(); ++i) {
    const double value = ConstrainedUcb(
        {beliefs.throughput.mean[i], std::sqrt(beliefs.throughput.variance[i]),
         beliefs.excess.mean[i], std::sqrt(beliefs.excess.variance[i])},
        beta);
    if (excluded[i] == 0 && value > best_value) {
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
                row[5], 3e-8 * std::abs(row[0]));
  }
}

TEST(ConstrainedUcb,
     TendsToTheUnconstrainedBoundFarBelowCapacityAndVanishesAbove) {
  const ConstrainedBelief feasible{2.0, 0.3, -60.0, 1.0};
  EXPECT_NEAR(ConstrainedUcb(feasible, 1.5),
              2.0 + 1.5 * kMeanAbsoluteNormal * 0.3, 1e-9);
  EXPECT_NEAR(ConstrainedUcb(feasible, GaussianBeta(1.5)), 2.0 + 1.5 * 0.3,
              1e-9);
  EXPECT_NEAR(ConstrainedUcb({2.0, 0.3, 60.0, 1.0}, 1.0), 0.0, 1e-9);
}

TEST(ConstrainedUcb, IsContinuousAsTheExcessBecomesCertain) {
  const double certain = ConstrainedUcb({0.8, 0.3, -1.0, 0.0}, 1.0);
  EXPECT_NEAR(ConstrainedUcb({0.8, 0.3, -1.0, 1e-7}, 1.0), certain, 1e-9);
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

// Batches that are small against the whole, so that every bound decides.
TEST(AcquisitionSearch, EqualsBruteForceInAnyBatchesOnAnyNumberOfThreads) {
  std::mt19937_64 engine(19);
  AcquisitionSearch search;
  for (int problem = 0; problem < 60; ++problem) {
    const int size =
        1 + static_cast<int>(engine() % (problem % 4 == 0 ? 3000 : 5));
    const Beliefs beliefs = RandomBeliefs(size, engine);
    const double beta = 0.5 * static_cast<double>(problem % 5);
    std::vector<char> excluded(beliefs.Size());
    for (char& flag : excluded) {
      flag = engine() % 3 == 0 ? 1 : 0;
    }
    const int expected = BruteForce(beliefs, beta, excluded);
    for (const int batch : {1, 7, 100, 5000}) {
      for (const int threads : {1, 3}) {
        const int best = search.ArgMax(
            beliefs.throughput, PredictExcess(beliefs), excluded,
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
          search.ArgMax(beliefs.throughput, PredictExcess(beliefs), {},
                        {.acquisition = Acquisition::kConstrainedImprovement,
                         .best_value = best,
                         .first_batch = batch});
      ASSERT_EQ(found, expected) << size << ' ' << batch;
    }
  }
}

TEST(LogExpectedImprovement, IsTheIntegralAndContinuousFarBelowTheBest) {
  // E[max(Z, 0)] = phi(0) for a standard normal Z.
  EXPECT_NEAR(LogExpectedImprovement(2.0, 3.0, 2.0),
              std::log(3.0 * 0.3989422804014327), 1e-12);
  // Far above the best it is the difference.
  EXPECT_NEAR(LogExpectedImprovement(50.0, 1.0, 2.0), std::log(48.0), 1e-12);
  EXPECT_NEAR(LogExpectedImprovement(-19.9999999, 1.0, 0.0),
              LogExpectedImprovement(-20.0000001, 1.0, 0.0), 1e-5);
  EXPECT_TRUE(std::isfinite(LogExpectedImprovement(-1e6, 1.0, 0.0)));
  // Of a certain value.
  EXPECT_DOUBLE_EQ(LogExpectedImprovement(5.0, 0.0, 2.0), std::log(3.0));
  EXPECT_EQ(LogExpectedImprovement(2.0, 0.0, 2.0),
            -std::numeric_limits<double>::infinity());
}

// E[f(Z)] of a standard normal Z, by Simpson's rule.
template <typename F>
double NormalMean(const F& f, int steps = 1000) {
  constexpr double kReach = 9.0;
  const double step = 2.0 * kReach / steps;
  double sum = 0.0;
  for (int i = 0; i <= steps; ++i) {
    const double z = -kReach + step * i;
    const double factor = i == 0 || i == steps ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
    sum += factor * f(z) * std::exp(-0.5 * z * z);
  }
  return sum * step / 3.0 / std::sqrt(2.0 * std::acos(-1.0));
}

// The trapezoid rule for narrow beliefs has steps of 0.8 deviations, and fewer
// where the sigmoid is narrow against them. The sum over integers is for wide
// ones.
TEST(Feasibility, IsThatOfSimpsonsRule) {
  for (const double mean : {-11.0, -4.0, -1.5, -0.3, 0.0, 0.8, 2.5, 7.0}) {
    for (const double stddev :
         {0.01, 0.3, 0.7, 1.0, 1.18, 1.19, 1.49, 1.51, 2.0, 3.3, 8.0, 25.0}) {
      const FeasibilityMoments moments = Feasibility(mean, stddev);
      const auto g = [&](double z) {
        return 1.0 / (1.0 + std::exp(mean + stddev * z));
      };
      const auto square = [&](double z) { return g(z) * g(z); };
      const double error = stddev <= 0.7 ? 1e-9 : stddev <= 1.0 ? 2e-8 : 1.3e-7;
      EXPECT_NEAR(moments.first, NormalMean(g), error) << mean << ' ' << stddev;
      EXPECT_NEAR(moments.second, NormalMean(square), 5.0 * error)
          << mean << ' ' << stddev;
    }
  }
}

// 0 <= E[g]^2 <= E[g^2] <= E[g] <= 1, also where rounding decides.
TEST(Feasibility, HasMomentsOfAProbability) {
  for (double mean = -60.0; mean <= 60.0; mean += 0.37) {
    for (const double stddev : {0.0, 1e-9, 0.3, 1.5, 1.6, 2.7, 9.0, 40.0}) {
      const FeasibilityMoments moments = Feasibility(mean, stddev);
      EXPECT_GE(moments.first, 0.0);
      EXPECT_LE(moments.first, 1.0);
      EXPECT_LE(moments.second, moments.first);
      EXPECT_GE(moments.second, moments.first * moments.first * (1 - 1e-15));
    }
  }
}

// The integral is over g(m) and, given m, over |r g(m) - E X|, with a kink of
// the width of stddev / mean. The last two are nearly certain of throughput,
// with a kink of 1e-3 standard deviations of m.
TEST(ConstrainedUcb, IsThatOfSimpsonsRule) {
  for (const ConstrainedBelief& belief :
       {ConstrainedBelief{1.0, 0.3, -1.0, 0.5},
        ConstrainedBelief{1.0, 1e-2, 0.0, 0.15},
        ConstrainedBelief{1.0, 1e-2, -2.0, 0.05},
        ConstrainedBelief{1.0, 3e-2, 0.5, 1.2},
        ConstrainedBelief{2.0, 1.5, -3.0, 2.0},
        ConstrainedBelief{-0.5, 0.2, 0.4, 0.7},
        ConstrainedBelief{0.0, 1.0, -0.5, 1.0},
        ConstrainedBelief{5.0, 0.1, -6.0, 3.0},
        ConstrainedBelief{1.0, 3e-4, 3.0, 0.3},
        ConstrainedBelief{1.0, 3e-4, 6.0, 0.3}}) {
    const bool certain = belief.throughput_stddev < 1e-3;
    const auto g = [&](double z) {
      return 1.0 /
             (1.0 + std::exp(belief.excess_mean + belief.excess_stddev * z));
    };
    const double feasible = NormalMean(g);
    const double deviation = NormalMean(
        [&](double z) {
          const double delta = belief.throughput_mean * (g(z) - feasible);
          const double sigma = belief.throughput_stddev * g(z);
          const double u = delta / sigma;
          return 2.0 * sigma * std::exp(-0.5 * u * u) /
                     std::sqrt(2.0 * std::acos(-1.0)) +
                 delta * std::erf(u / std::sqrt(2.0));
        },
        certain ? 200000 : 20000);
    const double value = belief.throughput_mean * feasible + 2.0 * deviation;
    EXPECT_NEAR(ConstrainedUcb(belief, 2.0), value,
                certain ? 5e-9 * value
                        : 1e-7 * (std::abs(belief.throughput_mean) +
                                  belief.throughput_stddev));
  }
}

// sd(X) is at least E|X - E X| and not much more: for certain memory the bound
// is r g + beta s g, with 1.0001 in the variance.
TEST(ConstrainedUcbBound, IsMeanAndDeviationOfTheProduct) {
  const double g = 1.0 / (1.0 + std::exp(0.7));
  EXPECT_NEAR(ConstrainedUcbBound({2.0, 0.5, 0.7, 0.0}, 3.0),
              2.0 * g + 3.0 * 0.5 * g * std::sqrt(1.0001), 1e-12);
  // Certain throughput: the deviation is that of g.
  const auto feasible = [](double z) {
    return 1.0 / (1.0 + std::exp(0.7 + 0.9 * z));
  };
  const double first = NormalMean(feasible);
  const double second =
      NormalMean([&](double z) { return feasible(z) * feasible(z); });
  EXPECT_NEAR(
      ConstrainedUcbBound({-2.0, 0.0, 0.7, 0.9}, 3.0),
      -2.0 * first + 3.0 * 2.0 * std::sqrt(1.0001 * (second - first * first)),
      1e-6);
}

// Memory that is far above the capacity, certain or not: the bounds of the tail
// decide.
TEST(AcquisitionSearch, FindsTheLeastInfeasibleOfCandidatesThatDoNotFit) {
  std::mt19937_64 engine(37);
  std::uniform_real_distribution<double> uniform;
  AcquisitionSearch search;
  for (int problem = 0; problem < 20; ++problem) {
    Beliefs beliefs = RandomBeliefs(400, engine);
    for (int i = 0; i < 400; ++i) {
      beliefs.excess.mean[i] = 12.0 + 20.0 * uniform(engine);
      beliefs.excess.variance[i] = std::pow(4.0 * uniform(engine), 2);
      beliefs.throughput.mean[i] = 1.0 + 0.2 * uniform(engine);
      beliefs.throughput.variance[i] = 1e-4;
    }
    const auto excess = PredictExcess(beliefs);
    int expected = 0;
    for (int i = 1; i < 400; ++i) {
      if (Improvement(beliefs, i, 1.1) > Improvement(beliefs, expected, 1.1)) {
        expected = i;
      }
    }
    ArgMaxOptions options{.best_value = 1.1, .first_batch = 20};
    EXPECT_EQ(search.ArgMax(beliefs.throughput, excess, {}, options),
              BruteForce(beliefs, 1.0, std::vector<char>(beliefs.Size(), 0)));
    options.acquisition = Acquisition::kConstrainedImprovement;
    EXPECT_EQ(search.ArgMax(beliefs.throughput, excess, {}, options), expected);
    EXPECT_LT(search.summary().exact_evaluations, 40);
  }
}

TEST(AcquisitionSearch, GivesTheLowestIndexOfEquals) {
  Beliefs beliefs;
  for (surrogates::Prediction* p : {&beliefs.throughput, &beliefs.excess}) {
    p->mean.setConstant(1000, 1.0);
    p->variance.setConstant(1000, 0.25);
  }
  std::vector<char> excluded(1000);
  excluded[0] = 1;
  AcquisitionSearch search;
  EXPECT_EQ(
      search.ArgMax(beliefs.throughput, PredictExcess(beliefs), excluded, {}),
      1);
  EXPECT_EQ(search.summary().exact_evaluations, 1);
}

TEST(AcquisitionSearch, ChoosesNothingWhenAllAreExcludedOrUnknown) {
  std::mt19937_64 engine(13);
  Beliefs beliefs = RandomBeliefs(3, engine);
  const auto best = [&](const std::vector<char>& excluded) {
    return AcquisitionSearch().ArgMax(beliefs.throughput,
                                      PredictExcess(beliefs), excluded, {});
  };
  EXPECT_EQ(best({1, 1, 1}), -1);
  EXPECT_THROW((void)best({0, 0}), std::invalid_argument);  // of three
  beliefs.throughput.mean.setConstant(std::nan(""));
  EXPECT_EQ(best({}), -1);
  EXPECT_THROW(ToMemoryExcess(24e9, 0.0, beliefs.excess.Head(3)),
               std::invalid_argument);
}

}  // namespace methods::acquisition_test
