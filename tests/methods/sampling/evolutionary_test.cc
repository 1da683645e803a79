#include "methods/sampling/evolutionary.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "methods/sampling/nearest.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"
#include "trials/search_space.h"
#include "trials/trial.h"

namespace methods::evolutionary_test {

using trials::ParallelConfig;
using trials::SearchSpace;

// Sizes are far from each other, so that no other size is the nearest.
const SearchSpace& Candidates() {
  static const SearchSpace space(
      fakes::Grid({{"dp", {2, 512}},
                   {"dp_bucket_mb", {4, 16, 64, 256}},
                   {"zero_stage", {0, 1, 2}}}));
  return space;
}

// What follows trials of these configurations with these step times; 0 fails.
ParallelConfig ChildOf(
    const std::vector<std::pair<ParallelConfig, double>>& parents,
    const EvolutionaryOptions& options, std::uint64_t seed) {
  Problem problem;
  problem.space = &Candidates();
  const auto method = MakeEvolutionary(problem, options, seed);
  for (const auto& [config, step_s] : parents) {
    method->Observe(MakeTrial(
        Candidates().Find(config).value(), config,
        step_s > 0.0 ? tests::Completed(step_s) : tests::OutOfMemory()));
  }
  return Candidates()[method->Suggest()->candidate];
}

// After four with dp = 2, of which the one with the largest bucket is fastest.
ParallelConfig Child(const EvolutionaryOptions& options, std::uint64_t seed) {
  std::vector<std::pair<ParallelConfig, double>> parents;
  for (const int bucket : {4, 16, 64, 256}) {
    parents.push_back({{.dp = 2, .dp_bucket_mb = bucket}, 1.0 / bucket});
  }
  return ChildOf(parents, options, seed);
}

constexpr int kSeeds = 40;

// This share of the knobs mutates to a value that half of all candidates have.
TEST(Evolutionary, AMutationIsTheValueOfARandomCandidate) {
  constexpr int kMany = 400;
  for (const double mutation : {0.0, 0.5, 1.0}) {
    int others = 0;
    for (int seed = 0; seed < kMany; ++seed) {
      const EvolutionaryOptions options{.population = 4, .mutation = mutation};
      others += Child(options, seed).dp == 512 ? 1 : 0;
    }
    const double p = mutation / 2.0;  // binomial, five standard deviations
    EXPECT_NEAR(others, kMany * p, 5.0 * std::sqrt(kMany * p * (1.0 - p)));
  }
}

// The fastest of four is both parents of a child with the probability 1/16 if
// each is drawn at once, and at least one with 7/16. A child of one such parent
// has its bucket in half of the cases: 1/4 in all, and 7/16 after two draws.
TEST(Evolutionary, ATournamentOfOneDrawsParentsAtRandom) {
  constexpr int kMany = 400;
  int largest = 0;
  for (int seed = 0; seed < kMany; ++seed) {
    const EvolutionaryOptions one{
        .population = 4, .tournament = 1, .mutation = 0.0};
    largest += Child(one, seed).dp_bucket_mb == 256 ? 1 : 0;
  }
  EXPECT_NEAR(largest, kMany / 4, 5.0 * std::sqrt(kMany * 0.25 * 0.75));
}

// Of five trials the one that failed is not among the four parents, however
// slow those are.
TEST(Evolutionary, FailuresAreSlowerThanAnyTrialThatRan) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(ChildOf({{{.dp = 512, .dp_bucket_mb = 4}, 0.0},
                       {{.dp = 2, .dp_bucket_mb = 4}, 100.0},
                       {{.dp = 2, .dp_bucket_mb = 16}, 100.0},
                       {{.dp = 2, .dp_bucket_mb = 64}, 100.0},
                       {{.dp = 2, .dp_bucket_mb = 256}, 100.0}},
                      {.population = 4, .tournament = 1, .mutation = 0.0}, seed)
                  .dp,
              2)
        << seed;
  }
}

// Two parents: children take some knobs from each.
TEST(Evolutionary, KnobsOfBothParentsAreCombined) {
  int combined = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const ParallelConfig child =
        ChildOf({{{.dp = 2, .dp_bucket_mb = 4}, 1.0},
                 {{.dp = 2, .dp_bucket_mb = 256, .zero_stage = 2}, 1.0}},
                {.population = 2, .tournament = 1, .mutation = 0.0}, seed);
    combined += child.dp_bucket_mb == 4 && child.zero_stage == 2 ? 1 : 0;
  }
  EXPECT_GT(combined, 0);
}

TEST(Distance, IsInFactorsOfTwoForSizesAndOneForOtherValues) {
  const auto distance = [&](const ParallelConfig& a, const ParallelConfig& b) {
    return Distance(a, b, Candidates().knobs());
  };
  EXPECT_EQ(distance({.dp = 2}, {.dp = 2}), 0.0);
  EXPECT_EQ(distance({.dp = 2}, {.dp = 16}), 3.0);
  EXPECT_EQ(distance({.dp = 16}, {.dp = 2}), 3.0);
  EXPECT_EQ(distance({.dp = 1}, {.dp = 4}), 2.0);
  EXPECT_EQ(distance({.dp = 4}, {.dp = 1}), 2.0);
  EXPECT_EQ(distance({.zero_stage = 0}, {.zero_stage = 2}), 1.0);
  EXPECT_EQ(distance({.zero_stage = 1}, {.zero_stage = 2}), 1.0);
  EXPECT_EQ(distance({.dp_bucket_mb = 0}, {.dp_bucket_mb = 16}), 1.0);
  EXPECT_EQ(distance({.dp_bucket_mb = 16}, {.dp_bucket_mb = 0}), 1.0);
  EXPECT_EQ(distance({.dp = 2, .dp_bucket_mb = 4},
                     {.dp = 8, .dp_bucket_mb = 8, .zero_stage = 1}),
            2.0 + 1.0 + 1.0);
}

}  // namespace methods::evolutionary_test
