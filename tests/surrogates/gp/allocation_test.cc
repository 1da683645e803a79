// The allocations of a prediction.

#include <vector>

#include <gtest/gtest.h>

#include "surrogates/gp/gaussian_process.h"
#include "tests/fakes/allocations.h"
#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::allocation_test {

using GaussianProcessAllocations = fakes::AllocationTest;

GaussianProcess Fitted(const tests::SyntheticProblem& problem, int n) {
  GaussianProcess process(problem.space, problem.mean, {.starts = 1});
  process.Fit(tests::Observe(problem, n, 4));
  return process;
}

// As the two models of a search take turns.
TEST_F(GaussianProcessAllocations,
       NoneInPredictionsOfTwoModelsFromTheSecondOn) {
  const auto large = tests::MakeSyntheticProblem(1500, 4, 6, 1);
  const auto small = tests::MakeSyntheticProblem(1500, 3, 2, 2);
  const GaussianProcess throughput = Fitted(large, 15);
  const GaussianProcess memory = Fitted(small, 8);
  const std::vector<int> some = {3, 1, 4, 159, 26};
  Prediction r, m, of_some;
  of_some.Resize(5);
  const auto predict = [&] {
    throughput.Predict(r);
    memory.Predict(m);
    memory.PredictSome(some, of_some.Head(5));
  };
  predict();
  EXPECT_EQ(Allocations(predict), 0);
}

}  // namespace surrogates::allocation_test
