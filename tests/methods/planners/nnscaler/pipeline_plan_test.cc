// Pipelines of small models, worked by hand.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "methods/planners/nnscaler/nnscaler.h"
#include "tests/methods/planners/profiled_layers.h"

namespace methods::pipeline_plan_test {

using testing::DoubleNear;
using testing::ElementsAre;

// Four layers, each on one GPU only, and three sequences that nothing can
// divide: every pipeline has four stages of 3 ms, 4 ms with recomputation. A
// stage needs 8 + 1 MB and 5 MB of each microbatch.
OperatorModel Chain(double limit_mb) {
  return ModelOfRows({{kLayer,
                       1,
                       1,
                       0,
                       {.forward_us = 1000.0,
                        .backward_us = 2000.0,
                        .weights_mb = 1.0,
                        .activations_mb = 5.0}}},
                     {.layers = 4,
                      .batch = 3,
                      .gpus = 4,
                      .gpus_per_node = 4,
                      .memory_limit_mb = limit_mb});
}

std::vector<double> TimesOf(const std::vector<NnScalerPlan>& plans) {
  std::vector<double> ms;
  for (const NnScalerPlan& each : plans) {
    ms.push_back(each.iteration_ms);
  }
  return ms;
}

// Four stages with three microbatches have a bubble of 3 / 6.
const PlanConstraints kChain{0.5, 0.5, 8};

TEST(NnScalerPipelines, FitIfTheFirstStageHoldsAllMicrobatchesInFlight) {
  const std::vector<NnScalerPlan> fits =
      SearchUnderConstraints(Chain(9.0 + 4 * 5.0), kChain);
  ASSERT_THAT(TimesOf(fits), ElementsAre(DoubleNear(6 * 3.0, 1e-9),
                                         DoubleNear(6 * 4.0, 1e-9)));
  EXPECT_THAT(fits[0].plan.first, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_NEAR(fits[0].memory_mb, 29.0, 1e-9);
  EXPECT_TRUE(SearchUnderConstraints(Chain(29.0 - 1e-6), kChain).empty());
  EXPECT_EQ(SearchUnderConstraints(Chain(1.0), kChain, false).size(), 2U);
}

// One layer on two GPUs, which take n = 1, 2 or 4 sequences each: n + 0.1 ms
// forward and twice that backward.
TEST(NnScalerPipelines, HaveAllSizesOfReplicasAndMicrobatches) {
  std::vector<ProfiledOperator> rows;
  for (const int n : {1, 2, 4}) {
    rows.push_back({kLayer,
                    n,
                    1,
                    0,
                    {.forward_us = 1000.0 * n + 100.0,
                     .backward_us = 2.0 * (1000.0 * n + 100.0)}});
  }
  const OperatorModel model = ModelOfRows(
      rows,
      {.batch = 8, .gpus = 2, .gpus_per_node = 2, .memory_limit_mb = 1e6});
  const std::vector<NnScalerPlan> plans = SearchUnderConstraints(model, {});
  std::vector<double> expected;  // two replicas, or data parallelism
  for (const double recomputed : {0.0, 1.0}) {
    for (const int n : {4, 2, 1}) {
      expected.insert(expected.end(), 2,
                      4.0 / n * (3 + recomputed) * (n + 0.1));
    }
  }
  ASSERT_THAT(TimesOf(plans), testing::Pointwise(DoubleNear(1e-9), expected));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const OperatorPlan& plan = plans[i].plan;
    EXPECT_EQ(plan.micro_batch, 8 >> (i / 2 % 3));
    EXPECT_EQ(plan.choices[0].dp_log2, 1);
  }
}

}  // namespace methods::pipeline_plan_test
