// Astra's search over plans: GPU types, layers and recomputed layers by stage.

#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "planners/astra/plan_search.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace planners::astra_plan_test {

using trials::ParallelConfig;
using trials::Plan;

constexpr double kSlow = 312e12;
constexpr double kFast = 3.0 * kSlow;
constexpr double kLarge = 80e9;

class AstraPlans : public testing::Test {
 protected:
  AstraPlans() : space_(Configs()) {
    problem_.space = &space_;
    problem_.machine = TwoTypes(kFast, kLarge);
    problem_.workload = &workload_;
    problem_.runs_plans = true;
  }

  // The second one with this rate and memory.
  static trials::Machine TwoTypes(double flop_per_s, double memory_bytes) {
    return trials::Machine({{"slow", 8, 8, kLarge, kSlow},
                            {"second", 8, 8, memory_bytes, flop_per_s}});
  }

  // Stages of at most 8 of 16 GPUs.
  static std::vector<ParallelConfig> Configs() {
    return fakes::Grid({{"tp", {1, 2, 4}},
                        {"pp", {2, 4, 8}},
                        {"microbatches", {4, 8}},
                        {"grad_checkpoint", {0, 1}}},
                       {}, 16);
  }

  [[nodiscard]] PlanSearchResult Find(int gpus = 0, int top = 50) const {
    return SearchPlans(problem_, {}, {.gpus = gpus, .top = top});
  }

  trials::Workload workload_ = fakes::Decoder{}.Workload();
  trials::SearchSpace space_;
  methods::Problem problem_;
};

int LayersOn(const Plan& plan, int gpu_type) {
  int layers = 0;
  for (std::size_t v = 0; v < plan.layers.size(); ++v) {
    layers += plan.stages[v % plan.stages.size()].gpu_type == gpu_type
                  ? plan.layers[v]
                  : 0;
  }
  return layers;
}

TEST_F(AstraPlans, EqualStagesOnOneTypeCostWhatTheirConfigurationCosts) {
  problem_.machine = trials::GpuType{"", 16, 8, kLarge};
  AstraPlanModel model(problem_, {});
  const AstraModel astra =
      AstraModelOf(workload_, 8, trials::RankOrder::kPipelineOutermost, {});
  for (const ParallelConfig& config : space_.configs()) {
    const AstraCost one = astra.Cost(config);
    const AstraPlanModel::Cost plan =
        model.CostOf(PlanOfCandidate(problem_, config));
    EXPECT_NEAR(plan.step_time_s, one.step_time_s, 1e-12) << ToString(config);
    EXPECT_NEAR(plan.memory_share, one.peak_memory_bytes / kLarge, 1e-12)
        << ToString(config);
  }
}

TEST_F(AstraPlans, TwoTypesOfTheSameGpuCostLikeOne) {
  problem_.machine = TwoTypes(kSlow, kLarge);
  AstraPlanModel two(problem_, {});
  methods::Problem one_problem = problem_;
  one_problem.machine = trials::GpuType{"", 16, 8, kLarge};
  AstraPlanModel one(one_problem, {});
  for (const ParallelConfig& config : space_.configs()) {
    EXPECT_NEAR(two.CostOf(PlanOfCandidate(problem_, config)).step_time_s,
                one.CostOf(PlanOfCandidate(one_problem, config)).step_time_s,
                1e-12)
        << ToString(config);
  }
}

TEST_F(AstraPlans, TheFasterTypeHasMoreLayersAndNoTypeHasMoreGpusThanThereAre) {
  const PlanSearchResult result = Find();
  ASSERT_FALSE(result.best.empty());
  EXPECT_GE(result.strategies, result.fit);
  const Plan& fastest = result.best.front().plan;
  EXPECT_GT(LayersOn(fastest, 1), LayersOn(fastest, 0));
  for (const CostedStrategy& each : result.best) {
    EXPECT_NO_THROW(CheckPlan(each.plan, workload_, std::vector{8, 8}));
    EXPECT_EQ(GpusOfType(each.plan, 0) + GpusOfType(each.plan, 1), 16);
  }
  EXPECT_TRUE(
      std::is_sorted(result.best.begin(), result.best.end(),
                     [](const CostedStrategy& a, const CostedStrategy& b) {
                       return a.cost.step_time_s < b.cost.step_time_s;
                     }));
}

// A quarter of the weights and states of 1.3 billion parameters do not fit.
TEST_F(AstraPlans, AStageThatDoesNotFitItsTypeIsLeftOut) {
  constexpr double kSmall = 4e9;
  problem_.machine = TwoTypes(kFast, kSmall);
  const PlanSearchResult result = Find();
  EXPECT_LT(result.fit, result.strategies);
  ASSERT_FALSE(result.best.empty());
  AstraPlanModel model(problem_, {});
  for (const CostedStrategy& each : result.best) {
    EXPECT_LE(each.cost.memory_share, kMemoryShare);
    EXPECT_EQ(model.CostOf(each.plan).memory_share, each.cost.memory_share);
  }
  problem_.machine = TwoTypes(kFast, kLarge);
  EXPECT_GE(LayersOn(Find().best.front().plan, 1),
            LayersOn(result.best.front().plan, 1));
}

// A wider search contains the narrower one.
TEST_F(AstraPlans, TheFastestPlanIsNotSlowerThanTheFastestCandidate) {
  AstraPlanModel model(problem_, {});
  double fastest_s = 1e9;
  for (const ParallelConfig& config : space_.configs()) {
    const AstraPlanModel::Cost cost =
        model.CostOf(PlanOfCandidate(problem_, config));
    if (cost.memory_share <= kMemoryShare) {
      fastest_s = std::min(fastest_s, cost.step_time_s);
    }
  }
  EXPECT_LT(Find().best.front().cost.step_time_s, fastest_s);
}

// At most 4 stages of one type and 2 of the other.
TEST(SharesOf, AreAllSolutionsOfEquation23) {
  using Solution = std::tuple<int, int, int, int>;
  for (const auto& [stages, layers] :
       {std::pair(4, 24), {1, 4}, {2, 4}, {8, 24}, {3, 2}}) {
    std::set<Solution> expected;
    for (int m = 0; m <= 4; ++m) {
      for (int n = 0; n <= layers; ++n) {
        for (int h = 0; h <= 2; ++h) {
          for (int k = 0; k <= layers; ++k) {
            if (m + h == stages && m * n + h * k == layers &&
                (m > 0) == (n > 0) && (h > 0) == (k > 0)) {
              expected.emplace(m, n, h, k);
            }
          }
        }
      }
    }
    std::set<Solution> found;
    for (const auto& shares : SharesOf(stages, layers, {4, 2})) {
      EXPECT_TRUE(found
                      .emplace(shares[0].stages, shares[0].layers,
                               shares[1].stages, shares[1].layers)
                      .second);
    }
    EXPECT_EQ(found, expected) << stages << ' ' << layers;
  }
}

// 24 layers, dp * tp = 8, so two stages, one of each type in both orders: n
// layers on the first stage, 1 to 23. With full recomputation among the values,
// 0 to max(n, 24 - n) layers are recomputed.
TEST_F(AstraPlans, TheNumberOfStrategiesIsThatOfEq23TimesTheOtherParameters) {
  const trials::SearchSpace space(std::vector<ParallelConfig>{
      {.dp = 8, .tp = 1, .pp = 2, .microbatches = 8},
      {.dp = 8, .tp = 1, .pp = 2, .microbatches = 8, .grad_checkpoint = 1}});
  problem_.space = &space;
  AstraMethodOptions options;
  options.rules = "$pp != 2";
  std::int64_t expected = 0;
  for (int n = 1; n <= 23; ++n) {
    expected += 2 * (std::max(n, 24 - n) + 1);
  }
  EXPECT_EQ(SearchPlans(problem_, options).strategies, expected);
}

// dp, pp and microbatches of all strategies, for the tp, cp, ZeRO stage and
// sequences of a microbatch of one candidate, from their products.
TEST_F(AstraPlans, HaveAllSizesWhoseProductIsTheNumberOfGpus) {
  using Sizes = std::set<std::tuple<int, int, int>>;
  constexpr int kGpus = 12;
  workload_.model.layers = 12;
  problem_.machine = trials::GpuType{"large", kGpus, 4, 1e15, kSlow};
  std::size_t sizes = 0;
  for (const int tp : {1, 2}) {
    for (const int cp : {1, 2}) {
      for (const int zero_stage : {0, 1}) {
        for (const bool pipeline : {false, true}) {
          const ParallelConfig candidate{.dp = pipeline ? 1 : 2,
                                         .tp = tp,
                                         .pp = pipeline ? 2 : 1,
                                         .zero_stage = zero_stage,
                                         .microbatches = pipeline ? 32 : 16,
                                         .cp = cp};
          space_ = trials::SearchSpace({candidate});
          const int sequences =
              workload_.batch_size / (candidate.dp * candidate.microbatches);
          Sizes expected;
          for (int dp = 1; dp <= kGpus; ++dp) {
            for (int pp = 1; pp <= kGpus; ++pp) {
              for (int microbatches = 1; microbatches <= 64; ++microbatches) {
                if (dp * tp * cp * pp == kGpus &&
                    dp * microbatches * sequences == workload_.batch_size &&
                    (pp > 1) == pipeline && (zero_stage == 0 || dp * cp > 1)) {
                  expected.emplace(dp, pp, microbatches);
                }
              }
            }
          }
          Sizes found;
          const PlanSearchResult result = Find(0, 1000);
          for (const CostedStrategy& each : result.best) {
            const ParallelConfig& shared = each.plan.shared;
            found.emplace(shared.dp, shared.pp, shared.microbatches);
          }
          EXPECT_EQ(found, expected)
              << tp << ' ' << cp << ' ' << zero_stage << ' ' << pipeline;
          EXPECT_EQ(result.fit, result.strategies);
          sizes += expected.size();
        }
      }
    }
  }
  EXPECT_GT(sizes, 10U);
}

TEST_F(AstraPlans, UseTheGivenNumberOfGpus) {
  space_ = trials::SearchSpace(
      {{.dp = 1, .microbatches = 8}, {.dp = 1, .pp = 2, .microbatches = 8}});
  problem_.machine = trials::Machine(
      {{"slow", 8, 8, 1e15, kSlow}, {"fast", 8, 8, 1e15, kFast}});
  for (const int gpus : {1, 2, 8, 16}) {
    const PlanSearchResult result = Find(gpus, 1000);
    ASSERT_FALSE(result.best.empty()) << gpus;
    for (const CostedStrategy& each : result.best) {
      EXPECT_EQ(GpusOfType(each.plan, 0) + GpusOfType(each.plan, 1), gpus);
    }
  }
}

// Two stages of four GPUs are on one host of eight, unless their types differ.
TEST_F(AstraPlans, StagesOfDifferentTypesAreOnDifferentHosts) {
  problem_.machine = TwoTypes(kSlow, kLarge);
  AstraPlanModel model(problem_, {});
  Plan plan = PlanOfCandidate(problem_, {.dp = 4, .pp = 2, .microbatches = 8});
  plan.stages[0].gpu_type = plan.stages[1].gpu_type = 0;
  const double together_s = model.CostOf(plan).step_time_s;
  plan.stages[1].gpu_type = 1;
  EXPECT_GT(model.CostOf(plan).step_time_s, together_s);
}

// A stage has layers in each of its chunks.
TEST_F(AstraPlans, FullRecomputationIsThatOfTheLayersOfAllChunks) {
  problem_.machine = trials::GpuType{"slow", 16, 8, kLarge, kSlow};
  space_ = trials::SearchSpace({{.dp = 4,
                                 .tp = 2,
                                 .pp = 2,
                                 .microbatches = 4,
                                 .model_chunks = 2,
                                 .grad_checkpoint = trials::kRecomputeFull}});
  const PlanSearchResult result = Find();
  ASSERT_FALSE(result.best.empty());
  for (const CostedStrategy& each : result.best) {
    const std::size_t stages = each.plan.stages.size();
    ASSERT_EQ(each.plan.layers.size(), 2 * stages);
    for (std::size_t i = 0; i < stages; ++i) {
      EXPECT_EQ(each.plan.stages[i].recomputed_layers,
                each.plan.layers[i] + each.plan.layers[stages + i]);
    }
  }
}

TEST_F(AstraPlans, EveryRecomputedLayerTakesTimeAndFreesMemory) {
  AstraPlanModel model(problem_, {});
  Plan plan =
      PlanOfCandidate(problem_, {.dp = 8, .tp = 1, .pp = 2, .microbatches = 8});
  AstraPlanModel::Cost last = model.CostOf(plan);
  const AstraPlanModel::Cost none = last;
  for (int layers = 1; layers <= 12; ++layers) {
    for (trials::PlanStage& stage : plan.stages) {
      stage.recomputed_layers = layers;
    }
    const AstraPlanModel::Cost cost = model.CostOf(plan);
    EXPECT_GT(cost.step_time_s, last.step_time_s) << layers;
    // The first one is kept while it is repeated.
    if (layers > 2) {
      EXPECT_LT(cost.memory_share, last.memory_share) << layers;
    }
    last = cost;
  }
  // All layers: what the configuration says.
  const AstraPlanModel::Cost full = model.CostOf(
      PlanOfCandidate(problem_, {.dp = 8,
                                 .tp = 1,
                                 .pp = 2,
                                 .microbatches = 8,
                                 .grad_checkpoint = trials::kRecomputeFull}));
  EXPECT_DOUBLE_EQ(last.step_time_s, full.step_time_s);
  EXPECT_DOUBLE_EQ(last.memory_share, full.memory_share);
  EXPECT_LT(full.memory_share, none.memory_share);
}

TEST_F(AstraPlans, AnOptimizerOnTheHostFreesMemoryAndTakesTime) {
  AstraPlanModel model(problem_, {});
  const Plan plan =
      PlanOfCandidate(problem_, {.dp = 8, .tp = 1, .pp = 2, .microbatches = 8});
  const auto cost = [&](const AstraExtras& extras) {
    return model.CostOf(plan, extras);
  };
  const auto kept = cost({});
  const auto hidden = cost({.offload_optimizer = true});
  const auto exposed =
      cost({.offload_optimizer = true, .overlap_offload = false});
  EXPECT_LT(hidden.memory_share, kept.memory_share);
  EXPECT_EQ(hidden.memory_share, exposed.memory_share);
  EXPECT_GT(hidden.step_time_s, kept.step_time_s);
  EXPECT_GT(exposed.step_time_s, hidden.step_time_s);
}

}  // namespace planners::astra_plan_test
