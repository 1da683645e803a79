#include "jobs/plan/forecast.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/job_fixture.h"
#include "trials/flop.h"

namespace jobs::forecast_test {

using testing::HasSubstr;

// The question of the README: Llama-3-8B on 16 H100.
TEST(Forecast, OffersDataParallelismWithAccumulationOnSixteenH100) {
  const auto& [forecaster, forecast] = PlannedLlama("fsdp2");
  ASSERT_FALSE(forecast.layouts.empty());
  const bool offered = std::any_of(
      forecast.layouts.begin(), forecast.layouts.end(),
      [](const Layout& layout) {
        const trials::ParallelConfig& c = layout.best.config;
        return c.dp == 16 && c.zero_stage == 3 && c.microbatches > 1;
      });
  EXPECT_TRUE(offered);
  for (const Layout& layout : forecast.layouts) {
    EXPECT_LE(layout.best.peak_memory_bytes, forecaster.AllowedBytes());
    EXPECT_GE(layout.best.fit_probability, 0.5);
  }
}

TEST(Forecast, HasEachLayoutOnceFastestFirst) {
  const Forecast& forecast = PlannedLlama("megatron-core").forecast;
  std::set<std::string> names;
  double last_s = 0.0;
  for (const Layout& layout : forecast.layouts) {
    EXPECT_TRUE(names.insert(LayoutName(layout.best.config)).second)
        << LayoutName(layout.best.config);
    EXPECT_GE(layout.best.step_time_s, last_s);
    last_s = layout.best.step_time_s;
  }
}

TEST(Forecast, CountsEveryConfigurationThatIsNotOffered) {
  const Forecast& forecast = PlannedLlama("megatron-core").forecast;
  int offered = 0;
  for (const Layout& layout : forecast.layouts) {
    offered += layout.configurations;
  }
  std::int64_t memory = 0;
  for (const Excluded& excluded : forecast.excluded) {
    if (excluded.reason.find("memory") != std::string::npos) {
      memory += excluded.count;
    }
  }
  EXPECT_EQ(offered + memory, forecast.candidates);
}

TEST(Forecast, MoreHeadroomOffersLess) {
  const Forecaster all(LlamaJob(), {.headroom = 0.0});
  const Forecaster half(LlamaJob(), {.headroom = 0.5});
  EXPECT_GT(all.MakeForecast().layouts.size(),
            half.MakeForecast().layouts.size());
}

TEST(Forecast, SharesAddUpToTheStep) {
  const Planned& plan = PlannedLlama("megatron-core");
  double sum = 0.0;
  double last = 1.0;
  for (const auto& [name, share] :
       SharesOf(plan.forecaster.Report(plan.best().config).time)) {
    sum += share;
    EXPECT_LE(share, last) << "the largest first";
    last = share;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

// 6 N + 12 l h s FLOP per token, with N without the embedding.
TEST(Efficiency, FlopPerTokenOfLlama3) {
  const double parameters = 8030261248.0 - 128256.0 * 4096.0;
  EXPECT_NEAR(trials::FlopPerToken(LlamaJob().workload),
              6.0 * parameters + 12.0 * 32 * 4096 * 8192, 1e6);
}

// Forward, a token updates and reads every number of a state.
TEST(Efficiency, AScanCountsItsStatesAndNotTheSequence) {
  trials::Workload workload = LlamaJob().workload;
  workload.model.attention = false;
  workload.model.state_heads = 64;
  workload.model.state_inner = 8192;
  const double without = trials::FlopPerToken(workload);
  workload.model.state_size = 128;
  EXPECT_NEAR(trials::FlopPerToken(workload) - without, 12.0 * 32 * 128 * 8192,
              1e6);
  const double before = trials::FlopPerToken(workload);
  workload.sequence_length *= 2;
  EXPECT_EQ(trials::FlopPerToken(workload), before);
}

TEST(Efficiency, AFullyUsedGpuHasAUtilizationOfOne) {
  const Job job = LlamaJob();
  const double tokens = 256.0 * 8192.0;
  const double step_time_s =
      trials::FlopPerToken(job.workload) * tokens / (16 * 989.4e12);
  EXPECT_NEAR(
      trials::ModelFlopUtilization(job.workload, job.cluster, step_time_s), 1.0,
      1e-9);
}

TEST(Efficiency, AMixtureOfExpertsCountsTheExpertsOfAToken) {
  trials::Workload workload = LlamaJob().workload;
  const double dense = trials::FlopPerToken(workload);
  workload.model.experts = 8;
  workload.model.experts_per_token = 1;
  EXPECT_NEAR(trials::FlopPerToken(workload) / dense, 1.0,
              1e-3);  // and the router
}

TEST(Forecast, TheSmallestCandidateNeedsNoMoreThanAnyLayout) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    const Forecast& forecast = PlannedLlama(framework).forecast;
    ASSERT_TRUE(forecast.smallest.has_value());
    for (const Layout& layout : forecast.layouts) {
      EXPECT_LE(forecast.smallest->peak_memory_bytes,
                layout.best.peak_memory_bytes);
    }
  }
}

TEST(Forecast, ReasonsAreInTheOrderOfTheirCountsAndNoneIsEmpty) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    std::int64_t last = std::numeric_limits<std::int64_t>::max();
    for (const Excluded& excluded : PlannedLlama(framework).forecast.excluded) {
      EXPECT_GT(excluded.count, 0) << excluded.reason;
      EXPECT_LE(excluded.count, last) << excluded.reason;
      EXPECT_FALSE(excluded.reason.empty());
      last = excluded.count;
    }
  }
}

TEST(Forecast, ARuleOfTheUserIsAReasonWithItsCount) {
  Job job = SmallJob("megatron-lm");
  const std::size_t before = JobSpace(job).configs().size();
  job.rules = {"$tp > 1"};
  const Planned plan(job);
  const auto& excluded = plan.forecast.excluded;
  const auto rule =
      std::ranges::find(excluded, "$tp > 1 (--rule)", &Excluded::reason);
  ASSERT_NE(rule, excluded.end());
  EXPECT_GE(rule->count,
            static_cast<std::int64_t>(
                before - plan.forecaster.space().configs().size()));
}

TEST(Forecast, ThroughputAndUtilizationFollowFromTheStep) {
  const Planned plan(SmallJob());
  const trials::Workload& workload = plan.forecaster.job().workload;
  for (const Layout& layout : plan.forecast.layouts) {
    const Prediction& one = layout.best;
    EXPECT_NEAR(one.tokens_per_s_per_gpu * 4 * one.step_time_s, 64.0 * 2048.0,
                1e-6);
    EXPECT_NEAR(
        one.mfu,
        trials::FlopPerToken(workload) * one.tokens_per_s_per_gpu / 989.4e12,
        1e-9);
  }
}

TEST(Forecaster, TheBestOfSomeIsTheFastestThatFitsElseTheSmallest) {
  const Planned& plan = PlannedLlama("fsdp2");
  const Forecaster& forecaster = plan.forecaster;
  std::vector<Prediction> large;
  std::vector<Prediction> fitting;
  for (const trials::ParallelConfig& config : forecaster.space().configs()) {
    const auto one = forecaster.BestOf({config});
    if (one) {
      (forecaster.Fits(*one) ? fitting : large).push_back(*one);
    }
  }
  ASSERT_GT(large.size(), 1U);
  ASSERT_GT(fitting.size(), 1U);
  const auto configs = [](const std::vector<Prediction>& of) {
    std::vector<trials::ParallelConfig> all;
    for (const Prediction& one : of) {
      all.push_back(one.config);
    }
    return all;
  };
  EXPECT_EQ(forecaster.BestOf(configs(large))->peak_memory_bytes,
            std::ranges::min(large, {}, &Prediction::peak_memory_bytes)
                .peak_memory_bytes);
  std::vector<trials::ParallelConfig> all = configs(large);
  all.push_back(fitting.back().config);
  EXPECT_EQ(forecaster.BestOf(all)->config, fitting.back().config);
  EXPECT_EQ(forecaster.BestOf(forecaster.space().configs())->step_time_s,
            plan.best().step_time_s);
  EXPECT_FALSE(forecaster.BestOf({}).has_value());
}

TEST(Forecaster, WhatTheFrameworkCannotRunIsRefusedAndNeverTheBest) {
  const Forecaster& forecaster = PlannedLlama("fsdp2").forecaster;
  const trials::ParallelConfig other{.dp = 3, .microbatches = 1};
  EXPECT_THROW((void)forecaster.Predict(other), trials::InvalidPlan);
  EXPECT_FALSE(forecaster.BestOf({other}).has_value());
}

TEST(Forecaster, HeadroomIsTheShareOfTheMemoryThatStaysFree) {
  const Job job = SmallJob();
  const double all = Forecaster(job, {.headroom = 0.0}).AllowedBytes();
  EXPECT_NEAR(all,
              job.cluster.gpu.memory_bytes *
                  job.framework.framework.allocator.usable_memory,
              1.0);
  EXPECT_NEAR(Forecaster(job, {.headroom = 0.25}).AllowedBytes(), 0.75 * all,
              1.0);
  Prediction one;
  one.peak_memory_bytes = 0.8 * all;
  EXPECT_TRUE(Forecaster(job, {.headroom = 0.15}).Fits(one));
  EXPECT_FALSE(Forecaster(job, {.headroom = 0.25}).Fits(one));
}

TEST(LayoutName, HasTheSizesAboveOneTheStageAndTheRecomputation) {
  EXPECT_EQ(LayoutName({}), "dp=1");
  EXPECT_EQ(LayoutName({.dp = 16, .zero_stage = 3}), "dp=16 ZeRO-3");
  EXPECT_EQ(LayoutName({.dp = 2,
                        .tp = 4,
                        .pp = 2,
                        .grad_checkpoint = trials::kRecomputeFull}),
            "dp=2 tp=4 pp=2 full recomputation");
  EXPECT_EQ(
      LayoutName({.tp = 8, .grad_checkpoint = trials::kRecomputeSelective}),
      "tp=8 selective recomputation");
}

TEST(Shares, TheThreeLargestAreNamedIfTheyAreWorthIt) {
  EXPECT_EQ(ToString(Shares{{"a", 0.5}, {"b", 0.3}, {"c", 0.1}, {"d", 0.1}}),
            "a 50%, b 30%, c 10%");
  EXPECT_EQ(ToString(Shares{{"a", 0.98}, {"b", 0.02}}), "a 98%");
  EXPECT_EQ(ToString(Shares{}), "");
}

TEST(Shares, ForwardBackwardAndHeadAreOneComputation) {
  trials::TimeBreakdown time;
  time.forward_s = 1.0;
  time.backward_s = 2.0;
  time.head_s = 1.0;
  time.data_s = 6.0;
  const Shares shares = SharesOf(time);
  EXPECT_EQ(shares[0].first, "links (data)");
  EXPECT_DOUBLE_EQ(shares[0].second, 0.6);
  EXPECT_EQ(shares[1].first, "compute");
  EXPECT_DOUBLE_EQ(shares[1].second, 0.4);
}

TEST(Efficiency, UtilizationCountsThePeakOfThePrecision) {
  Job job = LlamaJob();
  const auto utilization = [&](trials::Precision precision) {
    job.workload.precision = precision;
    return trials::ModelFlopUtilization(job.workload, job.cluster, 10.0);
  };
  const trials::Gpu& gpu = job.cluster.gpu;
  const double half = utilization(trials::Precision::kBf16);
  EXPECT_NEAR(utilization(trials::Precision::kFp32) / half,
              gpu.half_flop_per_s / gpu.single_flop_per_s, 1e-9);
  EXPECT_NEAR(utilization(trials::Precision::kFp8) / half,
              gpu.half_flop_per_s / gpu.fp8_flop_per_s, 1e-9);
  job.cluster.gpu.fp8_flop_per_s = 0.0;  // a GPU without
  EXPECT_DOUBLE_EQ(utilization(trials::Precision::kFp8), half);
}

TEST(Efficiency, ALocalAttentionSeesItsWindowOnly) {
  trials::Workload workload = LlamaJob().workload;
  const double full = trials::FlopPerToken(workload);
  workload.model.window = 1024;
  workload.model.windowed_share = 0.5;
  // Half of the blocks see 1024 of 8192 tokens.
  EXPECT_NEAR(full - trials::FlopPerToken(workload),
              12.0 * 32 * 4096 * 0.5 * (8192 - 1024), 1e6);
}

}  // namespace jobs::forecast_test
