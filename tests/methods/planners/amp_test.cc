// AMP: cost by hand, placements, layers by enumeration, and the method.

#include "methods/planners/amp/amp.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "methods/planners/amp/layer_assignment.h"
#include "methods/planners/amp/placement.h"
#include "methods/planners/nearest_plan.h"
#include "tests/fakes/decoders.h"
#include "tests/methods/planners/profiled_layers.h"

namespace methods::amp_test {

using methods::OperatorModel;
using methods::ProfiledOperator;
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

trials::Measurement Failure() {
  trials::Measurement measurement;
  measurement.outcome = trials::Outcome::kOutOfMemory;
  return measurement;
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

TEST(AmpLayers, AHeavyLayerHasAStageOfItsOwn) {
  const std::vector<double> layer_ms = {1, 1, 1, 1, 4};
  EXPECT_THAT(AssignLayers(layer_ms, {{0, 0, 0, 0}}, 2, 8).first,
              ElementsAre(0, 4, 5));
  // One microbatch has no slowest stage: the cheapest cut counts.
  EXPECT_THAT(AssignLayers(layer_ms, {{5, 5, 1, 5}}, 2, 1).first,
              ElementsAre(0, 3, 5));
}

TEST(AmpLayers, MoreStagesThanLayersHaveNoAssignment) {
  EXPECT_TRUE(AssignLayers({1, 1}, {{0}, {0}}, 3, 4).first.empty());
}

TEST(AmpPlacement, StagesAreRectanglesOfHostsAndGpus) {
  const std::vector<Placement> placements =
      RegularPlacements({2, {1, 1}}, 2, 2);
  EXPECT_THAT(placements,
              testing::UnorderedElementsAre(Placement{{{0, 1}, {0, 1}}},
                                            Placement{{{0, 0}, {1, 1}}}));
  // Four stages of one GPU, within hosts first and across hosts first.
  EXPECT_THAT(RegularPlacements({2, {1, 1}}, 4, 1),
              testing::UnorderedElementsAre(Placement{{{0}, {0}, {1}, {1}}},
                                            Placement{{{0}, {1}, {0}, {1}}}));
  EXPECT_TRUE(RegularPlacements({2, {1, 1}}, 2, 1).empty());
}

TEST(AmpPlacement, StagesOfSeveralHostsFollowEachOther) {
  EXPECT_THAT(RegularPlacements({1, {1, 1, 1, 1}}, 2, 2),
              ElementsAre(Placement{{{0, 1}, {2, 3}}}));
}

TEST(AmpPlacement, UnequalHostsAreOrderedByBandwidthToo) {
  std::vector<std::vector<std::vector<int>>> orders;
  for (const Placement& placement :
       RegularPlacements({1, {1.0, 0.5, 2.0}}, 3, 1)) {
    orders.push_back(placement.hosts);
  }
  EXPECT_THAT(orders, ElementsAre(Matrix<int>{{0}, {1}, {2}},
                                  Matrix<int>{{2}, {0}, {1}},
                                  Matrix<int>{{1}, {0}, {2}}));
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
  return {methods::OperatorTable::Of(rows),
          methods::LinkTable::Uniform(100.0, 10.0),
          {.layers = 2,
           .batch = 8,
           .gpus = 4,
           .gpus_per_node = 2,
           .memory_limit_mb = 1000.0}};
}

const AmpCluster kEqual{2, {1.0, 1.0}};
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
  // The second host has half the bandwidth, and so has a transfer to it.
  const AmpModel slow(operators, {2, {1.0, 0.5}});
  EXPECT_NEAR(slow.Cost(sizes, {{{0, 0}, {1, 1}}}, {0, 2, 4}).iteration_ms,
              43.5 + (2.0 * 2000 + 160) * kMs, 1e-9);
  // Transfers of a stage are the mean over replicas.
  EXPECT_NEAR(model.Cost(sizes, {{{0, 0}, {0, 1}}}, {0, 2, 4}).transfer_ms[0],
              (200 + 2000) / 2.0 * kMs, 1e-9);
}

TEST(AmpModel, OneReplicaOfOneStageTakesTheTimeOfItsLayersOnly) {
  const OperatorModel operators = Model(30.0, 100.0);
  const AmpModel model(operators, kEqual);
  const AmpSizes tensor{.tp = 4, .micro_batch = 2};
  EXPECT_EQ(model.MicrobatchesOf(tensor), 4);
  const AmpSizes sizes{.tp = 2, .micro_batch = 2};
  // 16.5 ms per sequence on one GPU; without transfers and gradients.
  EXPECT_NEAR(model.Cost(sizes, {{{0, 0}}}, {0, 4}).iteration_ms, 4 * 16.5,
              1e-9);
}

TEST(AmpModel, SizesThatDoNotDivideTheBatchHaveNoMicrobatches) {
  const OperatorModel operators = Model(30.0, 100.0);
  EXPECT_EQ(AmpModel(operators, kEqual).MicrobatchesOf({.micro_batch = 3}), 0);
}

TEST(AmpModel, LayersAreThoseThatRepeatAndWhatSurroundsThem) {
  const auto layers = [](const std::vector<const char*>& names, int count) {
    std::vector<ProfiledOperator> rows;
    for (const char* name : names) {
      rows.push_back({name, 1, 1, 0, {.forward_us = 1.0}});
    }
    const OperatorModel operators = ModelOfRows(rows, {.layers = count});
    return AmpModel(operators, {1, {1.0}}).layers();
  };
  EXPECT_THAT(layers({kFirst, kLayer, kLast}, 2), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(layers({kFirst, kLayer}, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layers({kLayer, kLast}, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(layers({kLayer, "enc-MLP-gelu", kLast}, 2),
              ElementsAre(0, 2, 4, 5));
  // The end of a single layer is not known.
  EXPECT_THAT(layers({kFirst, kLayer, kLast}, 1), ElementsAre(0, 1, 3));
}

// What follows an operator receives 0.1, 0.2 and 0.3 MB; weights are 8 MB.
OperatorModel TwoHostsOfFour() {
  std::vector<ProfiledOperator> rows;
  for (const int tp : {1, 2}) {
    double output_mb = 0.0;
    for (const char* name : {kFirst, kLayer, kLast}) {
      output_mb += 0.1;
      rows.push_back(
          {name, 1, tp, 0, {.output_mb = output_mb, .weights_mb = 8.0}});
    }
  }
  return {methods::OperatorTable::Of(rows),
          methods::LinkTable::Uniform(100.0, 10.0),
          {.layers = 2, .batch = 4, .gpus = 8, .gpus_per_node = 4}};
}

// Output and gradient take 2 ms per MB on the link of a slow pair of ranks; of
// two replicas, one has such a pair.
TEST(AmpModel, ATransferIsTheSlowestOfItsRanksAndTheMeanOfItsReplicas) {
  const OperatorModel operators = TwoHostsOfFour();
  const AmpModel model(operators, {4, {1.0, 1.0}});
  const AmpSizes sizes{.tp = 2, .dp = 2, .pp = 2};
  const double mean = (2.0 * 0.01 + 2.0 * 0.1) / 2.0;  // ms per MB
  const auto near = [](double ms) { return testing::DoubleNear(ms, 1e-12); };
  for (const Placement& placement : {Placement{{{0, 0, 0, 0}, {0, 0, 0, 1}}},
                                     Placement{{{0, 0, 0, 0}, {0, 1, 0, 0}}},
                                     Placement{{{0, 1, 0, 0}, {0, 0, 0, 0}}}}) {
    EXPECT_THAT(model.TransferMs(sizes, placement),
                ElementsAre(ElementsAre(near(0.1 * mean), near(0.2 * mean),
                                        near(0.2 * mean))));
    EXPECT_THAT(model.Cost(sizes, placement, {0, 1, 4}).transfer_ms,
                ElementsAre(near(0.1 * mean)));
    EXPECT_THAT(model.Cost(sizes, placement, {0, 3, 4}).transfer_ms,
                ElementsAre(near(0.2 * mean)));
  }
}

// 2 (dp - 1) / dp of 32-bit gradients, twice the weights.
TEST(AmpModel, GradientsUseTheSlowestLinkOfTheRingOfAnyRank) {
  const OperatorModel operators = TwoHostsOfFour();
  const AmpModel model(operators, {4, {1.0, 1.0}});
  const auto reduce_ms = [&](const AmpSizes& sizes,
                             const std::vector<int>& hosts) {
    return model.Cost(sizes, {{hosts}}, {0, 4}).reduce_ms;
  };
  const double mb = 2.0 * 4 * 8.0;
  const AmpSizes two{.tp = 2, .dp = 2};
  EXPECT_NEAR(reduce_ms(two, {0, 0, 0, 0}), mb * 0.01, 1e-9);
  EXPECT_NEAR(reduce_ms(two, {0, 0, 0, 1}), mb * 0.1, 1e-9);
  EXPECT_NEAR(reduce_ms(two, {0, 0, 1, 0}), mb * 0.1, 1e-9);
  // Both ranks of a replica on one host, or each rank on a host of its own.
  EXPECT_NEAR(reduce_ms(two, {0, 0, 1, 1}), mb * 0.1, 1e-9);
  EXPECT_NEAR(reduce_ms(two, {0, 1, 0, 1}), mb * 0.01, 1e-9);
  EXPECT_NEAR(reduce_ms({.dp = 4}, {0, 0, 0, 0}), 1.5 * mb * 0.01, 1e-9);
  EXPECT_NEAR(reduce_ms({.dp = 4}, {0, 0, 1, 1}), 1.5 * mb * 0.1, 1e-9);
  EXPECT_EQ(reduce_ms({.tp = 2}, {0, 1}), 0.0);
}

TEST(AmpModel, ItsPlansDoNotRecompute) {
  const OperatorModel operators = Model(30.0, 100.0);
  const AmpModel model(operators, kEqual);
  const methods::OperatorPlan plan =
      model.PlanOf({.tp = 2, .pp = 2, .micro_batch = 2}, {0, 2, 4});
  EXPECT_EQ(plan.micro_batch, 2);
  EXPECT_THAT(plan.first, ElementsAre(0, 2, 4));
  EXPECT_THAT(plan.choices, testing::Each(methods::OperatorChoice{1, 0, 0, 0}));
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
  const auto strategies =
      SearchAmp(AmpModel(operators, {1, {1.0, 1.0, 1.0, 1.0}}));
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
    const auto strategies = SearchAmp(AmpModel(operators, {4, {1.0}}));
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

Problem ProblemOf(const trials::SearchSpace& space, double capacity_gb) {
  static const trials::Workload workload = fakes::Decoder{}.Workload();
  return {.space = &space,
          .gpus = 4,
          .gpus_per_node = 4,
          .memory_capacity_bytes = capacity_gb * 1e9,
          .workload = &workload,
          .q_max = 10};
}

TEST(AmpMethod, TriesEveryCandidateOnceInTheOrderOfItsStrategies) {
  const trials::SearchSpace space = Space();
  const auto method = MakeAmp(ProblemOf(space, 80.0), {}, 1);
  std::vector<int> order;
  while (const auto suggestion = method->Suggest()) {
    order.push_back(suggestion->candidate);
    method->Observe(MakeTrial(suggestion->candidate,
                              space[suggestion->candidate], Failure()));
  }
  EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3, 4));
}

TEST(AmpMethod, MemoryCountsWithTheFilterOnly) {
  const trials::SearchSpace space = Space();
  const Problem problem = ProblemOf(space, 9.0);
  const OperatorModel operators = ModelOfCandidates(problem, AmpOptions());
  const AmpModel model(operators, {4, {1.0}});
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
    const PlanSizes sizes{
        static_cast<double>(expected.sizes.dp),
        static_cast<double>(expected.sizes.tp),
        static_cast<double>(expected.sizes.pp),
        static_cast<double>(model.MicrobatchesOf(expected.sizes)), false};
    const int first = MakeAmp(problem, options, 1)->Suggest()->candidate;
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
  const Problem problem = ProblemOf(space, 80.0);
  const trials::Predictions estimates = EstimatesOf(problem, AmpOptions{});
  const OperatorModel operators = ModelOfCandidates(problem, {});
  const AmpModel model(operators, {4, {1.0}});
  const int batch = problem.workload->batch_size;
  const int layers = problem.workload->model.layers;
  const AmpCost cost = model.Cost(
      {.dp = 2, .pp = 2, .micro_batch = batch / 8}, {{{0, 0}, {0, 0}}},
      {0, 1 + layers / 2, static_cast<int>(model.layers().size()) - 1});
  EXPECT_NEAR(estimates.step_time_s[0], 1e-3 * cost.iteration_ms, 1e-12);
  EXPECT_TRUE(std::isnan(estimates.step_time_s[1]));
  EXPECT_TRUE(std::isfinite(estimates.step_time_s[2]));
}

TEST(AmpMethod, EstimatesPlaceStagesOnTheHostsOfTheProblem) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>{
      {.dp = 2, .pp = 2, .microbatches = 4}});
  for (const int gpus_per_node : {2, 4, 8}) {
    Problem problem = ProblemOf(space, 80.0);
    problem.gpus_per_node = gpus_per_node;
    const OperatorModel operators = ModelOfCandidates(problem, {});
    const AmpCluster cluster =
        gpus_per_node == 2 ? AmpCluster{2, {1.0, 1.0}} : AmpCluster{4, {1.0}};
    const AmpModel model(operators, cluster);
    const int layers = problem.workload->model.layers;
    double least_ms = std::numeric_limits<double>::infinity();
    for (const Placement& placement : RegularPlacements(cluster, 2, 2)) {
      least_ms = std::min(
          least_ms, model
                        .Cost({.dp = 2,
                               .pp = 2,
                               .micro_batch = problem.workload->batch_size / 8},
                              placement, {0, 1 + layers / 2, layers + 2})
                        .iteration_ms);
    }
    EXPECT_NEAR(EstimatesOf(problem, AmpOptions{}).step_time_s[0],
                1e-3 * least_ms, 1e-12)
        << gpus_per_node;
  }
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
  Problem problem = ProblemOf(space, 80.0);
  problem.workload = &workload;
  const trials::Predictions estimates = EstimatesOf(problem, AmpOptions{});
  EXPECT_TRUE(std::isfinite(estimates.step_time_s[0]));
  for (std::size_t i = 1; i < estimates.step_time_s.size(); ++i) {
    EXPECT_TRUE(std::isnan(estimates.step_time_s[i])) << i;
    EXPECT_TRUE(std::isnan(estimates.peak_memory_bytes[i])) << i;
  }
}

}  // namespace methods::amp_test
