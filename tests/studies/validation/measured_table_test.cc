#include "studies/validation/measured_table.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "studies/validation/comparison.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace studies::measured_table_test {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ValidateTable : public ::testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& text) const {
    fakes::WriteFile(folder_.path() / name, text);
    return folder_.path() / name;
  }
  MeasuredTable Table(const std::string& name, const std::string& text) const {
    return ReadAnyTable(Write(name, text), {});
  }

  static std::string ErrorOf(const fs::path& path,
                             const TableOverrides& overrides = {}) {
    return fakes::ErrorOf([&] { return ReadAnyTable(path, overrides); });
  }

  fakes::TemporaryFolder folder_;
};

constexpr const char* kHeader =
    "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,status,"
    "step_time_s,peak_memory_gb\n";

TEST_F(ValidateTable, TheVocabularyIsThatOfTheModelsConfig) {
  const MeasuredTable table = ReadAnyTable(
      Write("elsewhere.csv",
            "scenario,gpus,dp,tp,pp,status,step_time_s,config,sequence_length,"
            "global_batch_size\nown,1,1,1,1,ok,3.5,qwen2-1.5b,1024,8\n"),
      {.cluster = "h100-1"});
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].workload.model.vocab_size, 151936);
}

TEST_F(ValidateTable, ATableOfAnUnknownFrameworkIsTakenAsGenericAndSaysSo) {
  const std::string text =
      "scenario,gpus,dp,tp,pp,status,step_time_s,config,sequence_length,"
      "global_batch_size\nown,1,1,1,1,ok,3.5,qwen2-1.5b,1024,8\n";
  const fs::path path = Write("elsewhere.csv", text);
  const MeasuredTable table = ReadAnyTable(path, {.cluster = "h100-1"});
  EXPECT_EQ(table.rows.at(0).framework_name, "generic");
  EXPECT_THAT(table.assumed, HasSubstr("assumed: generic"));
  EXPECT_EQ(
      ReadAnyTable(path, {.cluster = "h100-1", .framework = "nemo"}).assumed,
      "");
}

// In either format, with columns that the format itself does not read.
TEST_F(ValidateTable, ModelsAreThoseCalledSoAndGpusAreInTheirUsualHosts) {
  const std::string layouts =
      "model,gpu,gpus,dp,tp,pp,micro_batch_size,microbatches,seq_len,"
      "step_time_s,framework\n"
      "Llama-3-8B,NVIDIA H100 80GB HBM3,8,8,1,1,1,2,8192,3,torchtitan\n"
      "Llama-3-8B,TPUv5e,8,8,1,1,1,2,8192,3,torchtitan\n";
  std::string measured = layouts;
  for (const auto& [from, to] :
       {std::pair{"model,", "scenario,status,model,"},
        std::pair{"Llama-3-8B,NVIDIA", "a,ok,Llama-3-8B,NVIDIA"}}) {
    measured.replace(measured.find(from), std::string(from).size(), to);
  }
  measured.erase(measured.rfind("Llama"));
  for (const std::string& text : {layouts, measured}) {
    const MeasuredTable table = Table("elsewhere.csv", text);
    const MeasuredRow& row = table.rows.at(0);
    EXPECT_EQ(row.left_out, "");
    EXPECT_EQ(row.workload.model.layers, 32);
    EXPECT_EQ(row.workload.sequence_length, 8192);
    EXPECT_EQ(row.cluster.gpu.name, "H100-SXM5-80GB");
    EXPECT_EQ(row.framework_name, "fsdp2");
    EXPECT_THAT(table.assumed, AllOf(HasSubstr("taken for h100-infiniband"),
                                     HasSubstr("taken for fsdp2")));
  }
  EXPECT_THAT(Table("elsewhere.csv", layouts).rows.at(1).left_out,
              HasSubstr("'TPUv5e' is not known"));
}

// Of both kinds of tables, and a word that nobody knows is no success.
TEST_F(ValidateTable, StatusesHaveTheNamesOfToolsInAnyCase) {
  for (const char* header :
       {"model,scenario,gpu,gpus,dp,tp,pp,micro_batch_size,microbatches,"
        "sequence_length,step_time_s,memory,status\n",
        "config,scenario,gpu,gpus,dp,tp,pp,micro_batch_size,microbatches,"
        "sequence_length,step_time_s,memory,status\n"}) {
    const auto read = [&](const std::string& status) {
      return Table("elsewhere.csv",
                   fmt::format("{}llama-3-8b,a,h100,8,8,1,1,1,1,8192,3,1,{}\n",
                               header, status));
    };
    for (const char* status : {"oom", "OOM", "Out_Of_Memory"}) {
      EXPECT_TRUE(read(status).rows.at(0).out_of_memory) << status;
    }
    EXPECT_TRUE(read("Crash").rows.at(0).failed);
    const MeasuredTable ran = read("Success");
    EXPECT_FALSE(ran.rows.at(0).out_of_memory || ran.rows.at(0).failed);
    EXPECT_THAT(ran.assumed, HasSubstr("columns without effect: memory"));
    EXPECT_THAT(fakes::ErrorOf([&] { return read("exploded"); }),
                HasSubstr("exploded"));
  }
}

TEST_F(ValidateTable, WhatNoGpuCanDoIsLeftOutAndSaysWhy) {
  const std::string text =
      "scenario,gpus,dp,tp,pp,status,step_time_s,peak_memory_gb,config,"
      "sequence_length,global_batch_size\n"
      "own,1,1,1,1,ok,3.5,40,qwen2-1.5b,1024,8\n"
      "own,1,1,1,1,ok,0.0035,40,qwen2-1.5b,1024,8\n"
      "own,1,1,1,1,ok,3.5,40000,qwen2-1.5b,1024,8\n"
      "own,1,1,1,1,ok,3.5,0.04,qwen2-1.5b,1024,8\n";
  const MeasuredTable table =
      ReadAnyTable(Write("elsewhere.csv", text), {.cluster = "h100-1"});
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[0].left_out, "");
  EXPECT_THAT(table.rows[3].left_out, HasSubstr("less memory than"));
  EXPECT_THAT(table.rows[1].left_out,
              HasSubstr("shorter than the model at the peak rate of 1 H100"));
  EXPECT_THAT(table.rows[2].left_out, HasSubstr("more memory than H100"));
}

// A row of a Llama 3 8B; `changes` replace or add columns.
std::string Row(
    const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::pair<std::string, std::string>> cells = {
      {"scenario", "own"},
      {"gpus", "8"},
      {"dp", "8"},
      {"tp", "1"},
      {"pp", "1"},
      {"zero_stage", "3"},
      {"status", "ok"},
      {"step_time_s", "4.2"},
      {"config", "llama-3-8b"},
      {"sequence_length", "4096"},
      {"microbatches", "8"},
      {"global_batch_size", "64"}};
  for (const auto& change : changes) {
    const auto at = std::ranges::find(
        cells, change.first, [](const auto& cell) { return cell.first; });
    if (at == cells.end()) {
      cells.push_back(change);
    } else {
      *at = change;
    }
  }
  std::string header;
  std::string row;
  for (const auto& [name, value] : cells) {
    header += (header.empty() ? "" : ",") + name;
    row += (row.empty() ? "" : ",") + value;
  }
  return header + "\n" + row + "\n";
}

TEST_F(ValidateTable, ABatchThatContradictsItsPartsIsAnError) {
  const TableOverrides overrides = {.cluster = "h100-infiniband",
                                    .framework = "fsdp2"};
  EXPECT_EQ(ReadAnyTable(Write("t.csv", Row({})), overrides)
                .rows.at(0)
                .workload.batch_size,
            64);
  for (const auto& [changes, message] :
       std::vector<std::pair<std::vector<std::pair<std::string, std::string>>,
                             std::string>>{
           {{{"global_batch_size", "127"}},
            "t.csv:2: global_batch_size 127 is no multiple of dp 8 * "
            "microbatches 8"},
           {{{"micro_batch_size", "1"}, {"global_batch_size", "512"}},
            "global_batch_size 512 is not dp 8 * microbatches 8 * "
            "micro_batch_size 1"},
           {{{"step_time_ms", "1000"}}, "step_time_ms is 1000, which is"},
           {{{"gpu", "A100"}}, "the cluster has H100"},
           {{{"batch_size", "32"}},
            "global_batch_size is 64 and batch_size is 32, which are the same "
            "field"}}) {
    EXPECT_THAT(ErrorOf(Write("t.csv", Row(changes)), overrides),
                HasSubstr(message));
  }
}

TEST_F(ValidateTable, AColumnThatNothingReadsIsNamed) {
  const TableOverrides overrides = {.cluster = "h100-infiniband",
                                    .framework = "fsdp2"};
  EXPECT_EQ(
      ReadAnyTable(Write("t.csv", Row({{"grad_checkpoint", "1"}})), overrides)
          .assumed,
      "");
  EXPECT_THAT(ReadAnyTable(
                  Write("t.csv", Row({{"zero_stag", "1"}, {"recompute", "1"}})),
                  overrides)
                  .assumed,
              HasSubstr("columns without effect: zero_stag, recompute\n"));
}

TEST_F(ValidateTable, RunsThatDifferInPrecisionOrASwitchAreNoRepeats) {
  std::string text;
  for (const auto& [precision, time] :
       {std::pair("bf16", "4.2"), std::pair("fp8", "3.2")}) {
    const std::string row =
        Row({{"precision", precision}, {"step_time_s", time}});
    text += text.empty() ? row : row.substr(row.find('\n') + 1);
  }
  const MeasuredTable table = ReadAnyTable(
      Write("t.csv", text),
      {.cluster = "h100-infiniband", .framework = "megatron-core"});
  const std::vector<Comparison> all = Compare(table, Predict(table));
  EXPECT_EQ(all.at(0).pairs.of, 1);
  EXPECT_EQ(all.at(0).pairs.rows, 1);
}

TEST_F(ValidateTable, TheNameOfAScenarioTellsSizesClusterAndFramework) {
  const MeasuredTable table =
      Table("elsewhere.csv", std::string(kHeader) +
                                 "ultrascale-3b-16,16,2,8,1,1,4,32,ok,3.5,20\n"
                                 "ultrascale-3b-16,16,16,1,1,0,16,1,oom,,\n");
  EXPECT_EQ(table.name, "elsewhere");
  ASSERT_EQ(table.rows.size(), 2U);
  const MeasuredRow& row = table.rows[0];
  EXPECT_EQ(row.workload.model.layers, 28);
  EXPECT_EQ(row.workload.model.hidden_size, 3072);
  EXPECT_TRUE(row.workload.model.tied_embeddings);
  EXPECT_EQ(row.workload.batch_size, 256);
  EXPECT_EQ(row.workload.sequence_length, 4096);
  EXPECT_THAT(row.framework_name, testing::StartsWith("nanotron "));
  EXPECT_EQ(row.cluster.nodes, 2);
  EXPECT_EQ(row.cluster.gpus(), 16);
  EXPECT_EQ(row.config.sp, row.config.tp);
  // The memory that nanotron's rank 0 has reserved, in GiB.
  EXPECT_DOUBLE_EQ(row.peak_memory_bytes, 20.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(row.peak_memory, PeakMemory::kReserved);
  EXPECT_EQ(row.peak_rank, PeakRank::kFirst);
  EXPECT_FALSE(row.out_of_memory);
  EXPECT_TRUE(table.rows[1].out_of_memory);
}

TEST_F(ValidateTable, TheCommandLineSaysWhatNobodyKnows) {
  const fs::path path =
      Write("t.csv", std::string(kHeader) + "x,2,1,2,1,0,2,8,ok,0.5,\n");
  const fs::path scenarios =
      Write("s.csv",
            "scenario,hidden_size,attention_heads,layers,sequence_length\n"
            "x,1024,16,12,1024\n");
  EXPECT_THAT(ErrorOf(path),
              AllOf(HasSubstr("t.csv:2"),
                    HasSubstr("the cluster of this table is not known"),
                    HasSubstr("--cluster C.toml")));
  EXPECT_THAT(ErrorOf(path, {.scenarios = {}, .cluster = "h100-efa"}),
              AllOf(HasSubstr("t.csv:2"), HasSubstr("--scenarios S.csv")));
  const MeasuredTable table = ReadAnyTable(
      path,
      {.scenarios = scenarios, .cluster = "h100-efa", .framework = "nanotron"});
  EXPECT_EQ(table.rows.at(0).cluster.gpu.architecture, "hopper");
  EXPECT_EQ(table.rows.at(0).framework_name, "nanotron");
}

TEST_F(ValidateTable, AMissingColumnIsNamedWithFileAndRemedy) {
  const fs::path path = Write("t.csv",
                              "scenario,gpus,dp,tp,pp,status\n"
                              "ultrascale-1b-8,8,8,1,1,ok\n");
  EXPECT_THAT(ErrorOf(path),
              AllOf(HasSubstr("t.csv:1"), HasSubstr("'step_time_s' is missing"),
                    HasSubstr("add it")));
  const fs::path scenarios = Write("s.csv", "hidden_size\n1024\n");
  EXPECT_THAT(
      ErrorOf(Write("u.csv", std::string(kHeader) + "x,2,1,2,1,0,2,8,ok,1,\n"),
              {.scenarios = scenarios}),
      AllOf(HasSubstr("s.csv:1"), HasSubstr("'scenario' is missing")));
}

TEST_F(ValidateTable, KorthikantisRowsKeepRecomputationAndChunks) {
  const MeasuredTable table = Table(
      "k.csv",
      "# source\n"
      "where,model,mode,gpus,tp,pp,dp,vp,gbs,mbs,recompute,comm,layers,hidden,"
      "heads,seq,par_opt_gib,act_gib,act_pct_of_no_recompute_tp,"
      "iteration_time_s\n"
      "tab5,gpt3-175B,seqsel,64,8,8,1,3,64,1,attn_only,rs_ag,96,12288,96,2048,"
      ",,,13.75\n"
      "fig1,megatron-22B,none,8,8,1,1,1,4,4,none,ar,48,6144,64,2048,45,55,,\n"
      "fig7,megatron-22B,none,8,8,1,1,1,4,4,none,ar,48,6144,64,2048,,,100,\n");
  const MeasuredRow& row = table.rows.at(0);
  EXPECT_EQ(row.config.grad_checkpoint, trials::kRecomputeSelective);
  EXPECT_EQ(row.config.sp, row.config.tp);
  EXPECT_EQ(row.config.model_chunks, 3);
  EXPECT_EQ(row.config.microbatches, 64);
  EXPECT_DOUBLE_EQ(row.step_time_s, 13.75);
  EXPECT_NEAR(table.rows.at(1).peak_memory_bytes, 100.0 * 1024 * 1024 * 1024,
              1e3);
  EXPECT_THAT(table.rows.at(2).left_out, HasSubstr("neither"));
}

constexpr const char* kMosaicHeader =
    "Model,SeqLen (T),# GPUs,GPU,MFU,HFU,Model TFLOP,MicroBatchSize,GradAccum,"
    "GlobalBatchSize,Throughput (S/s),Throughput (T/s),Throughput (T/s/GPU),"
    "GlobalBatchSize (T),Precision,MP Mode,Sharding Strategy,Activation "
    "Checkpointing,Activation CPUOffload,NumParams,section\n";

TEST_F(ValidateTable, MosaicmlsThroughputInTokensBecomesAStepTime) {
  const MeasuredTable table = Table(
      "m.csv",
      std::string(kMosaicHeader) +
          "7b,2048,8,a100_80gb,64,64,200,6,2,96,12,26000,3250,196608,amp_bf16,"
          "DEFAULT,FULL_SHARD,False,False,6658859008,\"A100, with 400 Gbps\"\n"
          "7b,2048,16,a100_80gb,64,64,200,6,2,192,12,26000,3250,393216,"
          "amp_bf16,DEFAULT,HYBRID_SHARD,False,False,6658859008,A100\n"
          "9z,2048,8,a100_80gb,64,64,200,6,2,96,12,26000,3250,196608,amp_bf16,"
          "DEFAULT,FULL_SHARD,False,False,1,A100\n");
  const MeasuredRow& row = table.rows.at(0);
  EXPECT_DOUBLE_EQ(row.step_time_s, 196608.0 / 26000.0);
  EXPECT_EQ(row.config.zero_stage, 3);
  EXPECT_EQ(row.config.dp, 8);
  EXPECT_EQ(row.workload.batch_size, 96);
  EXPECT_EQ(trials::ParameterCount(row.workload.model), 6658859008);
  EXPECT_DOUBLE_EQ(row.cluster.inter.bandwidth_bytes_per_s * 8, 0.85 * 50e9);
  EXPECT_FALSE(row.framework.sharding.shard_within_host);
  EXPECT_EQ(table.rows.at(1).config.zero_stage, 3);
  EXPECT_TRUE(table.rows.at(1).framework.sharding.shard_within_host);
  EXPECT_THAT(table.rows.at(2).left_out, HasSubstr("is not known"));
}

TEST_F(ValidateTable, MegatronsGoldenValuesAreMemoryInGib) {
  const MeasuredTable table = Table(
      "g.csv",
      "case,family,env,iter_time_median_s,mem_max_alloc_gib,tp,pp,vpp,"
      "vpp_layers_per_stage,cp,ep,mbs,gbs,seq,layers,hidden,heads,ffn,experts,"
      "dist_opt,fsdp,seq_parallel,recompute,bf16,fp16,fp8\n"
      "a,gpt,dev_dgx_a100,0.2,2,2,2,,3,,,4,32,1024,12,512,8,,,true,,,full,true,"
      ",\n"
      "b,t5,dev_dgx_a100,0.2,2,2,2,,,,,4,32,1024,12,512,8,,,,,,,true,,\n");
  const MeasuredRow& row = table.rows.at(0);
  EXPECT_EQ(row.config.dp, 2);
  EXPECT_EQ(row.config.model_chunks, 2);  // 12 layers, 2 stages, 3 a chunk
  EXPECT_EQ(row.config.zero_stage, 1);
  EXPECT_DOUBLE_EQ(row.peak_memory_bytes, 2.0 * 1024 * 1024 * 1024);
  EXPECT_TRUE(std::isnan(row.step_time_s));  // a tiny model
  EXPECT_THAT(table.rows.at(1).left_out, HasSubstr("t5"));
}

constexpr const char* kGoldenHeader =
    "case,family,env,mem_max_alloc_gib,tp,pp,vpp,vpp_layers_per_stage,cp,ep,"
    "mbs,gbs,seq,layers,hidden,heads,ffn,experts,dist_opt,fsdp,seq_parallel,"
    "recompute,bf16,fp16,fp8,impl,iter_time_median_s\n";
constexpr const char* kGoldenSizes =
    ",2,2,2,,,,,4,32,1024,12,512,8,,,,,,,true,,,te,\n";

// Rows of this case, family and environment.
std::string Golden(const std::vector<std::string>& rows) {
  std::string text = kGoldenHeader;
  for (const std::string& row : rows) {
    text += row + kGoldenSizes;
  }
  return text;
}

TEST_F(ValidateTable,
       GoldenRowsOfUnknownEnvironmentsOrWithoutTrainingAreLeftOut) {
  const fs::path path = Write(
      "g.csv", Golden({"te,gpt,dev_dgx_a100", "te,gpt,dev_dgxh100_coreweave",
                       "te,gpt,dev_dgx_gb200", "te,gpt,dev_cluster",
                       "gpt_grpo_tp1_pp1,gpt,dev_dgx_a100",
                       "gpt_inference_tp1,gpt,dev_dgx_a100"}));
  const MeasuredTable table = ReadAnyTable(path, {});
  EXPECT_EQ(table.rows.at(0).cluster.gpu.architecture, "ampere_ga100");
  EXPECT_EQ(table.rows.at(1).cluster.gpu.architecture, "hopper");
  EXPECT_THAT(table.rows.at(2).left_out, HasSubstr("'dev_dgx_gb200'"));
  EXPECT_THAT(table.rows.at(3).left_out, HasSubstr("'dev_cluster'"));
  EXPECT_EQ(Predict(table)[2].Status(), "left_out");
  EXPECT_THAT(table.rows.at(4).left_out, HasSubstr("reinforcement learning"));
  EXPECT_THAT(table.rows.at(5).left_out, HasSubstr("inference"));
  const MeasuredTable named = ReadAnyTable(
      path, {.scenarios = {}, .cluster = "h100-efa", .framework = {}});
  EXPECT_EQ(named.rows.at(3).left_out, "");
}

TEST_F(ValidateTable, SimumaxsStepsHaveCutModelsAndAllocatedPeaks) {
  const MeasuredTable table = Table(
      "s.csv",
      "case,model,layers,gpus,tp,pp,cp,ep,dp,microbatches,micro_batch_size,"
      "sequence_length,precision,sp,cp_communication,fused_cross_entropy,"
      "step_time_s,peak_allocated_gib\n"
      "a,llama3-70b,12,8,4,1,1,1,2,4,1,4096,bf16,1,,1,0.41,39.07\n");
  const MeasuredRow& row = table.rows.at(0);
  EXPECT_EQ(row.workload.model.layers, 12);
  EXPECT_EQ(row.workload.model.kv_heads, 8);
  EXPECT_EQ(row.workload.batch_size, 8);
  EXPECT_EQ(row.config.sp, 4);
  EXPECT_EQ(row.config.zero_stage, 1);
  EXPECT_EQ(row.peak_memory, PeakMemory::kAllocated);
  EXPECT_DOUBLE_EQ(row.peak_memory_bytes, 39.07 * 1024 * 1024 * 1024);
}

TEST_F(ValidateTable, ClustersAndFrameworksNextToTheTableAreFound) {
  fs::create_directories(folder_.path() / "tables");
  for (const char* kind : {"clusters", "frameworks"}) {
    fs::create_directories(folder_.path() / kind);
  }
  fs::copy_file(fakes::SourceFolder() / "experiments/clusters/h100-efa.toml",
                folder_.path() / "clusters/my-cluster.toml");
  Write("frameworks/mine.toml", "overlap_slowdown = 0.21\n");
  const fs::path path =
      Write("tables/ultrascale.csv",
            "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,"
            "status,step_time_s,cluster,framework\n"
            "1b-8,8,8,1,1,0,1,32,ok,3,my-cluster,mine\n");
  const MeasuredTable table = ReadAnyTable(path, {});
  EXPECT_EQ(table.rows.at(0).cluster.gpu.architecture, "hopper");
  EXPECT_EQ(table.rows.at(0).framework.collectives.overlap_slowdown, 0.21);
}

TEST_F(ValidateTable, InternevosRowsShardInGroupsThatTheirNamesContain) {
  const std::string sizes =
      ",8,8,1,1,1,2,4,ok,4,llama,32,4096,32,103168,2048,a100-selene,"
      "megatron-core\n";
  const MeasuredTable table =
      Table("internevo.csv",
            "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,"
            "status,step_time_s,family,layers,hidden_size,attention_heads,"
            "vocab_size,sequence_length,cluster,framework\nie-tp1-z-1" +
                sizes + "ie-tp1-z8" + sizes + "ie-tp2-z4" + sizes +
                "ie-flops-ck1" + sizes);
  std::vector<int> groups;
  for (const MeasuredRow& row : table.rows) {
    groups.push_back(row.framework.sharding.zero_group_ranks);
  }
  EXPECT_THAT(groups, ::testing::ElementsAre(0, 8, 4, 8));
  // The settings correct the column.
  EXPECT_THAT(table.rows[0].framework_name, StartsWith("internevo"));
}

TEST_F(ValidateTable, GoldenCasesWithExpertsHaveThemAndTheirChoices) {
  const MeasuredTable table = Table(
      "g.csv",
      "case,family,env,mem_max_alloc_gib,tp,pp,vpp,vpp_layers_per_stage,cp,ep,"
      "etp,mbs,gbs,seq,layers,hidden,heads,ffn,experts,dist_opt,fsdp,"
      "seq_parallel,recompute,bf16,fp16,fp8,impl,iter_time_median_s\n"
      "te_8experts,moe,dev_dgx_a100,2,2,1,,,,2,,8,32,1024,12,512,8,,8,true,,,,"
      "true,,,te,"
      "\n"
      "te_top2router,moe,dev_dgx_a100,2,2,1,,,,2,,8,32,1024,12,512,8,,8,true,,,"
      ",true,,,"
      "te,\n"
      "te_etp1,moe,dev_dgx_a100,2,2,1,,,,2,1,4,32,1024,12,512,8,,8,,,,,true,,,"
      "te,\n");
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0].workload.model.experts, 8);
  EXPECT_EQ(table.rows[0].workload.model.experts_per_token, 1);
  EXPECT_EQ(table.rows[0].config.ep, 2);
  EXPECT_EQ(table.rows[1].workload.model.experts_per_token, 2);
  EXPECT_FALSE(table.rows[0].framework.experts.whole_experts);
  EXPECT_TRUE(table.rows[2].framework.experts.whole_experts);
  const std::vector<Prediction> predictions = Predict(table);
  EXPECT_GT(predictions[1].peak_memory_bytes,
            1.1 * predictions[0].peak_memory_bytes);
}

TEST_F(ValidateTable, TheNameOfAGoldenCaseTellsItsAttention) {
  const MeasuredTable table =
      Table("g.csv",
            Golden({"te_plain,gpt,dev_a100", "te_resume,gpt,dev_a100",
                    "te_resume,gpt,lts_dgxa100_dracooci-x"}) +
                "resume,gpt,dev_a100,2,2,2,,,,,4,32,1024,12,512,8,,,,,,,true,,,"
                "local,\n"
                "te_cp,gpt,dev_a100,2,2,2,,,2,,4,32,1024,12,512,8,,,,,,,true,,,"
                "te,\n");
  ASSERT_EQ(table.rows.size(), 5U);
  const auto flash = [&](std::size_t row) {
    return table.rows[row].framework.kernels.flash_attention;
  };
  EXPECT_FALSE(flash(0));
  EXPECT_TRUE(flash(1));
  EXPECT_FALSE(flash(2));
  EXPECT_FALSE(flash(3));
  EXPECT_TRUE(flash(4));
  EXPECT_NE(table.rows[0].framework_name, table.rows[1].framework_name);
  EXPECT_EQ(table.rows[0].peak_rank, PeakRank::kLast);
}

TEST_F(ValidateTable, PeaksAreThoseOfTheRankAndKindThatTheTableTells) {
  const auto predict = [&](const std::string& rank, const std::string& kind) {
    const fs::path path =
        Write("t.csv",
              "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,"
              "status,step_time_s,peak_memory_gb,peak_rank,peak_memory\n"
              "ultrascale-1b-8,8,4,1,2,1,4,16,ok,3.4,41.8," +
                  rank + "," + kind + "\n");
    return Predict(ReadAnyTable(path, {})).at(0).peak_memory_bytes;
  };
  const double first = predict("first", "reserved");
  const double last = predict("last", "reserved");
  EXPECT_NE(first, last);
  EXPECT_DOUBLE_EQ(predict("fullest", "reserved"), std::max(first, last));
  EXPECT_LT(predict("first", "computed"), predict("first", "allocated"));
  EXPECT_LT(predict("first", "allocated"), first);
  EXPECT_LT(first, predict("first", "device"));
  EXPECT_THAT(fakes::ErrorOf([&] { return predict("middle", "reserved"); }),
              AllOf(HasSubstr("t.csv:2"), HasSubstr("peak_rank 'middle'"),
                    HasSubstr("known: fullest, first, last")));
}

TEST_F(ValidateTable, CsvPredictsInTheUnitOfTheTable) {
  const auto predicted_peak = [&](const std::string& unit) {
    const fs::path path =
        Write("t.csv",
              "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,"
              "status,step_time_s,peak_memory_gb,peak_memory_unit\n"
              "ultrascale-1b-8,8,8,1,1,0,1,32,ok,3.3,36.7," +
                  unit + "\n");
    const MeasuredTable table = ReadAnyTable(path, {});
    const common::CsvTable csv = common::CsvTable::Read(
        Write("predicted.csv", ToCsv(table, Predict(table))));
    return TableRow{csv, csv.rows().at(0)}.Number("predicted_peak_memory_gb");
  };
  EXPECT_NEAR(predicted_peak("GB") / predicted_peak("GiB"),
              1024.0 * 1024 * 1024 / 1e9, 1e-9);
}

TEST_F(ValidateTable, CallsOnAGpuAreTimedByTheShareOfTheRateThatTheyReach) {
  const MeasuredTable table = Table(
      "calls.csv",
      "gpu,peak_tflops,operator,shape,efficiency\n"
      "a100-sxm-80gb,312,matmul,\"b=1, m=4096, k=1024, n=8192, layout=TN, "
      "accumulate=False, out_dtype=bf16\",0.8\n"
      "a100-sxm-80gb,312,matmul,\"b=1, m=1024, k=4096, n=8192, layout=NT, "
      "accumulate=True, out_dtype=fp32\",0.7\n"
      "a100-sxm-80gb,312,sdp_bwd,\"batch=1, seq_len=4096, head_num=32, "
      "kv_head_num=8, qk_head_dim=128, v_head_dim=128\",1.0\n"
      "a100-sxm-80gb,312,conv,\"b=1\",0.5\n");
  const std::vector<Prediction> predictions = Predict(table);
  EXPECT_NEAR(table.rows[0].step_time_s, 68.72e9 / (0.8 * 312e12), 1e-8);
  // The products of one layer are one family, in whatever direction.
  EXPECT_EQ(table.rows[0].scenario, table.rows[1].scenario);
  EXPECT_EQ(table.rows[1].part.name, "gemm, adds");
  EXPECT_GT(predictions[1].step_time_s, predictions[0].step_time_s);
  // Five products of 2 s^2 h; half of the scores are masked.
  EXPECT_NEAR(table.rows[2].step_time_s, 5 * 137.4e9 / 312e12, 1e-6);
  EXPECT_NEAR(predictions[2].step_time_s / table.rows[2].step_time_s, 1, 0.4);
  EXPECT_THAT(table.rows[3].left_out, HasSubstr("'conv' is not simulated"));
}

TEST_F(ValidateTable, AcesosOperatorsAreTimedWithTheirAllReduces) {
  const MeasuredTable table =
      Table("o.csv",
            "model,mbs,tp,algo,op_name,forward-compute,backward-compute\n"
            "gpt_1_3B,4,1,0,enc-attention-dense,800,1600\n"
            "gpt_1_3B,4,4,0,enc-attention-dense,900,400\n"
            "gpt_1_3B,4,4,0,enc-attention-context,900,400\n"
            "gpt_1_3B,4,4,1,enc-attention-dense,900,400\n"
            "gpt_1_3B,8,1,0,enc-attention-dense,10000000,10000000\n"
            "resnet_2B,4,1,0,conv1,900,400\n"
            "t5_3B,4,1,0,dec-attention-dense,900,400\n");
  const MeasuredRow& whole = table.rows.at(0);
  EXPECT_DOUBLE_EQ(whole.step_time_s, 2.4e-3);
  EXPECT_EQ(whole.part.name, "output");
  EXPECT_EQ(whole.workload.model.hidden_size, 2048);
  const std::vector<Prediction> predictions = Predict(table);
  // 2 * 8192 * 2048^2 operations and twice as many back, at 125 TFLOPS or less.
  EXPECT_GT(predictions[0].step_time_s, 3 * 68.7e9 / 125e12);
  EXPECT_LT(predictions[0].step_time_s, 2 * 3 * 68.7e9 / 125e12);
  // A quarter of the product, and an all-reduce of 32 MiB among four.
  EXPECT_GT(predictions[1].step_time_s,
            predictions[0].step_time_s / 4 + 33.5e6 / 100e9);
  EXPECT_EQ(table.rows[2].part.forward_all_reduces, 0);
  // Two operators of one configuration are one time in the sum over the block.
  const Comparison block = Compare(table, predictions).front();
  EXPECT_EQ(block.scope, "block (sum)");
  EXPECT_EQ(block.rows, 3);
  EXPECT_EQ(block.step_time.rows, 2);
  EXPECT_TRUE(std::isnan(block.spearman));  // operators are not ranked
  EXPECT_THAT(table.rows[3].left_out, HasSubstr("split the other way"));
  EXPECT_EQ(table.rows[4].left_out, "did not run");
  EXPECT_THAT(table.rows[5].left_out, HasSubstr("convolutions"));
  EXPECT_THAT(table.rows[6].left_out, HasSubstr("cross attention"));
}

TEST_F(ValidateTable, CollectivesAreGroupedByTheirGpus) {
  const MeasuredTable table = Table("n.csv",
                                    "gpu,ngpus,bytes,out_of_place_us\n"
                                    "v100,2,1000000000,44643\n"
                                    "v100,8,1000000000,13021\n");
  const std::vector<Prediction> predictions = Predict(table);
  // 2 (D - 1) / D bytes over one ring of 22.4 GB/s, and over six.
  EXPECT_NEAR(predictions[0].step_time_s, 1e9 / 22.4e9, 1e-4);
  EXPECT_NEAR(predictions[1].step_time_s, 1.75e9 / (6 * 22.4e9), 1e-4);
  const std::vector<Comparison> all = Compare(table, predictions);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].scope, "all-reduce x2");
  EXPECT_EQ(all[1].half, Half::kOther);  // nothing is fitted to them
  EXPECT_EQ(all[2].scope, "all-reduce x8");
  EXPECT_EQ(all[3].half, Half::kOther);
}

TEST_F(ValidateTable, AcesosCollectivesHaveRowsOfThreeCells) {
  const MeasuredTable table =
      Table("c.csv",
            "p2p_inter_node,1,2,4,8\n"
            "p2p_inter_node,3.88,4.45,4.50,5.10\n"
            "prim_gpt_13B_all_gather_4gpus,data_size(MB),ms\n"
            "prim_gpt_13B_all_gather_4gpus,10,1.5\n"
            "prim_gpt_13B_all_gather_4gpus,0,0.1\n"
            "prim_gpt_13B_all_reduce_8gpus,99,1000000000\n");
  EXPECT_THAT(table.rows.at(0).left_out, HasSubstr("messages"));
  EXPECT_THAT(table.rows[1].left_out, HasSubstr("titles"));
  const MeasuredRow& row = table.rows[2];
  EXPECT_EQ(row.left_out, "");
  EXPECT_EQ(row.part.name, "all-gather");
  EXPECT_DOUBLE_EQ(row.part.bytes, 40.0 * 1024 * 1024);  // what is gathered
  EXPECT_DOUBLE_EQ(row.step_time_s, 1.5e-3);
  EXPECT_EQ(row.cluster.gpus(), 4);
  EXPECT_THAT(table.rows[3].left_out, HasSubstr("less than the MiB"));
  EXPECT_EQ(table.rows[4].left_out, "did not run");
}

TEST_F(ValidateTable, CsvHasTheTablesColumnsThenPredictionsAndMachines) {
  const MeasuredTable table = Table(
      "t.csv",
      "note,scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,"
      "status,step_time_s,peak_memory_gb\n"
      "\"a, b\",ultrascale-1b-8,8,8,1,1,0,1,32,ok,3.3,36.7\n"
      ",ultrascale-1b-8,8,8,1,1,0,32,1,oom,,\n"
      ",ultrascale-1b-64,64,1,1,64,0,32,8,oom,,\n");
  const std::string csv = ToCsv(table, Predict(table));
  EXPECT_THAT(
      csv,
      StartsWith("note,scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,"
                 "microbatches,status,step_time_s,peak_memory_gb,predicted_"
                 "step_time_s,predicted_peak_memory_gb,predicted_status,"
                 "measured_step_time_s,measured_peak_memory_gb,measured_status,"
                 "row_source,row_scenario,row_half,row_part,row_gpu,"
                 "row_architecture,row_framework,row_gpus,row_hosts,"
                 "row_zero_stage,row_kind,row_clean,row_guess,"
                 "predicted_fit_probability\n"
                 "\"a, b\",ultrascale-1b-8,8,8,1,1,0,1,32,ok,3.3,36.7,"));
  // One that fits, one that does not, one with more stages than blocks.
  EXPECT_THAT(csv, HasSubstr(",ok,3.3,36.7,ok,"));
  EXPECT_THAT(csv, HasSubstr(",oom,,,oom,"));
  EXPECT_THAT(
      csv, EndsWith("32,8,oom,,,,,refused,,,oom,t,ultrascale-1b-64,fitted,,"
                    "H100-SXM5-80GB,hopper,nanotron,64,8,0,CPU-bound,1,,\n"));
}

TEST_F(ValidateTable, EightBitsWithoutTheirRateAreLeftOutNotOutOfMemory) {
  const MeasuredTable table =
      Table("t.csv",
            "precision,cluster,scenario,gpus,dp,tp,pp,zero_stage,"
            "micro_batch_size,microbatches,status,step_time_s\n"
            "fp8,a100-selene,ultrascale-1b-8,8,8,1,1,0,1,32,ok,6.5\n"
            "bf16,a100-selene,ultrascale-1b-8,8,8,1,1,0,1,32,ok,6.5\n");
  const std::vector<Prediction> predictions = Predict(table);
  EXPECT_EQ(predictions[0].Status(), "left_out");
  EXPECT_THAT(predictions[0].left_out, HasSubstr("has no fp8"));
  EXPECT_EQ(predictions[1].Status(), "ok");
}

TEST_F(ValidateTable, LayoutsHaveABatchOrAStepAndAreExplainedByName) {
  const MeasuredTable table =
      Table("misc_small_tables.csv",
            "model,framework,gpu,gpus,seq,precision,dp,tp,pp,cp,fsdp,"
            "micro_batch_size,global_batch,recompute,status,step_time_s,"
            "tokens_per_s_gpu\n"
            "LLAMA3-8B,nemo 24,H100,8,8192,fp8,,1,1,2,,1,128,,ok,,11879\n"
            "llama-7b,fsdp1 + compile,H100-80GB,96,4096,bf16,,,,,HSDP,2,,none,"
            "ok,0.85,9600\n"
            "llama-7b,fsdp1 + compile,L4,96,4096,bf16,,,,,HSDP,2,,none,ok,1,1\n"
            "llama-7b,fsdp1 + compile,H100-80GB,96,4096,bf16,,,,,HSDP,2,,mlp,"
            "ok,1,1\n");
  const MeasuredRow& nemo = table.rows.at(0);
  EXPECT_NEAR(nemo.step_time_s, 128 * 8192 / (11879.0 * 8), 1e-9);
  EXPECT_EQ(nemo.config.dp, 4);
  EXPECT_EQ(nemo.config.microbatches, 32);
  EXPECT_EQ(nemo.workload.precision, trials::Precision::kFp8);
  EXPECT_EQ(nemo.workload.model.kv_heads, 8);
  const MeasuredRow& hybrid = table.rows.at(1);
  EXPECT_EQ(hybrid.step_time_s, 0.85);
  EXPECT_EQ(hybrid.config.zero_stage, 3);
  EXPECT_TRUE(hybrid.framework.sharding.shard_within_host);
  EXPECT_THAT(table.rows.at(2).left_out, HasSubstr("'L4' is not known"));
  EXPECT_THAT(table.rows.at(3).left_out, HasSubstr("'mlp'"));
}

TEST_F(ValidateTable, StagesHaveTheLayersThatTheRowStates) {
  const auto table = [&](const std::string& layers) {
    return Table("sailor_validation.csv",
                 "model,gpu,gpus,dp,tp,pp,layers_per_stage,micro_batch_size,"
                 "microbatches,global_batch,step_time_s,peak_memory_bytes\n"
                 "OPT-350M,GH-96,64,4,4,4," +
                     layers + ",8,32,1024,2.7,25140658176\n");
  };
  const auto peak = [&](const std::string& layers) {
    return Predict(table(layers)).at(0).peak_memory_bytes;
  };
  EXPECT_EQ(peak("7;6;6;7"), peak(""));
  EXPECT_LT(peak("5;7;7;7"), 0.95 * peak(""));
  for (const std::string wrong : {"7;6;13", "7;6;six;7", "0;9;9;8"}) {
    EXPECT_THAT(table(wrong).rows.at(0).left_out,
                HasSubstr("layers_per_stage is '" + wrong + "'"));
  }
}

TEST_F(ValidateTable, HalvesAreByModelInTheOrderOfTheirFirstRow) {
  const MeasuredTable table = Table(
      "mine.csv",
      "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,status,"
      "step_time_s,layers,hidden_size,attention_heads,sequence_length,cluster\n"
      "a,8,8,1,1,0,1,32,ok,3,12,1024,16,1024,h100-efa\n"
      "b,8,8,1,1,0,1,16,ok,2,24,1024,16,1024,h100-efa\n"
      "c,8,4,2,1,0,1,64,ok,4,12,1024,16,1024,h100-efa\n");
  const std::vector<Comparison> all = Compare(table, Predict(table));
  ASSERT_GE(all.size(), 3U);
  EXPECT_EQ(all[0].half, Half::kAll);
  EXPECT_EQ(all[0].rows, 3);
  EXPECT_EQ(all[1].half, Half::kFitted);
  EXPECT_EQ(all[1].rows, 2);
  EXPECT_EQ(all[2].half, Half::kOther);
  EXPECT_EQ(all[2].rows, 1);
  EXPECT_EQ(all[2].scenarios, 1);
}

// A job in the slow state, or with a pipeline from before its mend, is not
// clean; a crash says nothing about memory.
TEST_F(ValidateTable, StatesOfAJobAreToldApart) {
  const MeasuredTable table = Table(
      "ultrascale_raw.csv",
      "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,outcome,"
      "step_time_s,reserved_gib,after_pp_fix,allreduce_intra_gbs\n"
      "1b-16,16,16,1,1,0,1,16,Success,3,20,False,458\n"
      "1b-16,16,8,1,2,0,1,32,Success,3,20,False,458\n"
      "1b-16,16,8,1,2,0,1,32,Success,3,20,True,458\n"
      "1b-16,16,8,1,2,0,1,32,Success,3,20,True,425\n"
      "1b-16,16,16,1,1,0,16,1,OOM,,,False,425\n"
      "1b-16,16,16,1,1,0,1,16,Other,,,False,458\n");
  std::vector<bool> clean;
  for (const MeasuredRow& row : table.rows) {
    clean.push_back(row.clean);
  }
  EXPECT_THAT(clean,
              testing::ElementsAre(true, false, true, false, true, false));
  EXPECT_EQ(table.rows[2].framework.collectives.network_contention, 0.0);
  EXPECT_GT(table.rows[3].framework.collectives.network_contention, 1.0);
  const Comparison all = Compare(table, Predict(table)).front();
  EXPECT_EQ(all.recall.of, 1);
  EXPECT_EQ(all.ran_called_oom.of, 4);
}

TEST_F(ValidateTable, RowsThatRanButAreSaidNotToFitAreCounted) {
  const MeasuredTable table =
      Table("ultrascale.csv", std::string(kHeader) +
                                  "ultrascale-1b-8,8,8,1,1,0,1,32,ok,3,36\n"
                                  "ultrascale-1b-8,8,8,1,1,0,32,1,ok,2,36\n"
                                  "ultrascale-1b-8,8,8,1,1,0,1,32,oom,,\n"
                                  "ultrascale-1b-8,8,8,1,1,0,32,1,oom,,\n"
                                  "ultrascale-1b-8,8,8,1,1,0,32,1,oom,,\n");
  const std::vector<Prediction> predictions = Predict(table);
  const std::vector<Comparison> all = Compare(table, predictions);
  EXPECT_EQ(all[0].ran_called_oom.rows, 1);
  EXPECT_EQ(all[0].ran_called_oom.of, 2);
  EXPECT_EQ(all[0].recall.rows, 2);
  EXPECT_EQ(all[0].recall.of, 3);
  EXPECT_THAT(ToJson(table, all),
              HasSubstr("\"ran_called_out_of_memory\":"
                        "{\"rows\":1,\"of\":2,\"share\":0.5},"
                        "\"failed_called_fit\":{\"rows\":1,\"of\":3,"));
}

TEST_F(ValidateTable, RowsNearTheBestOfTheirScenarioAreASubset) {
  const MeasuredTable table =
      Table("ultrascale.csv", std::string(kHeader) +
                                  "ultrascale-1b-8,8,8,1,1,0,1,32,ok,3,36\n"
                                  "ultrascale-1b-8,8,8,1,1,0,2,16,ok,6,36\n"
                                  "ultrascale-1b-8,8,8,1,1,0,4,8,ok,6.1,36\n"
                                  "ultrascale-1b-8,8,8,1,1,0,8,4,oom,,\n"
                                  "ultrascale-8b-8,8,1,8,1,0,1,64,ok,40,19\n");
  const std::vector<Comparison> all = Compare(table, Predict(table));
  const auto near = std::find_if(all.begin(), all.end(), [](const auto& c) {
    return c.scope == "within 2x of best";
  });
  ASSERT_NE(near, all.end());
  EXPECT_EQ(near->rows, 3);
}

TEST_F(ValidateTable, ARefusedRowThatRanIsNotCalledOutOfMemory) {
  const MeasuredTable table = Table(
      "ultrascale.csv",
      std::string(kHeader) + "ultrascale-1b-64,64,1,1,64,0,32,8,ok,3,36\n");
  const std::vector<Comparison> all = Compare(table, Predict(table));
  EXPECT_EQ(all[0].ran_called_oom.rows, 0);
  EXPECT_EQ(all[0].ran_called_oom.of, 1);
}

}  // namespace studies::measured_table_test
