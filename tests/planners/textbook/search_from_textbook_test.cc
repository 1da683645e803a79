// Methods and worked examples of the configuration-search textbook.

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "methods/sampling/evolutionary.h"
#include "methods/sampling/grid.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"
#include "trials/search_space.h"

namespace planners::search_from_textbook_test {

using trials::ParallelConfig;
using trials::SearchSpace;

SearchSpace Space(int gpus) {
  return SearchSpace(fakes::Grid({{"pp", {1, 2, 4, 8}},
                                  {"tp", {1, 2, 4, 8}},
                                  {"microbatches", {8, 16, 32}},
                                  {"zero_stage", {0, 1}},
                                  {"grad_checkpoint", {0, 1}}},
                                 {}, gpus));
}

// Steps per second: the bubble, tensor parallelism, recomputation.
double Speed(const ParallelConfig& c) {
  const double bubble = (c.pp - 1.0) / (c.microbatches + c.pp - 1.0);
  return (1.0 - bubble) / (1.0 + 0.2 * std::log2(c.tp)) /
         (c.grad_checkpoint == 1 ? 1.33 : 1.0) /
         (1.0 + 0.02 * std::log2(c.dp)) / (1.0 + 0.01 * c.zero_stage);
}

bool Fits(const ParallelConfig& c) {
  const double memory =
      60.0 / (c.tp * c.pp) / (1 + c.zero_stage) +
      160.0 * (c.grad_checkpoint == 1 ? 0.1 : 1.0) / c.microbatches / c.tp;
  return memory <= 20.0;
}

// Runs a method; returns the trials in their order.
std::vector<int> RunMethod(methods::Method& method, const SearchSpace& space,
                           int trials) {
  std::vector<int> order;
  for (int i = 0; i < trials; ++i) {
    const auto suggestion = method.Suggest();
    if (!suggestion) {
      break;
    }
    const ParallelConfig& config = space[suggestion->candidate];
    method.Observe(MakeTrial(suggestion->candidate, config,
                             Fits(config)
                                 ? tests::Completed(1.0 / Speed(config), 1e9)
                                 : tests::OutOfMemory()));
    order.push_back(suggestion->candidate);
  }
  return order;
}

double Optimum(const SearchSpace& space) {
  double best = 0.0;
  for (const ParallelConfig& config : space.configs()) {
    best = Fits(config) ? std::max(best, Speed(config)) : best;
  }
  return best;
}

double BestOf(const std::vector<int>& order, const SearchSpace& space) {
  double best = 0.0;
  for (const int i : order) {
    best = Fits(space[i]) ? std::max(best, Speed(space[i])) : best;
  }
  return best;
}

methods::Problem ProblemOf(const SearchSpace& space) {
  return {
      .space = &space,
      .machine =
          trials::GpuType{.gpus = 64, .gpus_per_node = 8, .memory_bytes = 80e9},
      .q_max = 10};
}

TEST(TextbookTest, PruningKeepsTheOptimumAndSavesTrials) {
  const SearchSpace space = Space(64);
  const auto pruned = methods::MakeGrid(ProblemOf(space), {}, 1);
  const auto whole = methods::MakeGrid(ProblemOf(space), {.prune = false}, 1);
  const std::vector<int> tried = RunMethod(*pruned, space, 1000);
  EXPECT_EQ(RunMethod(*whole, space, 1000).size(),
            static_cast<std::size_t>(space.size()));
  EXPECT_LT(tried.size(), static_cast<std::size_t>(space.size()));
  EXPECT_EQ(BestOf(tried, space), Optimum(space));
  const std::set<int> ran(tried.begin(), tried.end());
  for (int i = 0; i < space.size(); ++i) {
    EXPECT_TRUE(ran.contains(i) || !Fits(space[i])) << i;
  }
}

TEST(TextbookTest, ChildrenAreCandidatesNearTheBestParents) {
  const SearchSpace space = Space(64);
  double evolved = 0.0;
  double drawn = 0.0;
  for (int seed = 1; seed <= 20; ++seed) {
    const auto method = methods::MakeEvolutionary(ProblemOf(space), {}, seed);
    const std::vector<int> order = RunMethod(*method, space, 40);
    const auto random =
        methods::MakeEvolutionary(ProblemOf(space), {.population = 40}, seed);
    evolved += BestOf(order, space);
    drawn += BestOf(RunMethod(*random, space, 40), space);
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), order.size());
  }
  EXPECT_GT(evolved, drawn);
}

}  // namespace planners::search_from_textbook_test
