// Planners where candidates use several numbers of GPUs, which have a price.

#include <gtest/gtest.h>

#include "planners/aceso/aceso.h"
#include "planners/amp/amp.h"
#include "planners/nnscaler/nnscaler.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"

namespace planners::price_test {

// One GPU, or eight in every shape.
trials::SearchSpace Space() {
  auto configs =
      fakes::Grid({{"tp", {1, 2, 4, 8}}, {"pp", {1, 2, 4, 8}}}, {}, 8);
  for (trials::ParallelConfig& config : configs) {
    config.microbatches = config.pp > 1 ? 8 : 1;
  }
  configs.insert(configs.begin(), trials::ParallelConfig{});
  return trials::SearchSpace(configs);
}

// The GPUs of the first trial, where a step costs its time or, with a price,
// the time of its GPUs.
template <typename MakeMethod>
int GpusOfTheFirstTrial(bool priced, const MakeMethod& make) {
  const trials::SearchSpace space = Space();
  const trials::Workload workload = fakes::Decoder{}.Workload();
  methods::Problem problem{
      .space = &space,
      .machine = {{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 400e9},
                  {1, 8}},
      .workload = &workload,
      .q_max = 10};
  problem.weight.machine_gpus = priced ? 8 : 0;
  return trials::GpusOf(space[make(problem)->Suggest()->candidate]);
}

// Eight GPUs take more than an eighth of the time of one, as they communicate:
// they are faster, and one GPU is cheaper.
TEST(Price, DecidesHowManyGpusAPlannerUses) {
  const auto expect = [](const auto& options) {
    const auto make = [&](const methods::Problem& problem) {
      return TryPlans(problem, options, 1);
    };
    EXPECT_EQ(GpusOfTheFirstTrial(false, make), 8);
    EXPECT_EQ(GpusOfTheFirstTrial(true, make), 1);
  };
  AcesoMethodOptions aceso;
  aceso.search.budget = 50;
  expect(aceso);
  expect(AmpOptions());
  expect(NnScalerOptions());
}

}  // namespace planners::price_test
