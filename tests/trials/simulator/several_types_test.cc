// Clusters with several GPU types: limits in which the result is known.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/trials/simulator/problem.h"
#include "trials/search_space.h"
#include "trials/simulator/simulator.h"

namespace trials::several_types_test {

using ::testing::HasSubstr;

Cluster Hosts(int nodes) {
  Cluster cluster = SmallCluster();
  cluster.nodes = nodes;
  return cluster;
}

// The same links, and half of the rates.
Cluster SlowHosts(int nodes) {
  Cluster cluster = Hosts(nodes);
  cluster.name = "slow";
  cluster.gpu.half_flop_per_s /= 2;
  cluster.gpu.single_flop_per_s /= 2;
  cluster.gpu.memory_bandwidth_bytes_per_s /= 2;
  return cluster;
}

Simulator::Options PipelineOutermost() {
  Simulator::Options options;
  options.framework.pipeline.pipeline_outermost = true;
  return options;
}

Simulator On(const std::vector<Cluster>& gpu_types) {
  return {SmallWorkload(), gpu_types, PipelineOutermost()};
}

// Configurations of 16 GPUs whose stages have 8 or fewer.
std::vector<ParallelConfig> Configs() {
  SearchSpaceOptions options;
  options.values = {{"dp_bucket_mb", {25}},
                    {"zero_bucket_mb", {24}},
                    {"microbatches", {4, 8}},
                    {"overlap_zero_allgather", {0}}};
  options.rules = {Rule::Parse("8 % ($dp * $cp * $tp) != 0", "test", "test")};
  return SearchSpace::Enumerate(SmallWorkload(), 16, options).configs();
}

TEST(SeveralTypes, TwoGroupsOfTheSameGpuAreTheHomogeneousClusterExactly) {
  const Simulator one = On({Hosts(4)});
  const Simulator two = On({Hosts(2), Hosts(2)});
  const std::vector<ParallelConfig> configs = Configs();
  ASSERT_GT(configs.size(), 100U);
  for (const ParallelConfig& config : configs) {
    EXPECT_EQ(one.Simulate(config), two.Simulate(config)) << ToString(config);
  }
  EXPECT_EQ(one.SetupTime(), two.SetupTime());
}

TEST(SeveralTypes, APlanOfUnequalStagesOnTwoEqualGroupsIsThatOfOneGroup) {
  Plan plan =
      UniformPlan(ParseParallelConfig("dp=4,pp=4,microbatches=8,zero_stage=1"),
                  std::vector<int>{1, 2, 3, 2});
  plan.stages[1].recomputed_layers = 1;
  // A stage of tp 2 after one of dp 4: between groups, hidden states move.
  plan.stages[2] = {.dp = 2, .tp = 2};
  plan.stages[3] = {.dp = 2, .tp = 2};
  const StepReport one = On({Hosts(4)}).Simulate(plan);
  FillTypes(std::vector<int>{8, 8}, plan);
  EXPECT_EQ(plan.stages[1].gpu_type, 0);
  EXPECT_EQ(plan.stages[2].gpu_type, 1);
  EXPECT_EQ(On({Hosts(2), Hosts(2)}).Simulate(plan), one);
}

TEST(SeveralTypes, ASlowerGroupMakesAStepSlowerAndNotSlowerThanAllOfIt) {
  const Simulator fast = On({Hosts(4)});
  const Simulator mixed = On({Hosts(2), SlowHosts(2)});
  const Simulator slow = On({SlowHosts(4)});
  for (const ParallelConfig& config : Configs()) {
    const double mixed_s = mixed.Simulate(config).step_time_s;
    EXPECT_GT(mixed_s, fast.Simulate(config).step_time_s) << ToString(config);
    EXPECT_LE(mixed_s, slow.Simulate(config).step_time_s * (1.0 + 1e-12))
        << ToString(config);
  }
}

TEST(SeveralTypes, EachStageHasTheMemoryOfItsOwnGpus) {
  const ParallelConfig config = ParseParallelConfig("dp=8,pp=2,microbatches=4");
  Plan plan = UniformPlan(config, std::vector<int>{6, 2});
  FillTypes(std::vector<int>{8, 8}, plan);
  const auto fits = [&](double first_bytes, double second_bytes) {
    std::vector<Cluster> gpu_types = {Hosts(2), Hosts(2)};
    gpu_types[0].gpu.memory_bytes = first_bytes;
    gpu_types[1].gpu.memory_bytes = second_bytes;
    return On(gpu_types).Simulate(plan);
  };
  const double first = fits(24e9, 1e12).peak_memory_bytes;
  const double second = fits(1e12, 24e9).peak_memory_bytes;
  ASSERT_NE(first, second);
  const double usable = Framework{}.allocator.usable_memory;
  const double room = 1.01 / usable;
  EXPECT_TRUE(fits(first * room, second * room).fits);
  EXPECT_FALSE(fits(first * 0.9, second * room).fits);
  const StepReport report = fits(first * room, second * 0.9);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.peak_rank, 8);  // the first GPU of the second type
}

TEST(SeveralTypes, TheJoiningNetworkIsThatBetweenGroupsOnly) {
  const auto time_s = [](double outer_bytes_per_s,
                         std::vector<int> gpu_types_of) {
    std::vector<Cluster> gpu_types = {Hosts(4), Hosts(4)};
    for (Cluster& gpu_type : gpu_types) {
      gpu_type.outer = {"join", outer_bytes_per_s, 30e-6};
    }
    Plan plan = UniformPlan(ParseParallelConfig("dp=4,pp=4,microbatches=8"), 8);
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].gpu_type = gpu_types_of[s];
    }
    return On(gpu_types).Simulate(plan).step_time_s;
  };
  const double inter = SmallCluster().inter.bandwidth_bytes_per_s;
  EXPECT_GT(time_s(inter / 4, {0, 0, 1, 1}), time_s(inter, {0, 0, 1, 1}));
  EXPECT_EQ(time_s(inter / 4, {0, 0, 0, 0}), time_s(inter, {0, 0, 0, 0}));
  // Without one, the slower network of both groups.
  EXPECT_EQ(time_s(0.0, {0, 0, 1, 1}), time_s(inter, {0, 0, 1, 1}));
}

TEST(SeveralTypes, AConfigurationWhoseStageWouldHaveTwoTypesIsRejected) {
  const Simulator simulator = On({Hosts(2), SlowHosts(2)});
  EXPECT_THAT(
      fakes::ErrorOf([&] {
        return simulator.Simulate(ParseParallelConfig("dp=16,microbatches=2"));
      }),
      testing::AllOf(HasSubstr("stage 0 would have GPUs of two types"),
                     HasSubstr("must divide those of each type (8, 8)")));
}

}  // namespace trials::several_types_test
