// ACESO and PLANNED as methods.

#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "methods/sampling/random.h"
#include "planners/aceso/aceso.h"
#include "planners/aceso/conversions.h"
#include "planners/operator_job.h"
#include "planners/planned.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace planners::aceso_method_test {

using trials::ParallelConfig;

trials::SearchSpace Space() {
  auto configs = fakes::Grid(
      {{"pp", {1, 2, 4, 8}}, {"tp", {1, 2, 4, 8}}, {"grad_checkpoint", {0, 1}}},
      {}, 8);
  for (ParallelConfig& config : configs) {
    config.microbatches = config.pp > 1 ? 16 : 1;
  }
  return trials::SearchSpace(configs);
}

const trials::Workload& Workload() {
  static const trials::Workload workload = fakes::Decoder{}.Workload();
  return workload;
}

methods::Problem ProblemOf(const trials::SearchSpace& space,
                           double capacity_gb) {
  return {.space = &space,
          .machine = trials::GpuType{.gpus = 8,
                                     .gpus_per_node = 8,
                                     .memory_bytes = capacity_gb * 1e9},
          .workload = &Workload(),
          .q_max = 10};
}

// A small model fits everywhere: no model parallelism, no recomputation. A
// model that one GPU cannot hold needs stages or tensor parallelism.
TEST(AcesoMethodTest, TheFirstTrialFitsTheModel) {
  const trials::SearchSpace space = Space();
  AcesoMethodOptions options;
  options.search.budget = 200;
  trials::Workload workload = Workload();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.workload = &workload;
  workload.model.hidden_size = 512;
  workload.model.layers = 4;
  const ParallelConfig small =
      space[TryPlans(problem, options, 1)->Suggest()->candidate];
  EXPECT_EQ(small.grad_checkpoint, 0);
  workload.model.hidden_size = 4096;
  workload.model.layers = 32;
  const ParallelConfig large =
      space[TryPlans(problem, options, 1)->Suggest()->candidate];
  EXPECT_GE(large.tp * large.pp, 2);
}

TEST(AcesoMethodTest, PlansAreTriedOnlyWhereAllGpusAreOfOneType) {
  const trials::SearchSpace space = Space();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.runs_plans = true;
  const auto read = [&](const std::string& judge) {
    return methods::ReadOptions<AcesoMethodOptions>(
               common::TomlTable::ParseString("judge = \"" + judge + "\"",
                                              "m.toml"),
               problem)
        .judge;
  };
  EXPECT_EQ(read("plan"), Judge::kPlan);
  problem.machine =
      trials::Machine({{"one", 4, 4, 80e9, 1e14}, {"other", 4, 4, 80e9, 2e14}});
  EXPECT_EQ(read("nearest"), Judge::kNearest);
  EXPECT_THAT([&] { (void)read("plan"); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("GPUs of one type")));
}

TEST(AcesoMethodTest, SizesAreThoseOfTheWorkloadUnlessTheyAreGiven) {
  trials::Workload workload = Workload();
  workload.model.kv_heads = 2;
  workload.model.gated_ffn = true;
  AcesoMethodOptions options;
  options.layers = 12;
  const OperatorJobSizes job = JobOf(options, &workload);
  EXPECT_EQ(job.layers, 12);
  EXPECT_EQ(job.batch, 64);
  EXPECT_EQ(job.analytic.hidden, 2048);
  EXPECT_EQ(job.analytic.kv_heads, 2);
  EXPECT_TRUE(job.analytic.gated);
  EXPECT_EQ(job.analytic.vocabulary, 50'257);
  EXPECT_THAT([&] { (void)JobOf(options, nullptr); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("batch: give a value, or [workload]")));
  options.batch = 64;
  EXPECT_THAT([&] { (void)JobOf(options, nullptr); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("read from [workload]")));
  workload.model.kinds.push_back(workload.model);
  EXPECT_THAT([&] { (void)JobOf(options, &workload); },
              testing::ThrowsMessage<common::InputError>(
                  testing::HasSubstr("has blocks of several kinds")));
}

TEST(AcesoMethodTest, ProfilesWithoutLinksAreAnError) {
  const trials::SearchSpace space = Space();
  AcesoMethodOptions options;
  options.profiles = "profiles.csv";
  EXPECT_THROW((void)TryPlans(ProblemOf(space, 80.0), options, 1),
               common::InputError);
}

// The performance model that the header describes, put together by hand.
OperatorModel ModelFor(const methods::Problem& problem,
                       const AcesoMethodOptions& options,
                       const std::vector<int>& micro_batches) {
  OperatorJobSizes job = JobOf(options, problem.workload);
  job.analytic.micro_batches = micro_batches;
  return {AnalyticOperators(job.analytic),
          LinkTable::Uniform(options.link_gb_per_s,
                             options.between_hosts_gb_per_s, 8),
          {.layers = job.layers,
           .batch = job.batch,
           .gpus = problem.machine.gpus(),
           .gpus_per_node = problem.machine.gpus_per_node(),
           .memory_limit_mb =
               kMemoryShare * problem.machine.memory_bytes() / 1'048'576.0}};
}

TEST(AcesoMethodTest, EstimatesAreTheCostsOfPlansInSecondsAndBytes) {
  const trials::SearchSpace space(
      {{.dp = 8, .microbatches = 8},
       {.dp = 8, .microbatches = 2, .micro_batch_size = 4},
       {.dp = 2, .tp = 2, .pp = 2, .microbatches = 32},
       {.tp = 16, .microbatches = 1},  // not on these GPUs: estimated as well
       {.dp = 8, .microbatches = 3},   // does not divide the batch
       {.dp = 8, .microbatches = 64}});
  const methods::Problem problem = ProblemOf(space, 80.0);
  const trials::Predictions estimates =
      EstimatesOf(problem, AcesoMethodOptions());
  const OperatorModel model = ModelFor(problem, {}, {1, 4});
  for (const std::size_t i : {0u, 1u, 2u}) {
    const auto plan = PlanOf(model, space[static_cast<int>(i)]);
    ASSERT_TRUE(plan);
    const PlanCost cost = model.Cost(*plan);
    EXPECT_DOUBLE_EQ(estimates.step_time_s[i], cost.iteration_ms / 1e3) << i;
    EXPECT_DOUBLE_EQ(estimates.peak_memory_bytes[i],
                     cost.memory_mb * 1'048'576.0)
        << i;
  }
  EXPECT_TRUE(std::isfinite(estimates.step_time_s[3]));
  for (const std::size_t i : {4u, 5u}) {
    EXPECT_TRUE(std::isnan(estimates.step_time_s[i])) << i;
    EXPECT_TRUE(std::isnan(estimates.peak_memory_bytes[i])) << i;
  }
}

// Without profiles, fine-tuning had no time for any change of layout, and could
// never act.
TEST(AcesoMethodTest, EveryChangeOfSizesWithinAStageHasATime) {
  const trials::SearchSpace space = Space();
  const OperatorModel model =
      ModelFor(ProblemOf(space, 80.0), {}, {1, 2, 4, 8});
  int conversions = 0;
  for (int op = 1; op < model.operators(); ++op) {
    for (const int tp : {1, 2, 4}) {
      for (const auto& [a, b] : {std::pair(tp, 2 * tp), {2 * tp, tp}}) {
        const double us = model.ConversionUs(
            op, 8, OperatorChoice::Of(a, 8 / a), OperatorChoice::Of(b, 8 / b));
        EXPECT_TRUE(std::isfinite(us)) << op << ": " << a << " to " << b;
        conversions += us > 0.0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(conversions, 4 * model.operators());
}

TEST(PlannedTest, ThePlannerChoosesTheFirstTrialsOnly) {
  const trials::SearchSpace space = Space();
  const methods::Problem problem = ProblemOf(space, 80.0);
  AcesoMethodOptions options;
  options.search.budget = 100;
  Planned planned(problem, {.top = 2}, TryPlans(problem, options, 1),
                  methods::MakeRandom(problem, {}, 7));
  const auto planner = TryPlans(problem, options, 1);
  const auto then = methods::MakeRandom(problem, {}, 7);
  for (int i = 0; i < 6; ++i) {
    const int expected = (i < 2 ? planner : then)->Suggest()->candidate;
    const int candidate = planned.Suggest()->candidate;
    EXPECT_EQ(candidate, expected) << i;
    const trials::Trial trial =
        MakeTrial(candidate, space[candidate], tests::OutOfMemory());
    planned.Observe(trial);
    planner->Observe(trial);
    then->Observe(trial);
  }
}

trials::Trial TrialOf(const methods::Suggestion& suggestion) {
  return MakeTrial(suggestion.candidate,
                   suggestion.outside.value_or(trials::Candidate()),
                   tests::Completed({1.0, 0.1, 0.1}));
}

TEST(AcesoMethodTest, JudgedAsPlansItTriesItsOwnPlansThenTheSpace) {
  const trials::SearchSpace space = Space();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.runs_plans = true;
  AcesoMethodOptions options;
  options.judge = Judge::kPlan;
  options.search.budget = 200;
  const auto method = TryPlans(problem, options, 1);
  std::set<std::string> plans;
  for (int i = 0; i < space.size() + options.search.top; ++i) {
    const std::optional<methods::Suggestion> suggestion = method->Suggest();
    if (!suggestion) {
      break;
    }
    if (suggestion->outside) {
      EXPECT_EQ(method->history().size(), 0) << "a plan after the space";
      trials::Plan plan;
      FromText(suggestion->outside->Label(), plan);
      EXPECT_NO_THROW(CheckPlan(plan, Workload(), {{8}}));
      EXPECT_EQ(GpusOfType(plan, 0), 8);
      plans.insert(suggestion->outside->Label());
    }
    method->Observe(TrialOf(*suggestion));
  }
  EXPECT_GE(plans.size(), 1U);
  EXPECT_EQ(plans.size(), method->history().plans().size());
  EXPECT_TRUE(method->history().exhausted());
}

TEST(PlannedTest, TheSecondMethodTakesAPlanAsIncumbentAndNotAsObservation) {
  const trials::SearchSpace space = Space();
  methods::Problem problem = ProblemOf(space, 80.0);
  problem.runs_plans = true;
  AcesoMethodOptions options;
  options.judge = Judge::kPlan;
  options.search.budget = 100;
  auto made = methods::MakeRandom(problem, {}, 7);
  const methods::Method& then = *made;
  Planned planned(problem, {.top = 1}, TryPlans(problem, options, 1),
                  std::move(made));
  const methods::Suggestion first = *planned.Suggest();
  ASSERT_TRUE(first.outside);
  planned.Observe(TrialOf(first));
  const methods::Suggestion second = *planned.Suggest();
  EXPECT_FALSE(second.outside);
  EXPECT_EQ(then.history().best_value(), 10.0);
  EXPECT_EQ(then.history().ThroughputObservations().size(), 0);
}

}  // namespace planners::aceso_method_test
