// ACESO and PLANNED as methods.

#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/planners/aceso/aceso.h"
#include "methods/planners/planned.h"
#include "methods/sampling/random.h"
#include "tests/fakes/decoders.h"

namespace methods {
namespace {

using trials::ParallelConfig;

trials::SearchSpace Space() {
  std::vector<ParallelConfig> configs;
  for (const int pp : {1, 2, 4, 8}) {
    for (const int tp : {1, 2, 4, 8}) {
      for (const int checkpoint : {0, 1}) {
        if (8 % (pp * tp) == 0) {
          configs.push_back({.dp = 8 / pp / tp,
                             .tp = tp,
                             .pp = pp,
                             .microbatches = pp > 1 ? 16 : 1,
                             .grad_checkpoint = checkpoint});
        }
      }
    }
  }
  return trials::SearchSpace(configs);
}

const trials::Workload& Workload() {
  static const trials::Workload workload = fakes::Decoder{}.Workload();
  return workload;
}

Problem ProblemOf(const trials::SearchSpace& space, double capacity_gb) {
  return {.space = &space,
          .gpus = 8,
          .gpus_per_node = 8,
          .memory_capacity_bytes = capacity_gb * 1e9,
          .workload = &Workload(),
          .q_max = 10};
}

trials::Trial Failed(const trials::SearchSpace& space, int candidate) {
  trials::Measurement measurement;
  measurement.outcome = trials::Outcome::kOutOfMemory;
  return MakeTrial(candidate, space[candidate], measurement);
}

TEST(AcesoMethodTest, SizesOfAPlanAreMeansOfItsOperators) {
  surrogates::OperatorPlan plan;
  plan.micro_batch = 4;
  plan.first = {0, 2, 4};
  plan.choices = {{1, 0, 0, 1}, {1, 0, 0, 1}, {0, 1, 0, 0}, {0, 1, 0, 0}};
  const PlanSizes sizes = SizesOf(plan, 64);
  EXPECT_EQ(sizes.pp, 2.0);
  EXPECT_NEAR(sizes.tp, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(sizes.dp, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(sizes.microbatches, 16.0);
  EXPECT_TRUE(sizes.recomputes);
  const ParallelConfig near{
      .dp = 2, .pp = 2, .microbatches = 16, .grad_checkpoint = 1};
  EXPECT_NEAR(Distance(sizes, near, true), 1.0, 1e-12);  // half an octave each
  const ParallelConfig replicas{.dp = 2, .microbatches = 4};
  EXPECT_NEAR(
      Distance(sizes, replicas, true) - Distance(sizes, replicas, false),
      2.0,
      1e-12);
}

// A small model fits everywhere: no model parallelism, no recomputation. A
// model that one GPU cannot hold needs stages or tensor parallelism.
TEST(AcesoMethodTest, TheFirstTrialFitsTheModel) {
  const trials::SearchSpace space = Space();
  AcesoMethodOptions options;
  options.hidden = 512;
  options.layers = 4;
  options.budget = 200;
  const ParallelConfig small = space
      [MakeAceso(ProblemOf(space, 80.0), options, 1)->Suggest()->candidate];
  EXPECT_EQ(small.grad_checkpoint, 0);
  options.hidden = 4096;
  options.layers = 32;
  const ParallelConfig large = space
      [MakeAceso(ProblemOf(space, 80.0), options, 1)->Suggest()->candidate];
  EXPECT_GE(large.tp * large.pp, 2);
}

TEST(AcesoMethodTest, WhereNothingFitsTheFirstTrialNeedsLittleMemory) {
  const trials::SearchSpace space = Space();
  AcesoMethodOptions options;
  options.budget = 50;
  const ParallelConfig first =
      space[MakeAceso(ProblemOf(space, 0.5), options, 1)->Suggest()->candidate];
  EXPECT_EQ(first.dp, 1);
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
}

TEST(AcesoMethodTest, ProfilesWithoutLinksAreAnError) {
  const trials::SearchSpace space = Space();
  AcesoMethodOptions options;
  options.profiles = "profiles.csv";
  EXPECT_THROW((void)MakeAceso(ProblemOf(space, 80.0), options, 1),
               common::InputError);
}

TEST(PlannedTest, ThePlannerChoosesTheFirstTrialsOnly) {
  const trials::SearchSpace space = Space();
  const Problem problem = ProblemOf(space, 80.0);
  AcesoMethodOptions options;
  options.budget = 100;
  Planned planned(
      problem, 2, MakeAceso(problem, options, 1), MakeRandom(problem, {}, 7));
  const auto planner = MakeAceso(problem, options, 1);
  const auto then = MakeRandom(problem, {}, 7);
  for (int i = 0; i < 6; ++i) {
    const int expected = (i < 2 ? planner : then)->Suggest()->candidate;
    const int candidate = planned.Suggest()->candidate;
    EXPECT_EQ(candidate, expected) << i;
    const trials::Trial trial = Failed(space, candidate);
    planned.Observe(trial);
    planner->Observe(trial);
    then->Observe(trial);
  }
}

trials::Trial TrialOf(const Suggestion& suggestion) {
  trials::Measurement measurement;
  measurement.outcome = trials::Outcome::kCompleted;
  measurement.step_times_s = {1.0, 0.1, 0.1};
  trials::Trial trial = MakeTrial(suggestion.candidate, {}, measurement);
  trial.plan = suggestion.plan ? ToString(*suggestion.plan) : "";
  return trial;
}

TEST(AcesoMethodTest, JudgedAsPlansItTriesItsOwnPlansThenTheSpace) {
  const trials::SearchSpace space = Space();
  Problem problem = ProblemOf(space, 80.0);
  problem.runs_plans = true;
  AcesoMethodOptions options;
  options.judge = Judge::kPlan;
  options.budget = 200;
  const auto method = MakeAceso(problem, options, 1);
  std::set<std::string> plans;
  for (int i = 0; i < space.size() + options.search.top; ++i) {
    const std::optional<Suggestion> suggestion = method->Suggest();
    if (!suggestion) {
      break;
    }
    if (suggestion->plan) {
      EXPECT_EQ(method->history().size(), 0) << "a plan after the space";
      EXPECT_NO_THROW(CheckPlan(*suggestion->plan, Workload(), {{8}}));
      EXPECT_EQ(PoolGpus(*suggestion->plan, 0), 8);
      plans.insert(ToString(*suggestion->plan));
    }
    method->Observe(TrialOf(*suggestion));
  }
  EXPECT_GE(plans.size(), 1U);
  EXPECT_EQ(plans.size(), method->history().plans().size());
  EXPECT_TRUE(method->history().exhausted());
}

TEST(PlannedTest, TheSecondMethodTakesAPlanAsIncumbentAndNotAsObservation) {
  const trials::SearchSpace space = Space();
  Problem problem = ProblemOf(space, 80.0);
  problem.runs_plans = true;
  AcesoMethodOptions options;
  options.judge = Judge::kPlan;
  options.budget = 100;
  auto made = MakeRandom(problem, {}, 7);
  const Method& then = *made;
  Planned planned(problem, 1, MakeAceso(problem, options, 1), std::move(made));
  const Suggestion first = *planned.Suggest();
  ASSERT_TRUE(first.plan);
  planned.Observe(TrialOf(first));
  const Suggestion second = *planned.Suggest();
  EXPECT_FALSE(second.plan);
  EXPECT_EQ(then.history().best_steps_per_s(), 10.0);
  EXPECT_EQ(then.history().ThroughputObservations().size(), 0);
}

}  // namespace
}  // namespace methods
