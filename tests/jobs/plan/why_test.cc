#include "jobs/plan/why.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/plan/completion.h"
#include "jobs/plan/remedies.h"
#include "tests/fakes/error_of.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::why_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using trials::ParallelConfig;

std::vector<std::string> ViolationsOf(const Job& job,
                                      const ParallelConfig& config) {
  return Violations(job, config, JobRules(job));
}

TEST(Violations, AConfigurationOfTheSpaceHasNone) {
  for (const char* framework : {"fsdp2", "megatron-core", "deepspeed"}) {
    const Job job = LlamaJob(framework);
    const std::vector<trials::Rule> rules = JobRules(job);
    const trials::SearchSpace space = JobSpace(job);
    for (const ParallelConfig& config : space.configs()) {
      ASSERT_THAT(Violations(job, config, rules), IsEmpty())
          << framework << ": " << ToString(config);
    }
  }
}

TEST(Violations, AConstraintIsASentenceWithTheValuesThatItReads) {
  EXPECT_THAT(
      ViolationsOf(LlamaJob("megatron-core"),
                   {.dp = 3, .tp = 2, .microbatches = 1, .sp = 2}),
      testing::Contains("dp * tp * pp * cp must be the number of GPUs (cp = 1, "
                        "dp = 3, num_gpus = 16, pp = 1, tp = 2)"));
}

TEST(Violations, ARuleOfTheUserIsOneUntilItIsRemoved) {
  Job job = LlamaJob("megatron-core");
  const ParallelConfig config{
      .dp = 8, .tp = 2, .zero_stage = 1, .microbatches = 32, .sp = 2};
  EXPECT_THAT(ViolationsOf(job, config), IsEmpty());
  job.rules = {"$tp == 2", "$dp == 4"};
  EXPECT_THAT(ViolationsOf(job, config),
              testing::ElementsAre("$tp == 2 (--rule)"));
  job.rules = {"$tp == 2", "$dp == 8"};
  EXPECT_EQ(ViolationsOf(job, config).size(), 2U);
  job.rules.clear();
  EXPECT_THAT(ViolationsOf(job, config), IsEmpty());
}

TEST(Violations, ARuleOfTheFrameworkIsOneUntilItIsRemoved) {
  const Job job = LlamaJob("fsdp2");
  const ParallelConfig config{.dp = 16, .zero_stage = 1, .microbatches = 16};
  std::vector<trials::Rule> rules = JobRules(job);
  EXPECT_THAT(Violations(job, config, rules),
              testing::ElementsAre(HasSubstr("fully_shard always shards")));
  const auto known = trials::RuleContext(job.workload, job.cluster.gpus());
  std::erase_if(rules, [&](const trials::Rule& rule) {
    return rule.Matches(config, known);
  });
  EXPECT_THAT(Violations(job, config, rules), IsEmpty());
}

TEST(Violations, TensorWithoutSequenceParallelismBreaksTheRuleOfEveryPlan) {
  const Job job = LlamaJob("megatron-core");
  ParallelConfig config{.dp = 8, .tp = 2, .microbatches = 32};
  EXPECT_THAT(ViolationsOf(job, config),
              testing::ElementsAre(HasSubstr(JobRuleOrigin())));
  config.sp = 2;
  EXPECT_THAT(ViolationsOf(job, config), IsEmpty());
}

TEST(Violations, TheMicrobatchSizeThatDoesNotDivideTheBatchIsTheFirst) {
  ParallelConfig config{.dp = 16, .microbatches = 2, .micro_batch_size = 7};
  const auto violations = ViolationsOf(LlamaJob("megatron-core"), config);
  ASSERT_GT(violations.size(), 1U) << "the batch is not theirs, either";
  EXPECT_EQ(violations.front(),
            "dp * micro_batch_size must divide the batch size (batch_size = "
            "256, dp = 16, micro_batch_size = 7)");
  config.micro_batch_size = 8;
  EXPECT_THAT(ViolationsOf(LlamaJob("megatron-core"), config), IsEmpty());
}

TEST(Violations, WholeExpertsMayBeSpreadOverTensorParallelRanks) {
  Job job = LlamaJob("megatron-core");
  job.workload.model.experts = 8;
  job.workload.model.experts_per_token = 2;
  ParallelConfig config{.dp = 2, .tp = 8, .microbatches = 64};
  config.sp = config.ep = 8;
  const auto of_ep = testing::Contains(HasSubstr("ep must divide dp"));
  job.framework.framework.experts.whole_experts = true;
  EXPECT_THAT(ViolationsOf(job, config), Not(of_ep));
  job.framework.framework.experts.whole_experts = false;
  EXPECT_THAT(ViolationsOf(job, config), of_ep);
}

std::string WhyOf(const Planned& plan, const std::string& config) {
  return Why(plan.forecaster, plan.forecast, config);
}

std::string WhyOf(const std::string& config,
                  const std::string& framework = "fsdp2") {
  return WhyOf(PlannedLlama(framework), config);
}

TEST(Why, AnOfferedLayoutIsNeverSaidToBeNotOffered) {
  for (const char* framework : {"fsdp2", "megatron-core"}) {
    for (const Layout& layout : PlannedLlama(framework).forecast.layouts) {
      const ParallelConfig& config = layout.best.config;
      const std::string answer = WhyOf(LayoutName(config), framework);
      EXPECT_THAT(answer, AllOf(testing::StartsWith(ToString(config) + "\n"),
                                Not(HasSubstr("not offered"))));
    }
  }
}

TEST(Why, ALayoutIsSlowerThanTheFastestByTheRatioOfTheirSteps) {
  const auto& layouts = PlannedLlama().forecast.layouts;
  const std::string fastest = LayoutName(layouts.front().best.config);
  EXPECT_THAT(WhyOf(fastest), HasSubstr("\nthe fastest: "));
  for (const Layout& layout : layouts) {
    const double ratio =
        layout.best.step_time_s / layouts.front().best.step_time_s;
    if (ratio > 1.0) {
      EXPECT_THAT(WhyOf(LayoutName(layout.best.config)),
                  HasSubstr(fmt::format("{:.1f}% slower than {} (",
                                        100.0 * (ratio - 1.0), fastest)));
    }
  }
}

TEST(Why, ARuleIsTheReasonAndTheNearestIsNamed) {
  EXPECT_THAT(WhyOf("dp=16,zero_stage=1,mbs=1"),
              AllOf(HasSubstr("fully_shard always shards gradients and "
                              "optimizer states together"),
                    HasSubstr("the nearest that is offered: dp=16 ZeRO-")));
  EXPECT_THAT(WhyOf("dp=2,pp=8,zero_stage=1"),
              HasSubstr("fully_shard always shards"))
      << "the other values do not break a rule";
  EXPECT_THAT(WhyOf("dp=3,tp=2"), HasSubstr("must be the number of GPUs"));
}

TEST(Why, SequenceParallelismThatIsNamedOffIsNotTurnedOn) {
  EXPECT_THAT(WhyOf("dp=8,tp=2,sp=1,mbs=1", "megatron-core"),
              AllOf(HasSubstr("not offered"), HasSubstr(JobRuleOrigin())));
  EXPECT_THAT(WhyOf("dp=8,tp=2,mbs=1", "megatron-core"),
              Not(HasSubstr("not offered")));
}

TEST(Why, AValueThatNoPlanHasLeavesTheOtherValuesAsTheyWouldBe) {
  for (const char* off : {"overlap_zero_allgather=0", "zero_bucket_mb=24"}) {
    const std::string answer =
        WhyOf(fmt::format("dp=8,tp=2,mbs=1,{}", off), "megatron-core");
    EXPECT_THAT(answer, HasSubstr("zero_stage=1")) << off;
    EXPECT_THAT(answer, HasSubstr("s per step")) << off;
  }
  EXPECT_THAT(
      WhyOf("dp=8,tp=2,mbs=1,zero_stage=0,zero_bucket_mb=24", "megatron-core"),
      HasSubstr("zero_bucket_mb=24 is ignored"));
}

TEST(Why, WhatTheAdapterCannotSetIsNotOffered) {
  EXPECT_THAT(WhyOf("dp=4,pp=4,mbs=1", "hf-trainer-fsdp"),
              HasSubstr("hf-trainer-fsdp has no setting for pp"));
  EXPECT_THAT(WhyOf("dp=8,tp=2,mbs=1", "deepspeed"),
              HasSubstr("deepspeed has no setting for tp"));
}

TEST(Why, ARuleOfTheUserIsNamedOnlyWhileItIsThere) {
  Job job = SmallJob();
  const std::string config = "dp=4,zero_stage=3";
  EXPECT_THAT(WhyOf(Planned(job), config), Not(HasSubstr("not offered")));
  job.rules = {"$dp == 4"};
  EXPECT_THAT(WhyOf(Planned(job), config),
              HasSubstr("not offered: $dp == 4 (--rule)\n"));
}

TEST(Why, WhatIsTooLargeSaysWhatItNeedsAndWhatIsAllowed) {
  const Planned& plan = PlannedLlama();
  const std::string answer = WhyOf("dp=16,zero_stage=3,mbs=16");
  double needs = 0.0;
  double allowed = 0.0;
  double all = 0.0;
  double free = 0.0;
  const std::string reason = answer.substr(answer.find("not offered"));
  ASSERT_EQ(std::sscanf(reason.c_str(),
                        "not offered: it needs %lf GB, and %lf GB are allowed "
                        "(%lf GB, %lf%% of which stay free)",
                        &needs, &allowed, &all, &free),
            4)
      << answer;
  EXPECT_GT(needs, allowed);
  EXPECT_NEAR(allowed, plan.forecaster.AllowedBytes() / 1e9, 0.05);
  EXPECT_NEAR(allowed, 0.9 * all, 0.1);
  EXPECT_EQ(free, 10.0);
  EXPECT_THAT(answer, HasSubstr("the nearest that is offered: dp=16 ZeRO-3"));
}

TEST(Why, TheNearestIsAnOfferedLayoutWithAsManyOfTheValuesAsAnyOther) {
  const Planned& plan = PlannedLlama("megatron-core");
  const std::string answer = WhyOf("tp=4,pp=2,mbs=7", "megatron-core");
  const auto nearest =
      std::ranges::find_if(plan.forecast.layouts, [&](const Layout& layout) {
        return answer.ends_with(": " + ToString(layout.best.config) + "\n");
      });
  ASSERT_NE(nearest, plan.forecast.layouts.end()) << answer;
  const auto shared = [](const Layout& layout) {
    const ParallelConfig& config = layout.best.config;
    return (config.tp == 4 ? 1 : 0) + (config.pp == 2 ? 1 : 0);
  };
  const auto most = std::ranges::max(plan.forecast.layouts, {}, shared);
  EXPECT_EQ(shared(*nearest), shared(most));
}

TEST(Why, WhereNothingIsOfferedTheAnswerNamesRemedies) {
  Job job = SmallJob();
  job.cluster.gpu.memory_bytes = 3e9;
  const Planned plan(job);
  ASSERT_THAT(plan.forecast.layouts, IsEmpty());
  EXPECT_THAT(WhyOf(plan, "dp=4"),
              AllOf(HasSubstr("not offered: it needs"),
                    testing::EndsWith(RemediesText(job, {})),
                    Not(HasSubstr("the nearest that is offered"))));
}

TEST(Why, AValueWithoutEffectIsIgnoredWithANote) {
  EXPECT_THAT(WhyOf("dp=16,model_chunks=2"),
              AllOf(HasSubstr("note: model_chunks=2 is ignored"),
                    HasSubstr("the fastest")))
      << "what has no effect does not bring default microbatches with it";
  EXPECT_THAT(WhyOf("dp=16"), Not(HasSubstr("note:")));
}

TEST(Why, ValuesThatAreNotNamedAreTheBestOnes) {
  EXPECT_THAT(WhyOf("dp=16"), HasSubstr("the fastest"));
  EXPECT_THAT(WhyOf("dp=2,tp=8,sp=8,zero_stage=3,mbs=1"),
              HasSubstr("% slower than dp=16 ZeRO-3"));
}

TEST(Why, ALineOfThePlanIsTakenAsPrinted) {
  EXPECT_THAT(WhyOf("dp=16 ZeRO-3: compute 93%, links (data) 7%"),
              HasSubstr("the fastest"));
  EXPECT_THAT(WhyOf("dp=16 ZeRO-3 full recomputation"),
              testing::ContainsRegex("grad_checkpoint=(1|full|true)"));
}

// The values that a user does not name follow, so that none of them is refused.
TEST(Why, RefusesOnlyNamedValues) {
  const auto why = [](const std::string& config) {
    return WhyOf(config, "megatron-core");
  };
  EXPECT_THAT(why("mbs=7"), HasSubstr("dp * micro_batch_size must divide"));
  EXPECT_THAT(why("mbs=64"), HasSubstr(" s per step"));
  EXPECT_THAT(why("microbatches=1,ep=8"),
              HasSubstr("ep must divide the number of experts"));
  EXPECT_THAT(why("pp=16,microbatches=4"), HasSubstr("1F1B needs"));
}

TEST(Why, TextThatIsNoConfigurationIsRefusedWithTheOption) {
  for (const char* text : {"dq=3", "dp=", "dp=x", "dp=0"}) {
    EXPECT_THAT(fakes::ErrorOf([&] { return WhyOf(text); }),
                testing::StartsWith(fmt::format("--why {}: ", text)));
  }
}

}  // namespace jobs::why_test
