#include "trials/tables/row_training.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/data_folder.h"

namespace trials::row_training_test {

using fakes::ErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A GPT of two layers on eight GPUs.
Facts Training() {
  Facts facts("t.csv:7");
  for (const auto& [name, value] :
       {std::pair{"family", "gpt"}, std::pair{"layers", "2"},
        std::pair{"hidden_size", "64"}, std::pair{"attention_heads", "4"},
        std::pair{"vocab_size", "100"}, std::pair{"sequence_length", "32"},
        std::pair{"gpus", "8"}, std::pair{"cluster", "a100-selene"},
        std::pair{"framework", "megatron"}}) {
    facts.Add(name, value);
  }
  return facts;
}

TEST(ModelShape, AFamilyHasItsBiasesPositionsAndFourHiddenSizes) {
  Facts facts = Training();
  const Model gpt = ModelOf(facts);
  EXPECT_EQ(gpt.layers, 2);
  EXPECT_EQ(gpt.kv_heads, 4);
  EXPECT_EQ(gpt.head_size, 16);
  EXPECT_EQ(gpt.ffn_size, 256);
  EXPECT_EQ(gpt.max_positions, 32);
  EXPECT_EQ(gpt.token_types, 0);
  EXPECT_EQ(gpt.experts, 0);
  EXPECT_TRUE(gpt.attention_bias && gpt.norm_bias && gpt.tied_embeddings);
  EXPECT_FALSE(gpt.gated_ffn);
  EXPECT_TRUE(gpt.causal);
  facts.Replace("family", "bert");
  EXPECT_FALSE(ModelOf(facts).causal);
  EXPECT_EQ(ModelOf(facts).token_types, 2);
  facts.Replace("family", "llama");
  EXPECT_TRUE(ModelOf(facts).gated_ffn);
  EXPECT_FALSE(ModelOf(facts).attention_bias);
  EXPECT_EQ(ModelOf(facts).max_positions, 0);
  facts.Replace("family", "t5");
  EXPECT_THAT(ErrorOf([&] { return ModelOf(facts); }),
              HasSubstr("family 't5' is not known"));
}

TEST(ModelShape, ATokenChoosesTwoExpertsUnlessTheFactsSayOtherwise) {
  Facts facts = Training();
  EXPECT_EQ(ModelOf(facts).experts_per_token, Model().experts_per_token);
  facts.Add("experts", "1");
  EXPECT_EQ(ModelOf(facts).experts_per_token, 2);
  facts.Add("experts_per_token", "1");
  EXPECT_EQ(ModelOf(facts).experts_per_token, 1);
}

TEST(ModelShape, HeadsDivideTheWidthAndKeyValueHeadsTheHeads) {
  Facts facts = Training();
  facts.Replace("kv_heads", "3");
  EXPECT_THAT(ErrorOf([&] { return ModelOf(facts); }),
              HasSubstr("4 attention heads do not go with"));
  facts.Replace("kv_heads", "4");
  facts.Replace("hidden_size", "4");  // heads of one column
  EXPECT_EQ(ModelOf(facts).head_size, 1);
  facts.Replace("hidden_size", "3");
  EXPECT_THAT(ErrorOf([&] { return ModelOf(facts); }),
              HasSubstr("do not go with hidden size 3"));
}

TEST(ModelShape, TheBatchIsGivenOrTheProductOfItsCuts) {
  Facts facts = Training();
  facts.Add("global_batch_size", "48");
  EXPECT_EQ(WorkloadOf(facts).batch_size, 48);
  EXPECT_EQ(WorkloadOf(facts).precision, Precision::kBf16);
  facts.Add("dp", "2");
  facts.Add("micro_batch_size", "3");
  EXPECT_EQ(WorkloadOf(facts).batch_size, 48);
  facts.Add("microbatches", "5");
  EXPECT_EQ(WorkloadOf(facts).batch_size, 30);
  for (const auto& [name, precision] :
       {std::pair{"fp16", Precision::kFp16}, std::pair{"fp8", Precision::kFp8},
        std::pair{"bf16", Precision::kBf16},
        std::pair{"fp32", Precision::kFp32}}) {
    facts.Replace("precision", name);
    EXPECT_EQ(WorkloadOf(facts).precision, precision);
  }
  facts.Replace("precision", "int4");
  EXPECT_THAT(ErrorOf([&] { return WorkloadOf(facts); }),
              HasSubstr("precision 'int4'"));
}

TEST(ModelShape, AConfigOfHuggingFaceHasOtherLayersWhereTheFactsSaySo) {
  Facts facts("place");
  facts.Add("config", "gpt2");
  EXPECT_EQ(ModelOf(facts).layers, 12);
  facts.Add("layers", "3");
  EXPECT_EQ(ModelOf(facts).layers, 3);
  EXPECT_EQ(ModelOf(facts).hidden_size, 768);
}

TEST(ModelShape, SizesBesideAConfigTakeEffect) {
  Facts facts("place");
  facts.Add("config", "deepseek-v3");
  facts.Add("layers", "4");
  EXPECT_EQ(ModelOf(facts).dense_layers, 3);
  facts.Add("dense_layers", "0");
  facts.Add("experts", "64");
  EXPECT_EQ(ModelOf(facts).dense_layers, 0);
  EXPECT_EQ(ModelOf(facts).experts, 64);
  facts.Replace("dense_layers", "5");
  EXPECT_THAT(ErrorOf([&] { return ModelOf(facts); }),
              HasSubstr("dense_layers 5 of 4 layers"));
}

// Eight GPUs are two stages of two tensor-parallel ranks, twice. A batch of 48
// is 48 / (2 x 3) microbatches.
TEST(RowTraining, SizesFollowFromTheOthers) {
  const TableOverrides overrides;
  MachineLibrary library("t.csv", overrides);
  Facts facts = Training();
  facts.Add("tp", "2");
  facts.Add("pp", "2");
  facts.Add("global_batch_size", "48");
  facts.Add("micro_batch_size", "3");
  const RowTraining training = TrainingOf(facts, library);
  EXPECT_EQ(training.config.dp, 2);
  EXPECT_EQ(training.config.tp, 2);
  EXPECT_EQ(training.config.microbatches, 8);
  EXPECT_EQ(training.workload.batch_size, 48);
  EXPECT_EQ(training.cluster.gpus(), 8);
  EXPECT_EQ(training.framework_name, "megatron");
  facts.Add("cp", "2");
  EXPECT_EQ(TrainingOf(facts, library).config.dp, 1);
  facts.Replace("micro_batch_size", "100");
  EXPECT_THAT(fakes::ErrorOf([&] { return TrainingOf(facts, library); }),
              testing::HasSubstr("global_batch_size 48 is no multiple of dp 1 "
                                 "* micro_batch_size 100"));
}

// 85% of 800 Gbit/s over the cards of a host.
TEST(RowTraining, ANetworkReachesAShareOfItsSignalingRate) {
  const TableOverrides overrides;
  MachineLibrary library("t.csv", overrides);
  Facts facts = Training();
  facts.Add("global_batch_size", "8");
  facts.Add("host_gbps", "800");
  const Cluster cluster = TrainingOf(facts, library).cluster;
  EXPECT_DOUBLE_EQ(cluster.inter.bandwidth_bytes_per_s * cluster.nics_per_node,
                   85e9);
}

TEST(RowTraining, FactsChangeTheFrameworkAndItsName) {
  const TableOverrides overrides;
  MachineLibrary library("t.csv", overrides);
  Facts facts = Training();
  facts.Add("global_batch_size", "8");
  facts.Add("flash_attention", "true");
  facts.Add("fp32_gradients", "0");
  facts.Add("zero_group_ranks", "4");
  facts.Add("dispatch_s", "0");
  const RowTraining training = TrainingOf(facts, library);
  EXPECT_EQ(training.config.dp, 8);
  EXPECT_TRUE(training.framework.kernels.flash_attention);
  EXPECT_FALSE(training.framework.gradients.fp32_gradients);
  EXPECT_EQ(training.framework.sharding.zero_group_ranks, 4);
  EXPECT_EQ(training.framework.dispatch.dispatch_s, 0.0);
  EXPECT_THAT(training.framework_name, HasSubstr("flash_attention=1"));
  EXPECT_THAT(training.framework_name, HasSubstr("fp32_gradients=0"));
  EXPECT_THAT(training.framework_name, HasSubstr("zero_group_ranks=4"));
  EXPECT_THAT(training.framework_name, HasSubstr("dispatch_s=0"));
}

TEST(RowTraining, ProgramsHaveTheFrameworkOfTheirAdapterAndOthersGeneric) {
  TableOverrides overrides;
  MachineLibrary library("t.csv", overrides);
  for (const auto& [said, taken] :
       {std::pair{"Megatron-LM", "megatron-core"},
        std::pair{"torchtitan", "fsdp2"},
        std::pair{"Megatron_DeepSpeed", "megatron-deepspeed"},
        std::pair{"our own stack", "generic"}}) {
    Facts facts = Training();
    facts.Replace("framework", said);
    EXPECT_EQ(library.FrameworkOf(facts).first, taken);
    EXPECT_EQ(library.FrameworkOf(facts).first, taken);  // once more
    EXPECT_EQ(library.assumed().at(said), taken);
  }
  overrides.framework = "another one";  // no row's
  EXPECT_THAT(ErrorOf([&] { return library.FrameworkOf(Training()).first; }),
              HasSubstr("'another one' is not in"));
}

TEST(RowTraining, AMachineIsReadOnceAndOverridden) {
  TableOverrides overrides;
  MachineLibrary library("t.csv", overrides);
  const Facts facts = Training();
  (void)library.FrameworkOf(facts);
  const std::size_t inputs = library.inputs().size();
  EXPECT_EQ(inputs, 1u);
  (void)library.FrameworkOf(facts);
  EXPECT_EQ(library.inputs().size(), inputs);
  overrides.framework = "nanotron";
  EXPECT_EQ(library.FrameworkOf(facts).first, "nanotron");
  Facts unnamed("t.csv:7");
  overrides.framework = "";
  EXPECT_THAT(ErrorOf([&] { return library.FrameworkOf(unnamed).first; }),
              HasSubstr("the framework of this table is not known"));
}

TEST(RowTraining, TheTokensOfAScenarioHaveFacts) {
  EXPECT_THAT(TokensOf("ultrascale-1b-128"),
              ElementsAre("ultrascale", "1b", "128"));
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "ultrascale.toml",
                   "kind = 'measured'\n[facts]\nlayers = 1\nvocab_size = 9\n"
                   "[facts_of.1b]\nlayers = 2\n[corrections]\nseq = 5\n"
                   "hidden_size = 5\n"
                   "[corrections_of.1b]\nhidden_size = 3\n"
                   "[corrections_of.2b]\nhidden_size = 4\n");
  const TableSettings settings =
      ReadTableSettings(folder.path() / "ultrascale.toml");
  EXPECT_EQ(settings.title, "ultrascale");
  EXPECT_EQ(settings.source, "ultrascale");
  EXPECT_FALSE(settings.fitted);
  Facts facts("place");
  facts.Add("sequence_length", "7");
  facts.Add("hidden_size", "7");
  AddSettings({}, settings, TokensOf("ultrascale-1b-128"), facts);
  EXPECT_EQ(facts.RequireInt("layers"), 2);
  EXPECT_EQ(facts.RequireInt("vocab_size"), 9);
  EXPECT_EQ(facts.RequireInt("sequence_length"), 5);
  EXPECT_EQ(facts.RequireInt("hidden_size"), 3);
  EXPECT_TRUE(Describes(settings, "ultrascale_rows", "a"));
  EXPECT_TRUE(Describes(settings, "rows", "ultrascale-1b"));
  EXPECT_FALSE(Describes(settings, "rows", "ultrascale2-1b"));
  EXPECT_FALSE(Describes(settings, "rows", "a-ultrascale-1b"));
}

// Only its own file has the jobs that the settings' facts describe.
TEST(RowTraining, AnotherTableWithoutStatesHasJobsInTheFastState) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "ultrascale.toml",
                   "kind = 'measured'\ntable = 'measured/raw.csv'\n"
                   "fast_intra_gbs = 440\n[facts]\nnetwork_contention = 2\n"
                   "[facts_of.fast]\nnetwork_contention = 0\n");
  const TableSettings settings =
      ReadTableSettings(folder.path() / "ultrascale.toml");
  const auto contention = [&](const char* table, const char* gbs) {
    Facts facts("place");
    facts.Add("allreduce_intra_gbs", gbs);
    AddState(settings, table, facts);
    AddSettings({}, settings, {}, facts);
    return facts.NonNegative("network_contention");
  };
  EXPECT_EQ(contention("ultrascale.csv", ""), 2.0);
  EXPECT_EQ(contention("raw.csv", ""), 2.0);
  EXPECT_EQ(contention("my-ultrascale.csv", ""), 0.0);
  EXPECT_EQ(contention("my-ultrascale.csv", "400"), 2.0);
}

TEST(RowTraining, TheFactsOfWorldsDescribeTheirScenarios) {
  struct World {
    const char* facts;
    std::string scenario;
    double billions;
    int batch_size;
    const char* cluster;
  };
  const fakes::TemporaryFolder folder;
  for (const World& world : std::vector<World>{
           {"calculon", "cw-5b-a100-8", 4.7, 96, "a100-selene"},
           {"calculon", "cw-3b-a100-16", 2.7, 128, "a100-selene"},
           {"calculon", "cw-9b-h100-32", 9.4, 192, "h100-infiniband"},
           {"calculon", "cw-30b-a100-128", 30, 768, "a100-selene"},
           {"calculon", "cw-40b-8k-h100-256", 39.1, 512, "h100-infiniband"},
           {"calculon", "cw-100b-h100-512", 101.2, 1024, "h100-infiniband"},
           {"simumax", "sw-mixtral8x7b-64", 46.7, 1024, "b200-infiniband"},
           {"simumax", "sw-llama8b-64k-32", 8.03, 32, "b200-infiniband"},
           {"simumax", "sw-llama70b-8k-128", 70.6, 512, "b200-infiniband"}}) {
    const std::string gpus =
        world.scenario.substr(world.scenario.rfind('-') + 1);
    fakes::WriteFile(folder.path() / "rows.csv",
                     fmt::format("scenario,gpus,status,step_time_s,dp,tp,pp\n"
                                 "{},{},ok,1,{},1,1\n",
                                 world.scenario, gpus, gpus));
    const RowTraining row =
        ReadScenarioTraining(
            folder.path() / "rows.csv", world.scenario,
            ReadTableSettings(ExperimentsFolder() / "worlds" /
                              fmt::format("{}.toml", world.facts)),
            {})
            .rows.begin()
            ->second;
    EXPECT_NEAR(1e-9 * static_cast<double>(ParameterCount(row.workload.model)),
                world.billions, 0.1)
        << world.scenario;
    EXPECT_EQ(row.workload.batch_size, world.batch_size);
    EXPECT_EQ(row.cluster.name, world.cluster);
    EXPECT_EQ(fmt::to_string(row.cluster.gpus()), gpus);
  }
}

TEST(RowTraining, AMeasuredRowHasAStatusAndATimeOrAPeak) {
  const fakes::TemporaryFolder folder;
  const auto read = [&](const std::string& row) {
    fakes::WriteFile(folder.path() / "t.csv",
                     "scenario,status,step_time_s,peak_memory_gb\n" + row);
    const common::CsvTable table =
        common::CsvTable::Read(folder.path() / "t.csv");
    return ErrorOf([&] { return MeasuredFacts({table, table.rows()[0]}); });
  };
  EXPECT_EQ(read("a,ok,1,\n"), "no error");
  EXPECT_EQ(read("a,ok,,1\n"), "no error");
  EXPECT_EQ(read("a,oom,,\n"), "no error");
  EXPECT_THAT(read("a,ok,,\n"), HasSubstr("'step_time_s' is not known"));
  EXPECT_THAT(read("a,fine,1,\n"), HasSubstr("status: unknown name 'fine'"));
  EXPECT_EQ(read("a,crash,,\n"), "no error");
  EXPECT_THAT(read("a,,1,\n"), HasSubstr("'status' is not known"));
  EXPECT_THAT(read(",ok,1,\n"), HasSubstr("'scenario' is not known"));
}

TEST(RowTraining, AScenarioIsReadWithTheFactsOfItsRow) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "rows.csv",
                   "scenario,gpus,status,step_time_s,dp\n"
                   "a,8,ok,1,4\nb,8,ok,1,8\na,8,ok,1,8\n");
  fakes::WriteFile(folder.path() / "rows_scenarios.csv",
                   "scenario,family,layers,hidden,heads,vocab,seq,gbs,cluster,"
                   "framework,tp\n"
                   "a,gpt,2,64,4,100,32,64,a100-selene,megatron,1\n");
  fakes::WriteFile(folder.path() / "s.toml", "kind = 'measured'\n");
  const TableSettings settings = ReadTableSettings(folder.path() / "s.toml");
  EXPECT_EQ(ScenariosPath(folder.path() / "rows.csv", settings, {}),
            folder.path() / "rows_scenarios.csv");
  EXPECT_EQ(ScenariosPath(folder.path() / "none.csv", settings, {}), "");
  EXPECT_EQ(ScenariosPath("none.csv", settings, {.scenarios = "x"}), "x");
  const ScenarioTraining training =
      ReadScenarioTraining(folder.path() / "rows.csv", "a", settings, {});
  ASSERT_EQ(training.rows.size(), 2u);
  EXPECT_EQ(training.rows.at(2).config.dp, 4);
  EXPECT_EQ(training.rows.at(4).config.dp, 8);
  EXPECT_EQ(training.rows.at(2).workload.model.layers, 2);
  EXPECT_EQ(training.inputs.back(), folder.path() / "rows_scenarios.csv");
  fakes::WriteFile(folder.path() / "bad.csv", "name\na\n");
  EXPECT_THAT(ErrorOf([&] { return ScenarioFacts(folder.path() / "bad.csv"); }),
              HasSubstr("bad.csv:1"));
}

}  // namespace trials::row_training_test
