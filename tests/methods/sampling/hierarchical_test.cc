#include "methods/sampling/hierarchical.h"

#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "methods/history.h"
#include "methods/sampling/nearest.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"
#include "trials/knobs.h"

namespace methods::hierarchical_test {

// Two sizes, each with several memory knobs. Every candidate takes a second,
// but for the fastest one, and a plan that came before them.
std::vector<int> Search(const trials::SearchSpace& space, int fastest,
                        bool after_plan) {
  Problem problem;
  problem.space = &space;
  const std::unique_ptr<Method> method = MakeHierarchical(problem, {}, 1);
  if (after_plan) {
    method->Observe(tests::CompletedPlan(0.1));
  }
  return tests::TryAll(*method, space, [fastest](int candidate) {
    return tests::Completed(candidate == fastest ? 0.5 : 1.0);
  });
}

// The representatives of the two sizes are the only ones with ZeRO 3.
TEST(Hierarchical, VariesTheFastestSizesNextWhicheverCandidateItIs) {
  std::vector<trials::ParallelConfig> configs = {
      {.dp = 8, .zero_stage = 3, .grad_checkpoint = trials::kRecomputeFull},
      {.dp = 4,
       .tp = 2,
       .zero_stage = 3,
       .grad_checkpoint = trials::kRecomputeFull}};
  for (const int stage : {0, 1, 2}) {
    configs.push_back({.dp = 8, .zero_stage = stage});
    configs.push_back({.dp = 4, .tp = 2, .zero_stage = stage});
  }
  const trials::SearchSpace space(configs);
  for (const int fastest : {0, 1}) {
    for (const bool after_plan : {false, true}) {
      SCOPED_TRACE(after_plan);
      const std::vector<int> tried = Search(space, fastest, after_plan);
      ASSERT_EQ(tried.size(), configs.size());
      for (int i = 2; i < 5; ++i) {
        EXPECT_EQ(space[tried[i]].dp, space[fastest].dp);
      }
    }
  }
}

// Which level varies a knob follows from its row: the first, what decides
// memory; the second, the pipeline; a new row is varied by the last.
TEST(Hierarchical, LevelsFollowFromTheRowsOfKnobs) {
  std::set<std::string> memory;
  std::set<std::string> pipeline;
  for (const trials::Knob& knob : trials::BuiltInKnobs()) {
    if (knob.decides_memory) {
      memory.insert(knob.name);
    }
    if (knob.group == trials::KnobGroup::kPipeline) {
      pipeline.insert(knob.name);
    }
  }
  EXPECT_EQ(memory,
            (std::set<std::string>{"dp_replicate", "zero_stage",
                                   "zero_bucket_mb", "grad_checkpoint"}));
  EXPECT_EQ(pipeline, (std::set<std::string>{"microbatches", "model_chunks",
                                             "overlap_p2p"}));
}

// Three cells with every combination of some knobs of each level; cells of
// fewer microbatches are smaller.
trials::SearchSpace Levels() {
  auto configs = fakes::Grid({{"tp", {1, 2, 4}},
                              {"microbatches", {1, 2, 4, 8, 16}},
                              {"zero_stage", {0, 2, 3}},
                              {"grad_checkpoint", {0, 1}},
                              {"dp_bucket_mb", {25, 100}}},
                             {}, 8);
  std::erase_if(configs, [](const trials::ParallelConfig& config) {
    return config.microbatches > 4 * config.tp;
  });
  return trials::SearchSpace(configs);
}

// Whether the knobs that a level varies, and no others, may differ.
bool MayFollow(const trials::ParallelConfig& best, trials::ParallelConfig next,
               int level) {
  if (next.tp != best.tp) {
    return false;
  }
  if (level == 0 || level == 2) {
    next.zero_stage = best.zero_stage;
    next.grad_checkpoint = best.grad_checkpoint;
  }
  if (level == 1 || level == 2) {
    next.microbatches = best.microbatches;
  }
  if (level == 2) {
    next.dp_bucket_mb = best.dp_bucket_mb;
  }
  return next == best;
}

// Every later trial is the nearest one that its level allows, counted from the
// best one so far. A level that has nothing left gives way to the next.
TEST(Hierarchical, EveryLevelVariesItsKnobsOfTheBestTrial) {
  const trials::SearchSpace space = Levels();
  Problem problem;
  problem.space = &space;
  for (const int per_level : {4, 7}) {
    const auto method = MakeHierarchical(
        problem, {.parallelism_trials = 2, .trials_per_level = per_level}, 5);
    History history(space.size());
    int best = -1;
    double least_s = 1e9;
    for (int trial = 0; trial < 2 + 3 * per_level; ++trial) {
      int expected = -1;
      for (int level = (trial - 2) / per_level;
           trial >= 2 && level < 3 && expected < 0; ++level) {
        double least = 1e9;
        for (int i = 0; i < space.size(); ++i) {
          const double distance =
              Distance(space[i], space[best], space.knobs());
          if (history.tried()[i] == 0 && distance < least &&
              MayFollow(space[best], space[i], level)) {
            expected = i;
            least = distance;
          }
        }
      }
      const auto suggestion = method->Suggest();
      ASSERT_TRUE(suggestion);
      if (trial >= 2) {
        ASSERT_EQ(suggestion->candidate, expected) << trial;
      }
      // Every third trial is faster than all before it; the second one fails.
      trials::Measurement measurement;
      const double step_s = trial % 3 == 0 ? 1.0 - 0.01 * trial : 2.0;
      if (trial != 1) {
        measurement = tests::Completed(step_s);
        if (step_s < least_s) {
          least_s = step_s;
          best = suggestion->candidate;
        }
      }
      const auto made = MakeTrial(suggestion->candidate,
                                  space[suggestion->candidate], measurement);
      method->Observe(made);
      history.Add(made);
    }
  }
}

// ZeRO 3 with full recomputation and the median of the microbatches, in an
// order that is uniformly random.
TEST(Hierarchical, FirstTrialsAreTheRepresentativesOfTheirSizes) {
  const trials::SearchSpace space = Levels();
  Problem problem;
  problem.space = &space;
  std::map<int, int> first;
  std::map<int, int> last;
  constexpr int kSeeds = 300;
  for (int seed = 0; seed < kSeeds; ++seed) {
    const auto method =
        MakeHierarchical(problem, {.parallelism_trials = 3}, seed);
    for (int i = 0; i < 3; ++i) {
      const int candidate = method->Suggest()->candidate;
      const trials::ParallelConfig& config = space[candidate];
      EXPECT_EQ(config.zero_stage, 3);
      EXPECT_EQ(config.grad_checkpoint, trials::kRecomputeFull);
      // Of 1 2 4, 1 2 4 8 and 1 2 4 8 16.
      EXPECT_EQ(config.microbatches, config.tp == 1 ? 2 : 4);
      first[config.tp] += i == 0 ? 1 : 0;
      last[config.tp] += i == 2 ? 1 : 0;
      method->Observe(MakeTrial(candidate, config, {}));
    }
  }
  // A third: binomial, five standard deviations.
  for (const int tp : {1, 2, 4}) {
    EXPECT_NEAR(first[tp], kSeeds / 3, 5.0 * std::sqrt(kSeeds * 2.0 / 9.0));
    EXPECT_NEAR(last[tp], kSeeds / 3, 5.0 * std::sqrt(kSeeds * 2.0 / 9.0));
  }
}

// One trial of each size, then one of each level; only the third level has a
// knob to vary, so the trials of the other two are its own.
std::vector<trials::ChosenBy> ChosenAfter(const trials::SearchSpace& space,
                                          double step_s) {
  Problem problem;
  problem.space = &space;
  const auto method = MakeHierarchical(
      problem, {.parallelism_trials = 2, .trials_per_level = 1}, 1);
  std::vector<trials::ChosenBy> chosen;
  while (const auto suggestion = method->Suggest()) {
    chosen.push_back(suggestion->chosen_by);
    method->Observe(MakeTrial(
        suggestion->candidate, space[suggestion->candidate],
        step_s > 0.0 ? tests::Completed(step_s) : tests::OutOfMemory()));
  }
  return chosen;
}

TEST(Hierarchical, IsRandomAfterItsLevelsAndWhereNothingRan) {
  std::vector<trials::ParallelConfig> configs;
  for (const int bucket : {1, 2, 4, 8, 16, 32}) {
    configs.push_back({.dp = 8, .dp_bucket_mb = bucket});
    configs.push_back({.dp = 4, .tp = 2, .dp_bucket_mb = bucket});
  }
  const trials::SearchSpace space(configs);
  for (const double step_s : {0.1, 100.0}) {  // fast and slow
    const auto chosen = ChosenAfter(space, step_s);
    ASSERT_EQ(chosen.size(), configs.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(chosen[i] == trials::ChosenBy::kModel, i < 2 + 3)
          << i << " " << step_s;
    }
  }
  const auto failed = ChosenAfter(space, 0.0);
  for (std::size_t i = 0; i < failed.size(); ++i) {
    EXPECT_EQ(failed[i] == trials::ChosenBy::kModel, i < 2) << i;
  }
}

}  // namespace methods::hierarchical_test
