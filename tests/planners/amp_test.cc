// AMP: cost by hand, placements, layers by enumeration, and the method.

#include "planners/amp/amp.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planners/planner.h"
#include "tests/fakes/decoders.h"
#include "tests/methods/trials.h"
#include "tests/planners/profiled_layers.h"

namespace planners::amp_test {

using testing::ElementsAre;

template <typename T = double>
using Matrix = std::vector<std::vector<T>>;

// All partitions of so many layers into stages, as LayerAssignment::first.
Matrix<int> Partitions(int layers, int stages) {
  Matrix<int> all;
  std::vector<int> first = {0};
  const std::function<void()> divide = [&] {
    if (static_cast<int>(first.size()) == stages) {
      first.push_back(layers);
      all.push_back(first);
      first.pop_back();
      return;
    }
    for (int next = first.back() + 1; next < layers; ++next) {
      first.push_back(next);
      divide();
      first.pop_back();
    }
  };
  divide();
  return all;
}

double MsOf(const std::vector<int>& first, const std::vector<double>& layer_ms,
            const Matrix<>& transfer_ms, int microbatches) {
  double sum = 0.0;
  double slowest = 0.0;
  for (std::size_t s = 0; s + 1 < first.size(); ++s) {
    const double ms = std::accumulate(layer_ms.begin() + first[s],
                                      layer_ms.begin() + first[s + 1], 0.0);
    sum += ms;
    slowest = std::max(slowest, ms);
    if (s + 2 < first.size()) {
      sum += transfer_ms[s][static_cast<std::size_t>(first[s + 1]) - 1];
    }
  }
  return sum + (microbatches - 1) * slowest;
}

TEST(AmpLayers, NoOtherAssignmentIsFaster) {
  std::mt19937_64 random(1);
  const auto draw = [&random](double most) {
    return most * static_cast<double>(random() % 1000) / 1000.0;
  };
  for (int i = 0; i < 300; ++i) {
    const std::size_t layers = 1 + random() % 8;
    const int stages = 1 + static_cast<int>(random() % layers);
    const int microbatches = std::vector{1, 2, 8, 64}[random() % 4];
    std::vector<double> layer_ms(layers);
    for (double& ms : layer_ms) {
      ms = draw(10.0);
    }
    Matrix<> transfer_ms(static_cast<std::size_t>(stages - 1),
                         std::vector<double>(layers - 1));
    for (auto& row : transfer_ms) {
      for (double& ms : row) {
        ms = draw(i % 2 == 0 ? 1.0 : 40.0);
      }
    }
    const LayerAssignment best =
        AssignLayers(layer_ms, transfer_ms, stages, microbatches);
    ASSERT_EQ(best.first.size(), static_cast<std::size_t>(stages) + 1);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& first : Partitions(static_cast<int>(layers), stages)) {
      least = std::min(least, MsOf(first, layer_ms, transfer_ms, microbatches));
    }
    EXPECT_NEAR(best.ms, least, 1e-9 * least) << i;
    EXPECT_NEAR(MsOf(best.first, layer_ms, transfer_ms, microbatches), best.ms,
                1e-9 * least);
  }
}

TEST(AmpPlacement, StagesAreRectanglesOfHostsAndGpus) {
  const std::vector<Placement> placements = RegularPlacements({2, 2}, 2, 2);
  EXPECT_THAT(placements,
              testing::UnorderedElementsAre(Placement{{{0, 1}, {0, 1}}},
                                            Placement{{{0, 0}, {1, 1}}}));
  // Four stages of one GPU, within hosts first and across hosts first.
  EXPECT_THAT(RegularPlacements({2, 2}, 4, 1),
              testing::UnorderedElementsAre(Placement{{{0}, {0}, {1}, {1}}},
                                            Placement{{{0}, {1}, {0}, {1}}}));
  EXPECT_TRUE(RegularPlacements({2, 2}, 2, 1).empty());
}

TEST(AmpPlacement, StagesOfSeveralHostsFollowEachOther) {
  EXPECT_THAT(RegularPlacements({1, 4}, 2, 2),
              ElementsAre(Placement{{{0, 1}, {2, 3}}}));
}

// An embedding, two layers and a head; times in us and sizes in MB on one GPU.
// tp 2 halves them all.
OperatorModel Model(double weights_mb, double output_mb) {
  std::vector<ProfiledOperator> rows;
  for (const int micro_batch : {1, 2}) {
    for (const int tp : {1, 2}) {
      const double share = static_cast<double>(micro_batch) / tp;
      const auto add = [&](const char* name, double us, double weights) {
        rows.push_back({name,
                        micro_batch,
                        tp,
                        0,
                        {.forward_us = us * share,
                         .backward_us = 2.0 * us * share,
                         .input_mb = output_mb * micro_batch,
                         .output_mb = output_mb * micro_batch,
                         .weights_mb = weights / tp,
                         .activations_mb = 10.0}});
      };
      add("encoder-embedding", 1000.0, 50.0);
      add("enc-1st-layernorm", 2000.0, weights_mb);
      add("final-layernorm", 500.0, 0.0);
    }
  }
  return {OperatorTable::Of(rows),
          LinkTable::Uniform(100.0, 10.0, 8),
          {.layers = 2,
           .batch = 8,
           .gpus = 4,
           .gpus_per_node = 2,
           .memory_limit_mb = 1000.0}};
}

const AmpCluster kEqual{2, 2};
// A transfer of 1 MB within a host, at 100 GB/s, in ms.
constexpr double kMs = 1e-2;

TEST(AmpModel, CostsAreThoseWorkedByHand) {
  const OperatorModel operators = Model(30.0, 100.0);
  const AmpModel model(operators, kEqual);
  EXPECT_THAT(model.layers(), ElementsAre(0, 1, 2, 3, 4));
  const AmpSizes sizes{.dp = 2, .pp = 2};
  EXPECT_EQ(model.MicrobatchesOf(sizes), 4);
  EXPECT_THAT(model.LayerMs(sizes), ElementsAre(3.0, 6.0, 6.0, 1.5));
  // Replicas within hosts and stages on different ones: 100 MB and its gradient
  // between hosts; 2 * (50 + 30) MB of gradients within hosts.
  const AmpCost apart = model.Cost(sizes, {{{0, 0}, {1, 1}}}, {0, 2, 4});
  EXPECT_THAT(apart.stage_ms, ElementsAre(9.0, 7.5));
  EXPECT_THAT(apart.transfer_ms,
              ElementsAre(testing::DoubleNear(2000.0 * kMs, 1e-9)));
  EXPECT_NEAR(apart.reduce_ms, 160.0 * kMs, 1e-9);
  EXPECT_NEAR(apart.iteration_ms, 9.0 + 7.5 + 3 * 9.0 + (2000 + 160) * kMs,
              1e-9);
  // Both stages on both hosts: the other way round.
  const AmpCost across = model.Cost(sizes, {{{0, 1}, {0, 1}}}, {0, 2, 4});
  EXPECT_NEAR(across.iteration_ms, 43.5 + (200 + 1600) * kMs, 1e-9);
  // Transfers of a stage are the mean over replicas.
  EXPECT_NEAR(model.Cost(sizes, {{{0, 0}, {0, 1}}}, {0, 2, 4}).transfer_ms[0],
              (200 + 2000) / 2.0 * kMs, 1e-9);
}

const AmpStrategy& Find(const std::vector<AmpStrategy>& strategies,
                        const AmpSizes& sizes) {
  return *std::find_if(
      strategies.begin(), strategies.end(), [&](const AmpStrategy& each) {
        return each.sizes.tp == sizes.tp && each.sizes.dp == sizes.dp &&
               each.sizes.micro_batch == sizes.micro_batch;
      });
}

TEST(AmpSearch, TheHeavierTrafficIsPlacedWithinHosts) {
  const AmpSizes sizes{.dp = 2, .pp = 2};
  const OperatorModel weights = Model(1000.0, 1.0);
  EXPECT_EQ(Find(SearchAmp(AmpModel(weights, kEqual)), sizes).placement.hosts,
            (Matrix<int>{{0, 0}, {1, 1}}));
  const OperatorModel activations = Model(0.1, 1000.0);
  EXPECT_EQ(
      Find(SearchAmp(AmpModel(activations, kEqual)), sizes).placement.hosts,
      (Matrix<int>{{0, 1}, {0, 1}}));
}

TEST(AmpSearch, EachStrategyIsTheBestOfItsSizesAndTheFastestIsFirst) {
  const OperatorModel operators = Model(30.0, 10.0);
  const AmpModel model(operators, kEqual);
  const std::vector<AmpStrategy> strategies = SearchAmp(model);
  // tp 1 or 2 on 4 GPUs: (1, 4, 1), (2, 2, 1), (1, 2, 2), (2, 1, 2), (1, 1, 4),
  // each with two microbatch sizes.
  EXPECT_EQ(strategies.size(), 10U);
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const AmpStrategy& each = strategies[i];
    if (i > 0) {
      EXPECT_LE(strategies[i - 1].cost.iteration_ms, each.cost.iteration_ms);
    }
    for (const Placement& placement : RegularPlacements(
             kEqual, each.sizes.pp, each.sizes.tp * each.sizes.dp)) {
      // The best assignment leaves the gradients out.
      AmpCost best{.iteration_ms = std::numeric_limits<double>::infinity()};
      const auto without = [](const AmpCost& cost) {
        return cost.iteration_ms - cost.reduce_ms;
      };
      for (const std::vector<int>& first : Partitions(4, each.sizes.pp)) {
        const AmpCost cost = model.Cost(each.sizes, placement, first);
        best = without(cost) < without(best) - 1e-9 ? cost : best;
      }
      EXPECT_LE(each.cost.iteration_ms, best.iteration_ms + 1e-9);
      if (placement == each.placement) {
        EXPECT_NEAR(without(each.cost), without(best), 1e-9);
      }
    }
  }
}

TEST(AmpSearch, TensorParallelismStaysWithinAHost) {
  const OperatorModel operators = Model(30.0, 10.0);
  // dp and pp of 4, 2 and 1, each with two microbatch sizes.
  const auto strategies = SearchAmp(AmpModel(operators, {1, 4}));
  EXPECT_EQ(strategies.size(), 6U);
  for (const AmpStrategy& each : strategies) {
    EXPECT_EQ(each.sizes.tp, 1);
  }
}

// Replicas do not divide fewer sequences.
TEST(AmpSearch, LeavesOutSizesThatWereNotProfiledOrDoNotDivideTheBatch) {
  std::vector<ProfiledOperator> rows;
  for (const int tp : {1, 2}) {
    rows.push_back({kFirst, 1, tp, 0, {.forward_us = 1.0}});
    rows.push_back(tp == 1 ? ProfiledOperator{kLayer, 1, 1, 0, {}}
                           : Unprofiled(kLayer, 1, 2));
  }
  for (const auto& [batch, count] : {std::pair(4, 3U), std::pair(2, 2U)}) {
    const OperatorModel operators = ModelOfRows(
        rows, {.layers = 4, .batch = batch, .gpus = 4, .gpus_per_node = 4});
    const auto strategies = SearchAmp(AmpModel(operators, {4, 1}));
    EXPECT_EQ(strategies.size(), count);
    for (const AmpStrategy& each : strategies) {
      EXPECT_EQ(each.sizes.tp, 1);
    }
  }
}

trials::SearchSpace Space() {
  return trials::SearchSpace(
      std::vector<trials::ParallelConfig>{{.dp = 4, .microbatches = 1},
                                          {.dp = 2, .tp = 2, .microbatches = 1},
                                          {.dp = 2, .pp = 2, .microbatches = 4},
                                          {.tp = 2, .pp = 2, .microbatches = 8},
                                          {.pp = 4, .microbatches = 8}});
}

methods::Problem ProblemOf(const trials::SearchSpace& space,
                           double capacity_gb) {
  static const trials::Workload workload = fakes::Decoder{}.Workload();
  return {.space = &space,
          .machine = trials::GpuType{.gpus = 4,
                                     .gpus_per_node = 4,
                                     .memory_bytes = capacity_gb * 1e9},
          .workload = &workload,
          .q_max = 10};
}

TEST(AmpMethod, MemoryCountsWithTheFilterOnly) {
  const trials::SearchSpace space = Space();
  const methods::Problem problem = ProblemOf(space, 9.0);
  const OperatorModel operators = ModelOfCandidates(problem, AmpOptions());
  const AmpModel model(operators, {4, 1});
  const std::vector<AmpStrategy> strategies = SearchAmp(model);
  const double limit_mb = operators.job().memory_limit_mb;
  const auto fits = [limit_mb](const AmpStrategy& each) {
    return each.memory_mb <= limit_mb;
  };
  EXPECT_FALSE(fits(strategies.front()));
  const auto first_that_fits =
      std::find_if(strategies.begin(), strategies.end(), fits);
  ASSERT_NE(first_that_fits, strategies.end());
  for (const bool filter : {false, true}) {
    AmpOptions options;
    options.memory_filter = filter;
    const AmpStrategy& expected = filter ? *first_that_fits : strategies[0];
    const MeanSizes sizes{
        static_cast<double>(expected.sizes.dp),
        static_cast<double>(expected.sizes.tp),
        static_cast<double>(expected.sizes.pp),
        static_cast<double>(model.MicrobatchesOf(expected.sizes)), false};
    const int first = TryPlans(problem, options, 1)->Suggest()->candidate;
    for (const trials::ParallelConfig& config : space.configs()) {
      EXPECT_LE(Distance(sizes, space[first], false),
                Distance(sizes, config, false));
    }
  }
}

TEST(AmpMethod, ACandidateIsEstimatedAsItsFastestPlacementWithEqualStages) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>{
      {.dp = 2, .pp = 2, .microbatches = 4},
      {.dp = 3, .microbatches = 1},
      {.dp = 4, .zero_stage = 2, .microbatches = 1}});
  const methods::Problem problem = ProblemOf(space, 80.0);
  const trials::Predictions estimates = EstimatesOf(problem, AmpOptions{});
  const OperatorModel operators = ModelOfCandidates(problem, {});
  const AmpModel model(operators, {4, 1});
  const int batch = problem.workload->batch_size;
  const int layers = problem.workload->model.layers;
  const AmpCost cost = model.Cost(
      {.dp = 2, .pp = 2, .micro_batch = batch / 8}, {{{0, 0}, {0, 0}}},
      {0, 1 + layers / 2, static_cast<int>(model.layers().size()) - 1});
  EXPECT_NEAR(estimates.step_time_s[0], 1e-3 * cost.iteration_ms, 1e-12);
  EXPECT_TRUE(std::isnan(estimates.step_time_s[1]));
  EXPECT_TRUE(std::isfinite(estimates.step_time_s[2]));
}

TEST(AmpMethod, ConfigurationsThatItCannotPlanHaveNoEstimate) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>{
      {.pp = 4, .microbatches = 8},
      {.tp = 3, .microbatches = 1},
      {.dp = 3, .microbatches = 1},
      {.dp = 2, .microbatches = 1, .cp = 2},
      {.dp = 2, .pp = 2, .microbatches = 3},
      {.dp = 4, .microbatches = 1, .micro_batch_size = 1}});
  fakes::Decoder decoder;
  decoder.layers = 4;
  const trials::Workload workload = decoder.Workload();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.workload = &workload;
  const trials::Predictions estimates = EstimatesOf(problem, AmpOptions{});
  EXPECT_TRUE(std::isfinite(estimates.step_time_s[0]));
  for (std::size_t i = 1; i < estimates.step_time_s.size(); ++i) {
    EXPECT_TRUE(std::isnan(estimates.step_time_s[i])) << i;
    EXPECT_TRUE(std::isnan(estimates.peak_memory_bytes[i])) << i;
  }
}

}  // namespace planners::amp_test
