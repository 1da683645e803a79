// The allocations of the search for the best candidate.

#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "methods/acquisition.h"
#include "methods/surrogate_pair.h"
#include "tests/fakes/allocations.h"

namespace methods::allocation_test {

using AcquisitionAllocations = fakes::AllocationTest;

surrogates::Prediction Random(int size, std::mt19937_64& engine) {
  std::uniform_real_distribution<double> uniform(0.1, 1.0);
  surrogates::Prediction prediction;
  prediction.Resize(size);
  for (int i = 0; i < size; ++i) {
    prediction.mean[i] = uniform(engine);
    prediction.variance[i] = uniform(engine);
  }
  return prediction;
}

// With one candidate less each time, so that the batches differ in size.
TEST_F(AcquisitionAllocations, NoneInASearchOfSeveralBatchesFromTheSecondOn) {
  constexpr int kSize = 3000;
  constexpr int kFirstBatch = 50;
  std::mt19937_64 engine(3);
  const surrogates::Prediction throughput = Random(kSize, engine);
  const surrogates::Prediction beliefs = Random(kSize, engine);
  std::vector<char> excluded(kSize, 0);
  AcquisitionSearch search;
  const auto know = [&](const std::vector<int>& candidates,
                        surrogates::PredictionView excess) {
    for (Eigen::Index i = 0; i < excess.mean.size(); ++i) {
      const int candidate = candidates[i];
      excess.mean[i] = beliefs.mean[candidate];
      excess.variance[i] = beliefs.variance[candidate];
    }
  };
  const auto suggest = [&] {
    const int best =
        search.ArgMax(throughput, know, excluded, {.first_batch = kFirstBatch});
    EXPECT_GT(search.summary().memory_evaluations, kFirstBatch);
    excluded[best] = 1;
  };
  EXPECT_GT(Allocations(suggest), 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Allocations(suggest), 0);
  }
}

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
    trials::Measurement measurement;
    measurement.outcome = trials::Outcome::kCompleted;
    measurement.step_times_s = {1.0 / (i + 1), 1.0 / (i + 1)};
    measurement.peak_memory_bytes = 1e9 * (i + 1);
    history.Add(MakeTrial(397 * i, space[397 * i], measurement));
  }
  (void)pair.Fit(history);
  std::vector<char> excluded = history.tried();
  const auto suggest = [&] {
    const SurrogatePair::Choice choice =
        pair.ArgMaxConstrainedUcb(1.0, excluded);
    excluded[choice.candidate] = 1;
  };
  EXPECT_GT(Allocations(suggest), 0);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Allocations(suggest), 0);
  }
}

}  // namespace methods::allocation_test
