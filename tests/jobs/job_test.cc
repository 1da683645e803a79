#include "jobs/job.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::job_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(JobSpace, APlanHasOnlyWhatTheAdapterCanSet) {
  const Forecaster forecaster(LlamaJob("deepspeed"), {});
  for (const trials::ParallelConfig& config : forecaster.space().configs()) {
    EXPECT_EQ(config.dp, 16);
  }
}

TEST(JobSpace, FusedAttentionHasNoSelectiveRecomputationThatSavesNothing) {
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

TEST(Job, SaysThatMegatronDoesNotFuseAttentionOnOldGpus) {
  for (const char* gpu : {"v100", "t4", "h100"}) {
    Job job = SmallJob();
    job.cluster = WithSize(FindMachine({.gpu = gpu}), {1, 4});
    job.workload.precision = trials::Precision::kFp16;
    SetFramework("torchtitan", job);
    EXPECT_THAT(job.notes, IsEmpty());
    SetFramework("megatron-lm", job);
    const bool old = std::string(gpu) != "h100";
    EXPECT_EQ(job.notes.size(), old ? 1U : 0U);
    EXPECT_EQ(job.framework.framework.kernels.flash_attention, !old);
    EXPECT_EQ(
        std::ranges::any_of(JobSpace(job).configs(),
                            [](const auto& config) { return config.cp > 1; }),
        !old);
  }
}

TEST(Job, SizesThatDoNotGoTogetherAreRefused) {
  const std::string sizes =
      "layers=2,hidden=96,ffn=128,vocab=100,heads=6,kv_heads=3";
  EXPECT_EQ(FindModel(sizes).head_size, 16);
  const auto reason = [](const std::string& text) {
    return fakes::ErrorOf([&] { return FindModel(text); });
  };
  EXPECT_THAT(reason("layers=2,hidden=96,ffn=128,vocab=100,heads=5"),
              HasSubstr("hidden must be a multiple of heads"));
  EXPECT_THAT(reason("layers=2,hidden=96,ffn=128,vocab=100,heads=6,kv_heads=4"),
              HasSubstr("6 heads are not a multiple of 4 kv_heads"));
  EXPECT_THAT(reason(sizes + ",experts=4"),
              HasSubstr("experts needs experts_per_token"));
  EXPECT_THAT(reason(sizes + ",experts=4,experts_per_token=5"),
              HasSubstr("a token takes 5 of 4 experts"));
  EXPECT_THAT(reason("layers=20000,hidden=96,ffn=128,vocab=100,heads=6"),
              HasSubstr("20000 layers are more than 10000"));
  EXPECT_THAT(reason("layers=x"), HasSubstr("invalid value 'x' for layers"));
  EXPECT_THAT(
      reason("rotary_share=-1"),
      HasSubstr("invalid value '-1' for rotary_share: a number from 0"));
}

TEST(Job, ASizeThatSaysNothingByItselfOrIsGivenTwiceIsRefused) {
  const std::string sizes =
      "layers=8,hidden=96,ffn=128,vocab=100,heads=6,kv_heads=3";
  const std::pair<std::string, std::string> cases[] = {
      {"window=128", "window needs windowed_share"},
      {"windowed_share=0.5", "windowed_share needs window"},
      {"state_size=16", "state_size needs state_inner"},
      {"kv_rank=32", "kv_rank needs head_size"},
      {"kv_rank=32,head_size=24", "kv_rank needs rope_head_size"},
      {"kv_rank=32,head_size=24,rope_head_size=8",
       "kv_rank needs value_head_size"},
      {"query_rank=32", "query_rank needs kv_rank"},
      {"shared_ffn_size=128", "shared_ffn_size needs experts"},
      {"dense_ffn_size=128", "dense_ffn_size needs dense_layers"},
      {"experts=4,experts_per_token=2,expert_groups=2",
       "expert_groups needs groups_per_token"},
      {"tokens=9", "tokens needs a tower"},
      {"layers=9", "layers is given twice"},
      {"hidden_size=96", "hidden_size is given twice"}};
  for (const auto& known : cases) {
    EXPECT_THAT(
        fakes::ErrorOf([&] { return FindModel(sizes + "," + known.first); }),
        HasSubstr(known.second));
  }
  EXPECT_EQ(FindModel(sizes + ",kv_rank=32,head_size=24,rope_head_size=8,"
                              "value_head_size=16")
                .kv_rank,
            32);
}

// BLOOM 176B, Falcon 7B and Qwen3 8B as sizes.
TEST(Job, SizesSayWhatDiffersFromLlama) {
  EXPECT_EQ(ParameterCount(FindModel(
                "layers=70,hidden=14336,heads=112,ffn=57344,vocab=250880,"
                "gated=false,tied=true,attention_bias=true,output_bias=true,"
                "ffn_bias=true,norm_bias=true,embedding_norm=true,"
                "rotary_share=0")),
            176'247'271'424);
  EXPECT_EQ(ParameterCount(
                FindModel("layers=32,hidden=4544,heads=71,kv_heads=1,ffn=18176,"
                          "vocab=65024,gated=false,tied=1,norm_bias=1,norms=1,"
                          "parallel_layers=true")),
            6'921'720'704);
  const trials::Model qwen = FindModel(
      "layers=36,hidden=4096,heads=32,kv_heads=8,head_size=128,ffn=12288,"
      "vocab=151936,qk_norm=true,causal=false,rotary_share=0.5",
      {.as = "", .parameters = "8.19b"});
  EXPECT_EQ(ParameterCount(qwen), 8'190'735'360);
  EXPECT_FALSE(qwen.causal);
  EXPECT_EQ(qwen.rotary_share, 0.5);
  const std::string sizes = "layers=2,hidden=96,ffn=128,vocab=100,heads=6";
  EXPECT_THAT(fakes::ErrorOf([&] { return FindModel(sizes + ",gated=2"); }),
              HasSubstr("invalid value '2' for gated: true or false"));
  EXPECT_THAT(fakes::ErrorOf([&] { return FindModel(sizes + ",gate=1"); }),
              HasSubstr("unknown size 'gate'"));
  EXPECT_THAT(fakes::ErrorOf([&] {
                return FindModel(sizes, {.as = "", .parameters = "1b"});
              }),
              HasSubstr("--parameters says 1 billion"));
}

TEST(Job, WithoutKeyValueHeadsThereAreAsManyAsHeads) {
  EXPECT_EQ(FindModel("layers=2,hidden=96,ffn=128,vocab=100,heads=6").kv_heads,
            6);
}

TEST(Job, OnlyAFileHasAConfiguration) {
  EXPECT_EQ(FindConfigJson(Llama8b()), Llama8b());
  EXPECT_EQ(FindConfigJson(kSmallModel), "");
  const auto folder = fakes::SourceFolder() / "tests/jobs/torch";
  EXPECT_EQ(FindConfigJson(folder.string()), folder / "config.json");
}

TEST(Workload, ASequenceIsNamedUnlessItIsAnImage) {
  const trials::Model model = FindModel(kSmallModel);
  EXPECT_EQ(MakeWorkload(model, 8, 512).sequence_length, 512);
  EXPECT_THAT(fakes::ErrorOf([&] { return MakeWorkload(model, 8, 0); }),
              HasSubstr("--seq N is missing"));
  trials::Model image = model;
  image.patch_size = 16;
  image.max_positions = 197;
  EXPECT_EQ(MakeWorkload(image, 8, 0).sequence_length, 197);
  EXPECT_EQ(MakeWorkload(image, 8, 197).sequence_length, 197);
  EXPECT_THAT(fakes::ErrorOf([&] { return MakeWorkload(image, 8, 196); }),
              HasSubstr("--seq 196: an image is 197 tokens"));
}

TEST(Workload, ASequenceIsNoLongerThanTheLearnedPositions) {
  trials::Model model = FindModel(kSmallModel);
  model.max_positions = 1024;
  EXPECT_EQ(MakeWorkload(model, 8, 1024).sequence_length, 1024);
  EXPECT_THAT(fakes::ErrorOf([&] { return MakeWorkload(model, 8, 1025); }),
              HasSubstr("--seq 1025: the model has learned 1024 positions"));
}

TEST(Divisors, AreAscendingUpToALimit) {
  EXPECT_THAT(DivisorsUpTo(12, 12), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(DivisorsUpTo(12, 5), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(DivisorsUpTo(1, 8), ElementsAre(1));
}

TEST(ContextSizes, GrowWithTheSequence) {
  trials::Workload workload;
  workload.sequence_length = 4096;
  EXPECT_THAT(ContextSizes(workload, 32), ElementsAre(1, 2, 4, 8, 16));
  workload.sequence_length = 256;
  EXPECT_THAT(ContextSizes(workload, 32), ElementsAre(1, 2));
  workload.sequence_length = 1048576;
  EXPECT_THAT(ContextSizes(workload, 256), testing::Contains(128));
}

// A million tokens of one sequence fit on 256 GPUs only if all share them.
TEST(ContextSizes, ASequenceOfAMillionTokensHasALayout) {
  const Job job{MakeWorkload(FindModel(Llama8b()), 1, 1048576),
                WithSize(FindMachine({.gpu = "h100"}), {32, 8}),
                FindFramework("megatron-lm"),
                {}};
  EXPECT_FALSE(Planned(job).forecast.layouts.empty());
}

TEST(JobSpace, TensorParallelismStaysInANodeAndBringsItsSequence) {
  const Job job = LlamaJob("megatron-core");
  const trials::SearchSpace space = JobSpace(job);
  std::set<int> sizes;
  for (const trials::ParallelConfig& config : space.configs()) {
    EXPECT_EQ(config.sp, config.tp);
    EXPECT_EQ(config.dp * config.tp * config.pp * config.cp, 16);
    sizes.insert(config.tp);
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2, 4, 8));
}

TEST(JobSpace, ARuleOfTheUserRemovesWhatItMatchesAndNothingElse) {
  Job job = SmallJob("megatron-lm");
  const auto all = JobSpace(job).configs();
  job.rules = {"$pp > 1 || $zero_stage == 1"};
  const auto left = JobSpace(job).configs();
  EXPECT_EQ(static_cast<std::ptrdiff_t>(left.size()),
            std::ranges::count_if(all, [](const auto& config) {
              return config.pp == 1 && config.zero_stage != 1;
            }));
}

TEST(JobRules, AreThoseOfTheFrameworkOfEveryPlanAndOfTheUser) {
  Job job = SmallJob("fsdp2");
  job.rules = {"$tp > 2"};
  const std::vector<trials::Rule> rules = JobRules(job);
  EXPECT_EQ(rules.back().origin(), "--rule");
  EXPECT_EQ(rules.back().expression(), "$tp > 2");
  EXPECT_EQ(rules[rules.size() - 2].origin(), JobRuleOrigin());
  EXPECT_GT(rules.size(), 2U);
  job.framework.framework.rule_sets.clear();
  EXPECT_EQ(JobRules(job).size(), 3U);  // torchtitan has no etp
}

TEST(JobRules, LeaveOutWhatTheFrameworkHasNoSettingFor) {
  const auto drops = [](const char* framework, const char* config) {
    Job job = SmallJob();
    job.framework = FindFramework(framework);
    return std::ranges::any_of(JobRules(job), [&](const trials::Rule& rule) {
      return rule.origin().find("no setting") != std::string::npos &&
             rule.Matches(trials::ParseParallelConfig(config), {});
    });
  };
  for (const char* config :
       {"dp=4,dp_replicate=2", "dp=4,etp=1", "dp=4,torch_compile=1"}) {
    EXPECT_TRUE(drops("deepspeed", config)) << config;
  }
  EXPECT_FALSE(drops("deepspeed", "dp=4"));
  EXPECT_FALSE(drops("torchtitan", "dp=4,dp_replicate=2,torch_compile=1"));
  EXPECT_TRUE(drops("torchtitan", "dp=4,etp=1"));
  EXPECT_FALSE(drops("megatron-lm", "dp=4,dp_replicate=2,etp=1"));
}

TEST(Job, ARuleThatCannotBeReadNamesTheOption) {
  Job job = SmallJob();
  job.rules = {"$tp >"};
  EXPECT_THAT(fakes::ErrorOf([&] { return JobRules(job); }),
              testing::StartsWith("--rule"));
}

TEST(FindFramework, TakesNaturalNames) {
  EXPECT_EQ(FindFramework("megatron").name, "megatron-core");
  EXPECT_EQ(FindFramework("accelerate").adapter->name(), "accelerate-fsdp");
}

TEST(FrameworkLabel, HasTheAdapterBeforeTheFramework) {
  EXPECT_EQ(FrameworkLabel(FindFramework("torchtitan")), "torchtitan (fsdp2)");
  EXPECT_EQ(FrameworkLabel(FindFramework("colossalai")), "colossalai");
}

}  // namespace jobs::job_test
