#include "methods/sampling/hierarchical.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace methods {
namespace {

// Two sizes, each with several memory knobs. Every candidate takes a second,
// but for the fastest one, and a plan that came before them.
std::vector<int> Search(const trials::SearchSpace& space,
                        int fastest,
                        bool after_plan) {
  Problem problem;
  problem.space = &space;
  const std::unique_ptr<Method> method = MakeHierarchical(problem, {}, 1);
  if (after_plan) {
    trials::Measurement measurement;
    measurement.outcome = trials::Outcome::kCompleted;
    measurement.step_times_s.assign(4, 0.1);
    trials::Trial plan = MakeTrial(-1, {}, measurement);
    plan.plan = "layers=8 dp=8 tp=1";
    method->Observe(plan);
  }
  std::vector<int> tried;
  while (const auto suggestion = method->Suggest()) {
    tried.push_back(suggestion->candidate);
    trials::Measurement measurement;
    measurement.outcome = trials::Outcome::kCompleted;
    measurement.step_times_s.assign(4, tried.back() == fastest ? 0.5 : 1.0);
    method->Observe(MakeTrial(tried.back(), space[tried.back()], measurement));
  }
  return tried;
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
        EXPECT_EQ(space[tried[static_cast<std::size_t>(i)]].dp,
                  space[fastest].dp);
      }
    }
  }
}

}  // namespace
}  // namespace methods
