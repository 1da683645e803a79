// The allocations of the search for the best candidate.

#include <vector>

#include <gtest/gtest.h>

#include "methods/surrogate_pair.h"
#include "tests/fakes/allocations.h"
#include "tests/methods/trials.h"

namespace methods::allocation_test {

using AcquisitionAllocations = fakes::AllocationTest;

TEST_F(AcquisitionAllocations, NoneInASearchWithBothModelsFromTheSecondOn) {
  std::vector<trials::ParallelConfig> configs;
  for (int dp = 1; dp <= 60; ++dp) {
    for (int tp = 1; tp <= 60; ++tp) {
      configs.push_back({.dp = dp, .tp = tp});
    }
  }
  const trials::SearchSpace space(configs);
  const Problem problem{.space = &space,
                        .machine = trials::GpuType{.memory_bytes = 16e9}};
  SurrogatePair pair(problem,
                     {.throughput_prior = surrogates::CostModelForm::kNone,
                      .memory_prior = surrogates::CostModelForm::kNone});
  History history(space.size());
  for (int i = 0; i < 8; ++i) {
    history.Add(MakeTrial(397 * i, space[397 * i],
                          tests::Completed(1.0 / (i + 1), 1e9 * (i + 1))));
  }
  (void)pair.Fit(history);
  std::vector<char> excluded = history.tried();
  const auto suggest = [&] {
    const SurrogatePair::Choice choice = pair.ArgMax({.beta = 1.0}, excluded);
    excluded[choice.candidate] = 1;
  };
  EXPECT_GT(Allocations(suggest), 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Allocations(suggest), 0);
  }
}

}  // namespace methods::allocation_test
