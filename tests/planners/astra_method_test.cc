// ASTRA as a method.

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "planners/astra/astra.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/methods/trials.h"

namespace planners::astra_method_test {

using testing::HasSubstr;
using trials::ParallelConfig;

class AstraMethod : public testing::Test {
 protected:
  AstraMethod() : space_(Configs()) {
    problem_.space = &space_;
    problem_.machine =
        trials::GpuType{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 16e9};
    problem_.q_max = 10;
    problem_.workload = &workload_;
  }

  static std::vector<ParallelConfig> Configs() {
    auto configs = fakes::Grid({{"tp", {1, 2, 4, 8}},
                                {"pp", {1, 2, 4, 8}},
                                {"grad_checkpoint", {0, 1, 2}}},
                               {.microbatches = 8}, 8);
    for (ParallelConfig& config : configs) {
      config.zero_stage = config.dp > 1 ? 1 : 0;
    }
    return configs;
  }

  // All candidates in the order in which the method tries them.
  [[nodiscard]] std::vector<int> OrderOf(
      const AstraMethodOptions& options) const {
    return tests::TryAll(*TryPlans(problem_, options, 1), space_,
                         [](int) { return tests::OutOfMemory(); });
  }

  trials::Workload workload_ = fakes::Decoder{}.Workload();
  trials::SearchSpace space_;
  methods::Problem problem_;
};

TEST_F(AstraMethod, TriesWhatPassesItsFiltersInTheOrderOfItsEstimates) {
  const AstraMethodOptions options;
  const trials::Predictions estimates = EstimatesOf(problem_, options);
  std::vector<int> passing;
  int excessive = 0;
  for (int i = 0; i < space_.size(); ++i) {
    if (space_[i].grad_checkpoint != trials::kRecomputeSelective) {
      const bool fits = estimates.peak_memory_bytes[i] <=
                        0.9 * problem_.machine.memory_bytes();
      fits ? passing.push_back(i) : void(++excessive);
    }
  }
  ASSERT_GT(passing.size(), 2U);
  ASSERT_GT(excessive, 0);
  const std::vector<int> order = OrderOf(options);
  ASSERT_EQ(order.size(), static_cast<std::size_t>(space_.size()));
  const auto end = order.begin() + std::ssize(passing);
  EXPECT_TRUE(std::is_permutation(order.begin(), end, passing.begin()));
  EXPECT_TRUE(std::ranges::is_sorted(
      order.begin(), end, {}, [&](int i) { return estimates.step_time_s[i]; }));
}

TEST_F(AstraMethod, EstimatesAreThoseOfItsModelWithTheseSpeeds) {
  problem_.machine =
      trials::GpuType{.gpus = 8, .gpus_per_node = 4, .memory_bytes = 16e9};
  const AstraModel model(workload_,
                         {.gpus_per_node = 4,
                          .flops_per_s = 100e12,
                          .intra_node_bytes_per_s = 200e9,
                          .inter_node_bytes_per_s = 3e9,
                          .flash_attention = false},
                         AnalyticEfficiency(0.77));
  const trials::Predictions estimates =
      EstimatesOf(problem_, AstraMethodOptions{.tflops = 100.0,
                                               .intra_node_gb_per_s = 200.0,
                                               .inter_node_gb_per_s = 3.0,
                                               .flash_attention = false});
  for (int i = 0; i < space_.size(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const AstraCost cost = model.Cost(space_[i]);
    EXPECT_DOUBLE_EQ(estimates.step_time_s[k], cost.step_time_s);
    EXPECT_DOUBLE_EQ(estimates.peak_memory_bytes[k], cost.peak_memory_bytes);
  }
}

// Its model sees no buckets, so the best strategy would fill the first trials.
TEST_F(AstraMethod, EachStrategyIsTriedOnceBeforeItsBucketsAndOverlaps) {
  std::vector<ParallelConfig> configs;
  for (const int microbatches : {2, 4}) {
    for (const int bucket : {1, 24, 64}) {
      for (const bool overlap : {false, true}) {
        configs.push_back({.dp = 8,
                           .zero_stage = 1,
                           .zero_bucket_mb = bucket,
                           .overlap_zero_comm = overlap,
                           .overlap_zero_allgather = overlap,
                           .microbatches = microbatches});
      }
    }
  }
  space_ = trials::SearchSpace(configs);
  const std::vector<int> order = OrderOf({});
  ASSERT_EQ(order.size(), configs.size());
  std::set<int> microbatches;
  for (int i = 0; i < 2; ++i) {
    const ParallelConfig& config = space_[order[i]];
    microbatches.insert(config.microbatches);
    EXPECT_EQ(config.zero_bucket_mb, 24);
    EXPECT_TRUE(config.overlap_zero_comm && config.overlap_zero_allgather);
  }
  EXPECT_EQ(microbatches.size(), 2U);
}

TEST_F(AstraMethod, FlashAttentionLeavesSelectiveRecomputationOut) {
  const auto last = [this](bool flash) {
    return space_[OrderOf({.flash_attention = flash}).back()].grad_checkpoint;
  };
  EXPECT_EQ(last(true), trials::kRecomputeSelective);
  EXPECT_NE(last(false), trials::kRecomputeSelective);
}

TEST_F(AstraMethod, WhatARuleMatchesIsTriedLast) {
  const AstraMethodOptions options{.rules =
                                       "$tp > 1 && $num_gpus == 8 || $pp == 8"};
  const std::vector<int> order = OrderOf(options);
  const auto matches = [this](int candidate) {
    const ParallelConfig& config = space_[candidate];
    return config.tp > 1 || config.pp == 8 ||
           config.grad_checkpoint == trials::kRecomputeSelective;
  };
  EXPECT_TRUE(std::is_partitioned(order.begin(), order.end(),
                                  [&](int i) { return !matches(i); }));
  EXPECT_FALSE(matches(order.front()));
}

// Mode 3: what costs more than the limit comes last.
TEST_F(AstraMethod, StrategiesWithinTheLimitOfMoneyAreTriedFirst) {
  AstraMethodOptions options;
  options.price_per_hour = 2.0;
  options.steps = 1000.0;
  const trials::Predictions estimates = EstimatesOf(problem_, options);
  const auto money = [&](int candidate) {
    return 1000.0 * estimates.step_time_s[candidate] / 3600.0 * 8 * 2.0;
  };
  const std::vector<int> unlimited = OrderOf(options);
  options.most_money = 0.5 * (money(unlimited[1]) + money(unlimited[2]));
  const std::vector<int> order = OrderOf(options);
  EXPECT_EQ(order[0], unlimited[0]);
  EXPECT_EQ(order[1], unlimited[1]);
  EXPECT_EQ(order.size(), unlimited.size());
  for (int i = 2; i < static_cast<int>(order.size()); ++i) {
    EXPECT_TRUE(money(order[i]) > options.most_money ||
                estimates.peak_memory_bytes[order[i]] > 0.9 * 16e9 ||
                space_[order[i]].grad_checkpoint == trials::kRecomputeSelective)
        << i;
  }
}

// Products of narrow matrices, which tensor parallelism makes, are efficient.
TEST_F(AstraMethod, LearnsTheEfficiencyOfProductsFromATable) {
  const fakes::TemporaryFolder folder;
  std::string text = "gpu,operator,shape,efficiency\n";
  for (int m = 256; m <= 65'536; m *= 2) {
    for (int n = 128; n <= 65'536; n *= 2) {
      for (int k = 128; k <= 16'384; k *= 4) {
        text += "X,matmul,\"m=" + std::to_string(m) +
                ", n=" + std::to_string(n) + ", k=" + std::to_string(k) +
                "\"," + (n <= 1024 ? "0.9" : "0.05") + "\n";
      }
    }
  }
  fakes::WriteFile(folder.path() / "t.csv", text);
  AstraMethodOptions options{.intra_node_gb_per_s = 1e5};
  const int analytic = space_[OrderOf(options).front()].tp;
  options.efficiencies = (folder.path() / "t.csv").string();
  options.efficiency_gpu = "X";
  EXPECT_GT(space_[OrderOf(options).front()].tp, analytic);
}

TEST_F(AstraMethod, MistakesAreErrorsThatNameThem) {
  const auto make = [this](const AstraMethodOptions& options) {
    return [this, options] { (void)TryPlans(problem_, options, 1); };
  };
  EXPECT_THAT(make({.rules = "$tpp > 1"}),
              testing::ThrowsMessage<common::InputError>(HasSubstr("tpp")));
  EXPECT_THROW(make({.efficiencies = "none.csv"})(), common::InputError);
  problem_.workload = nullptr;
  EXPECT_THAT(make({}), testing::ThrowsMessage<common::InputError>(
                            HasSubstr("add [workload] to the manifest")));
}

}  // namespace planners::astra_method_test
