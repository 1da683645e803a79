#include "methods/sampling/evolutionary.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "methods/sampling/nearest.h"
#include "tests/fakes/grid.h"
#include "trials/search_space.h"
#include "trials/trial.h"

namespace methods::evolutionary_test {

using trials::ParallelConfig;
using trials::SearchSpace;

// Sizes are far from each other, so that no other size is the nearest.
SearchSpace Space() {
  return SearchSpace(fakes::Grid({{"dp", {2, 512}},
                                  {"dp_bucket_mb", {4, 16, 64, 256}},
                                  {"zero_stage", {0, 1, 2}}}));
}

// A candidate after trials of four with dp = 2, of which the one with the
// largest bucket is the fastest.
ParallelConfig Child(const EvolutionaryOptions& options, std::uint64_t seed) {
  static const SearchSpace space = Space();
  Problem problem;
  problem.space = &space;
  const auto method = MakeEvolutionary(problem, options, seed);
  for (const int bucket : {4, 16, 64, 256}) {
    const ParallelConfig config{.dp = 2, .dp_bucket_mb = bucket};
    method->Observe(MakeTrial(
        space.Find(config).value(), config,
        {.outcome = trials::Outcome::kCompleted,
         .step_times_s = {1.0 / bucket, 1.0 / bucket, 1.0 / bucket}}));
  }
  return space[method->Suggest()->candidate];
}

constexpr int kSeeds = 40;

TEST(Evolutionary, WithoutMutationEveryKnobIsThatOfAParent) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    const ParallelConfig child =
        Child({.population = 4, .mutation = 0.0}, seed);
    EXPECT_EQ(child.dp, 2) << seed;
  }
}

TEST(Evolutionary, AMutationIsTheValueOfARandomCandidate) {
  int others = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    others += Child({.population = 4, .mutation = 1.0}, seed).dp == 512 ? 1 : 0;
  }
  // Half of all candidates: binomial, five standard deviations.
  EXPECT_NEAR(others, kSeeds / 2, 5.0 * 0.5 * std::sqrt(kSeeds));
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
  static const SearchSpace space = Space();
  Problem problem;
  problem.space = &space;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto method = MakeEvolutionary(
        problem, {.population = 4, .tournament = 1, .mutation = 0.0}, seed);
    const ParallelConfig failed{.dp = 512, .dp_bucket_mb = 4};
    method->Observe(MakeTrial(space.Find(failed).value(), failed,
                              {.outcome = trials::Outcome::kOutOfMemory}));
    for (const int bucket : {4, 16, 64, 256}) {
      const ParallelConfig config{.dp = 2, .dp_bucket_mb = bucket};
      method->Observe(MakeTrial(space.Find(config).value(), config,
                                {.outcome = trials::Outcome::kCompleted,
                                 .step_times_s = {100.0, 100.0, 100.0}}));
    }
    EXPECT_EQ(space[method->Suggest()->candidate].dp, 2) << seed;
  }
}

// Two parents: children take some knobs from each.
TEST(Evolutionary, KnobsOfBothParentsAreCombined) {
  static const SearchSpace space = Space();
  Problem problem;
  problem.space = &space;
  int combined = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto method = MakeEvolutionary(
        problem, {.population = 2, .tournament = 1, .mutation = 0.0}, seed);
    for (const ParallelConfig& config :
         {ParallelConfig{.dp = 2, .dp_bucket_mb = 4, .zero_stage = 0},
          ParallelConfig{.dp = 2, .dp_bucket_mb = 256, .zero_stage = 2}}) {
      method->Observe(MakeTrial(space.Find(config).value(), config,
                                {.outcome = trials::Outcome::kCompleted,
                                 .step_times_s = {1.0, 1.0, 1.0}}));
    }
    const ParallelConfig& child = space[method->Suggest()->candidate];
    combined += child.dp_bucket_mb == 4 && child.zero_stage == 2 ? 1 : 0;
  }
  EXPECT_GT(combined, 0);
}

// Half of the knobs are mutated, to a value that half of all candidates have.
TEST(Evolutionary, MutationIsAProbability) {
  constexpr int kMany = 400;
  int others = 0;
  for (int seed = 0; seed < kMany; ++seed) {
    others += Child({.population = 4, .mutation = 0.5}, seed).dp == 512 ? 1 : 0;
  }
  EXPECT_NEAR(others, kMany / 4, 5.0 * std::sqrt(kMany * 0.25 * 0.75));
}

TEST(Distance, IsInFactorsOfTwoForSizesAndOneForOtherValues) {
  const SearchSpace space = Space();
  const auto distance = [&](const ParallelConfig& a, const ParallelConfig& b) {
    return Distance(a, b, space.knobs());
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
