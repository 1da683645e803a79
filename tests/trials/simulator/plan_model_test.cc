#include "trials/simulator/plan_model.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"

namespace trials::plan_model_test {

// What contention adds to a step in which every tensor-parallel message takes a
// second to issue. Hosts have four GPUs.
double Contention(const char* config, int nodes,
                  bool pipeline_outermost = false) {
  const auto time_s = [&](double contention) {
    Framework framework;
    framework.collectives.message_dispatch_s = 1.0;
    framework.pipeline.pipeline_outermost = pipeline_outermost;
    framework.collectives.network_contention = contention;
    Cluster cluster = SmallCluster();
    cluster.nodes = nodes;
    PlanModel model(SmallWorkload(), {cluster}, framework);
    return model.StageCosts(model.PlanOf(ParseParallelConfig(config)))
        .back()
        .end_s;
  };
  return time_s(10.0) - time_s(0.0);
}

TEST(PlanModel, OnlyAPipelineBetweenHostsContendsForTheNetwork) {
  EXPECT_EQ(Contention("tp=2,pp=2,microbatches=2", 1), 0.0);
  EXPECT_EQ(Contention("tp=8", 2), 0.0);
  EXPECT_EQ(Contention("tp=8", 2, /*pipeline_outermost=*/true), 0.0);
  EXPECT_GT(Contention("tp=2,pp=4,microbatches=4", 2), 1.0);
  EXPECT_GT(Contention("tp=4,pp=2,microbatches=4", 2), 1.0);
}

// The head of SmallLlama is worth several blocks, which the last of four
// virtual stages lacks.
TEST(PlanModel, BalancedStagesShareTheLayersOfAllVirtualStages) {
  Framework framework;
  framework.pipeline.balance_stages = true;
  const PlanModel model(SmallWorkload(), {SmallCluster()}, framework);
  const std::vector<int> layers =
      model.PlanOf(ParseParallelConfig("pp=2,microbatches=2,model_chunks=2"))
          .layers;
  ASSERT_EQ(layers.size(), 4);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 8);
  EXPECT_LT(layers.back(), layers.front());
}

}  // namespace trials::plan_model_test
