#include "jobs/plan/forecast.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "jobs/plan/advice.h"
#include "tests/fakes/error_of.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::forecast_test {

using testing::AllOf;
using testing::HasSubstr;

// The question of the README: Llama-3-8B on 16 H100.
TEST(Forecast, OffersDataParallelismWithAccumulationOnSixteenH100) {
  const Forecaster planner(LlamaJob("fsdp2"), {});
  const Forecast plan = planner.MakeForecast();
  ASSERT_FALSE(plan.layouts.empty());
  const bool offered = std::any_of(
      plan.layouts.begin(), plan.layouts.end(), [](const Layout& layout) {
        const trials::ParallelConfig& c = layout.best.config;
        return c.dp == 16 && c.zero_stage == 3 && c.microbatches > 1;
      });
  EXPECT_TRUE(offered);
  for (const Layout& layout : plan.layouts) {
    EXPECT_LE(layout.best.peak_memory_bytes, planner.AllowedBytes());
    EXPECT_GE(layout.best.fit_probability, 0.5);
  }
}

TEST(Forecast, HasEachLayoutOnceFastestFirst) {
  const Forecaster planner(LlamaJob("megatron-core"), {});
  const Forecast plan = planner.MakeForecast();
  std::set<std::string> names;
  double last_s = 0.0;
  for (const Layout& layout : plan.layouts) {
    EXPECT_TRUE(names.insert(LayoutName(layout.best.config)).second)
        << LayoutName(layout.best.config);
    EXPECT_GE(layout.best.step_time_s, last_s);
    last_s = layout.best.step_time_s;
  }
}

TEST(Forecast, CountsEveryConfigurationThatIsNotOffered) {
  const Forecaster planner(LlamaJob("megatron-core"), {});
  const Forecast plan = planner.MakeForecast();
  int offered = 0;
  for (const Layout& layout : plan.layouts) {
    offered += layout.configurations;
  }
  std::int64_t memory = 0;
  for (const Excluded& excluded : plan.excluded) {
    if (excluded.reason.find("memory") != std::string::npos) {
      memory += excluded.count;
    }
  }
  EXPECT_EQ(offered + memory, plan.candidates);
}

TEST(Forecast, MoreHeadroomOffersLess) {
  const Forecaster all(LlamaJob(), {.headroom = 0.0});
  const Forecaster half(LlamaJob(), {.headroom = 0.5});
  EXPECT_GT(all.MakeForecast().layouts.size(),
            half.MakeForecast().layouts.size());
}

TEST(Forecast, WhyNamesTheReasonTheMemoryOrTheLossOfSpeed) {
  const Forecaster planner(LlamaJob("fsdp2"), {});
  const Forecast plan = planner.MakeForecast();
  const auto why = [&](const std::string& config) {
    return Why(planner, plan, config);
  };
  EXPECT_THAT(why("dp=16,zero_stage=1,mbs=1"),
              AllOf(HasSubstr("fully_shard always shards gradients and "
                              "optimizer states together"),
                    HasSubstr("the nearest that is offered: dp=16 ZeRO-")));
  EXPECT_THAT(why("dp=2,pp=8,zero_stage=1"),
              HasSubstr("fully_shard always shards"))
      << "the other values do not break a rule";
  EXPECT_THAT(why("dp=3,tp=2"), HasSubstr("must be the number of GPUs"));
  EXPECT_THAT(why("dp=16,zero_stage=3,mbs=16"),
              AllOf(HasSubstr("not offered: it needs"),
                    HasSubstr("the nearest that is offered: dp=16 ZeRO-3")));
  EXPECT_THAT(why("dp=2,tp=8,sp=8,zero_stage=3,mbs=1"),
              HasSubstr("% slower than dp=16 ZeRO-3"));
  EXPECT_THAT(why(ToString(plan.layouts.front().best.config)),
              HasSubstr("the fastest"));
  EXPECT_THROW((void)why("dq=3"), common::InputError);
  EXPECT_THAT(why("dp=16,model_chunks=2"),
              AllOf(HasSubstr("note: model_chunks=2 is ignored"),
                    HasSubstr("the fastest")))
      << "what has no effect does not bring default microbatches with it";
  // A line of the plan, as printed.
  EXPECT_THAT(why("dp=16 ZeRO-3: compute 93%, links (data) 7%"),
              HasSubstr("the fastest"));
  // Values that are not named are the best ones, and every layout has its name.
  EXPECT_THAT(why("dp=16"), HasSubstr("the fastest"));
  for (const Layout& layout : plan.layouts) {
    EXPECT_THAT(why(LayoutName(layout.best.config)),
                HasSubstr(ToString(layout.best.config) + "\n"));
  }
}

// The values that a user does not name follow, so that none of them is refused.
TEST(Forecast, WhyRefusesOnlyNamedValues) {
  const Forecaster planner(LlamaJob("megatron-core"), {});
  const Forecast plan = planner.MakeForecast();
  const auto why = [&](const std::string& config) {
    return Why(planner, plan, config);
  };
  EXPECT_THAT(why("mbs=7"), HasSubstr("dp * micro_batch_size must divide"));
  EXPECT_THAT(why("mbs=64"), HasSubstr(" s per step"));
  EXPECT_THAT(why("microbatches=1,ep=8"),
              HasSubstr("ep must divide the number of experts"));
  EXPECT_THAT(why("pp=16,microbatches=4"), HasSubstr("1F1B needs"));
}

// A change of the request that the answer names gives a layout.
TEST(Forecast, WhereNothingIsOfferedTheNamedChangesWork) {
  Job job = LlamaJob("deepspeed");  // data parallelism only
  job.workload.batch_size = 250;
  EXPECT_THROW(Forecaster(job, {}), common::InputError);
  EXPECT_THAT(WorkingChanges(job, {}), HasSubstr("--batch 256 ("));
  job.workload.batch_size = 256;
  EXPECT_FALSE(Forecaster(job, {}).MakeForecast().layouts.empty());

  Job replicated = LlamaJob("hf-trainer");
  EXPECT_TRUE(Forecaster(replicated, {}).MakeForecast().layouts.empty());
  EXPECT_THAT(WorkingChanges(replicated, {}),
              AllOf(HasSubstr("--framework torchtitan"),
                    testing::Not(HasSubstr("--gpus"))))
      << "replicas need the same memory on any number of GPUs";
}

TEST(Forecast, MoreGpusAreThoseOfTheNodeFirst) {
  Job job = LlamaJob("fsdp2", 1);
  job.cluster = WithSize(job.cluster, {1, 1});
  EXPECT_TRUE(Forecaster(job, {}).MakeForecast().layouts.empty());
  EXPECT_THAT(WorkingChanges(job, {}), HasSubstr("--gpus 1x"));
}

TEST(Forecast, FusedAttentionHasNoSelectiveRecomputationThatSavesNothing) {
  const auto has_selective = [](const Job& job) {
    const trials::SearchSpace space = JobSpace(job);
    return std::ranges::any_of(space.configs(), [](const auto& config) {
      return config.grad_checkpoint == trials::kRecomputeSelective;
    });
  };
  Job job = LlamaJob("megatron-core");
  EXPECT_FALSE(has_selective(job));
  job.framework.framework.kernels.flash_attention = false;  // stores scores
  EXPECT_TRUE(has_selective(job));
  EXPECT_TRUE(has_selective(LlamaJob("fsdp2")));  // by operator
}

TEST(Advice, TheUnknownThatChangesTheChoiceDoesSoWhereItSays) {
  const Forecaster planner(LlamaJob("megatron-core"), {});
  const Forecast plan = planner.MakeForecast();
  const std::string text = AdviceText(planner, plan);
  EXPECT_THAT(text, AllOf(HasSubstr("one step away in any parameter: at worst"),
                          HasSubstr("the order of sums")));
  // It names the link if and only if a link 3.7 times as fast makes another
  // layout more than 1% faster.
  const trials::ParallelConfig chosen = plan.layouts.front().best.config;
  Job fast = LlamaJob("megatron-core");
  fast.cluster.intra.bandwidth_bytes_per_s *= 3.7;
  const Forecaster other(fast, {});
  const bool changes =
      other.Predict(chosen).step_time_s >
      1.01 * other.MakeForecast().layouts.front().best.step_time_s;
  EXPECT_EQ(text.find("the link in a node above") != std::string::npos, changes)
      << text;
}

TEST(Advice, AllocatedReservedAndDeviceMemoryAscend) {
  const Forecaster planner(LlamaJob(), {});
  const Prediction best = planner.MakeForecast().layouts.front().best;
  double allocated = 0.0;
  double reserved = 0.0;
  double device = 0.0;
  ASSERT_EQ(std::sscanf(MemoryText(planner, best).c_str(),
                        "its memory: %lf GB allocated, %lf GB reserved by the "
                        "allocator, %lf GB on the device",
                        &allocated, &reserved, &device),
            3);
  EXPECT_LT(allocated, reserved);
  EXPECT_LT(reserved, device);
  EXPECT_NEAR(device, best.peak_memory_bytes / 1e9, 0.051);
}

TEST(Forecast, SharesAddUpToTheStep) {
  const Forecaster planner(LlamaJob("megatron-core"), {});
  const trials::ParallelConfig config =
      planner.MakeForecast().layouts.front().best.config;
  double sum = 0.0;
  for (const auto& [name, share] : SharesOf(planner.Report(config).time)) {
    sum += share;
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

// 6 N + 12 l h s FLOP per token, with N without the embedding.
TEST(Efficiency, FlopPerTokenOfLlama3) {
  const double parameters = 8030261248.0 - 128256.0 * 4096.0;
  EXPECT_NEAR(FlopPerToken(LlamaJob().workload),
              6.0 * parameters + 12.0 * 32 * 4096 * 8192, 1e6);
}

TEST(Efficiency, AFullyUsedGpuHasAUtilizationOfOne) {
  const Job job = LlamaJob();
  const double tokens = 256.0 * 8192.0;
  const double step_time_s =
      FlopPerToken(job.workload) * tokens / (16 * 989.4e12);
  EXPECT_NEAR(ModelFlopUtilization(job.workload, job.cluster, step_time_s), 1.0,
              1e-9);
}

TEST(Efficiency, AMixtureOfExpertsCountsTheExpertsOfAToken) {
  trials::Workload workload = LlamaJob().workload;
  const double dense = FlopPerToken(workload);
  workload.model.experts = 8;
  workload.model.experts_per_token = 1;
  EXPECT_NEAR(FlopPerToken(workload) / dense, 1.0, 1e-3);  // and the router
}

TEST(Job, AModelCanBeAFileAFolderOrSizes) {
  const trials::Model file = FindModel(Llama8b());
  const trials::Model sizes = FindModel(
      "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256");
  EXPECT_EQ(ParameterCount(sizes), ParameterCount(file));
  const auto reason = [](const std::string& text) {
    return fakes::ErrorOf([&] { return FindModel(text); });
  };
  EXPECT_THAT(reason("layers=32"), HasSubstr("hidden is missing"));
  EXPECT_THAT(reason("layer=32"), HasSubstr("unknown size 'layer'"));
  EXPECT_THAT(reason("layers=0"), HasSubstr("invalid value '0' for layers"));
  EXPECT_THAT(reason("none.json"), HasSubstr("there is no file 'none.json'"));
  EXPECT_THAT(reason(fakes::SourceFolder().string()),
              HasSubstr("the folder contains no config.json"));
}

TEST(Job, AFrameworkIsFoundByItsAdapterAndByItsOwnName) {
  EXPECT_EQ(FindFramework("torchtitan").name, "fsdp2");
  EXPECT_EQ(FindFramework("fsdp2").adapter->name(), "torchtitan");
  EXPECT_EQ(FindFramework("hf-trainer").name, "fsdp2-accelerate");
  EXPECT_TRUE(FindFramework("hf-trainer").framework.sharding.no_sync);
  EXPECT_FALSE(FindFramework("colossalai").adapter);
  EXPECT_THAT(fakes::ErrorOf([&] { return FindFramework("torchtitann"); }),
              HasSubstr("torchtitan"));
}

TEST(Forecast, APlanHasOnlyWhatTheAdapterCanSet) {
  const Forecaster planner(LlamaJob("deepspeed"), {});
  for (const trials::ParallelConfig& config : planner.space().configs()) {
    EXPECT_EQ(config.dp, 16);
  }
}

}  // namespace jobs::forecast_test
