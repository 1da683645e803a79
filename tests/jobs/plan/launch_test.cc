#include "jobs/plan/launch.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::launch_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

Job LlamaOfItsFile(const std::string& framework) {
  Job job = LlamaJob(framework);
  job.config_json = Llama8b();
  return job;
}

constexpr trials::ParallelConfig kZero3 = {
    .dp = 16, .zero_stage = 3, .microbatches = 16};

TEST(Launch, MegatronGetsThePlanTheModelAndARendezvous) {
  const std::string text =
      LaunchText(LlamaOfItsFile("megatron-lm"), {.dp = 4,
                                                 .tp = 2,
                                                 .pp = 2,
                                                 .zero_stage = 1,
                                                 .microbatches = 32,
                                                 .grad_checkpoint = 1,
                                                 .sp = 2});
  EXPECT_THAT(text, AllOf(HasSubstr("torchrun --nnodes=2"),
                          HasSubstr("\"--rdzv-endpoint=$HEAD_NODE:29500\""),
                          HasSubstr("--nproc-per-node=8"),
                          HasSubstr("--tensor-model-parallel-size 2"),
                          HasSubstr("--pipeline-model-parallel-size 2"),
                          HasSubstr("--micro-batch-size 2"),
                          HasSubstr("--use-distributed-optimizer"),
                          HasSubstr("--sequence-parallel"),
                          HasSubstr("--recompute-granularity full")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("--num-layers 32"), HasSubstr("--bf16"),
                    HasSubstr("--num-query-groups 8"), HasSubstr("--swiglu"),
                    HasSubstr("--norm-epsilon 0.00001"),
                    HasSubstr("--untie-embeddings-and-output-weights"),
                    HasSubstr("--mock-data"), Not(HasSubstr("--fp8")),
                    Not(HasSubstr("--num-experts"))));
}

// torchtitan's program cuts the logits into eight parts, Megatron-LM's does
// not.
TEST(Launch, NoCommandIsPrintedForALossThatItsProgramComputesOtherwise) {
  const auto text = [](const char* framework, const char* setting) {
    Job job = LlamaOfItsFile(framework);
    job.workload.training = job.framework.adapter->training();
    ReadTraining(trials::TrainingTable({setting}), job.workload.training);
    return LaunchText(job, {.dp = 16, .microbatches = 16});
  };
  EXPECT_THAT(text("torchtitan", "loss_chunks=8"), HasSubstr("torchrun"));
  EXPECT_THAT(text("torchtitan", "loss_chunks=1"),
              HasSubstr("not with the loss in one part"));
  EXPECT_THAT(text("megatron-lm", "loss_chunks=8"),
              HasSubstr("not with loss in 8 chunks"));
  EXPECT_THAT(text("megatron-lm", "packed_tokens=512"),
              HasSubstr("no command"));
}

TEST(Launch, PrecisionIsThatOfThePlan) {
  Job job = LlamaOfItsFile("megatron-lm");
  job.workload.precision = trials::Precision::kFp8;
  EXPECT_THAT(LaunchText(job, kZero3),
              AllOf(HasSubstr("--bf16"), HasSubstr("--fp8-format hybrid")));
  job.workload.precision = trials::Precision::kFp32;
  EXPECT_THAT(LaunchText(job, kZero3),
              AllOf(Not(HasSubstr("--bf16")), Not(HasSubstr("--fp8"))));
}

TEST(Launch, TorchtitanTrainsThatModelOrSaysThatItHasNone) {
  Job job = LlamaOfItsFile("torchtitan");
  EXPECT_THAT(LaunchText(job, kZero3),
              AllOf(HasSubstr("--config sizes"), HasSubstr("--compile.enable"),
                    HasSubstr(" activation-checkpoint:none\n"),
                    HasSubstr("titan_model.py: --write DIR writes it"),
                    Not(HasSubstr("disable_cuda_graphs"))));
  EXPECT_THAT(LaunchText(job, {.dp = 4, .pp = 4, .microbatches = 16}),
              HasSubstr("--training.disable_cuda_graphs"));
  job.workload.model.norm_bias = true;
  EXPECT_THAT(LaunchText(job, kZero3),
              AllOf(HasSubstr("no command (torchtitan"),
                    HasSubstr("it has RMSNorm"), Not(HasSubstr("torchrun"))));
  EXPECT_EQ(LaunchJson(job, kZero3)["command"], "");
  const fakes::TemporaryFolder folder;
  EXPECT_THROW((void)WriteLaunch(job, kZero3, {.path = folder.path()}),
               common::InputError);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Launch, FilesAreComplete) {
  EXPECT_THAT(LaunchText(LlamaOfItsFile("deepspeed"), kZero3),
              AllOf(HasSubstr("ds_config.json with these keys:"),
                    HasSubstr("\"gradient_accumulation_steps\": 16"),
                    HasSubstr("\"train_micro_batch_size_per_gpu\": 1"),
                    HasSubstr("\"stage\": 3"), HasSubstr("\"AdamW\"")));
  EXPECT_THAT(
      LaunchText(LlamaOfItsFile("nanotron"),
                 {.dp = 8, .tp = 2, .microbatches = 32, .sp = 2}),
      AllOf(HasSubstr("  tp: 2\n"), HasSubstr("    num_hidden_layers: 32\n"),
            HasSubstr("lr_decay_style: cosine")));
}

TEST(Launch, AProgramIsWrittenBesideItsFile) {
  const fakes::TemporaryFolder folder;
  const Job job = LlamaOfItsFile("deepspeed");
  (void)WriteLaunch(job, kZero3, {.path = folder.path()});
  const fs::path program = folder.path() / "train_deepspeed.py";
  EXPECT_THAT(common::ReadFile(program), HasSubstr("deepspeed.initialize"));
  EXPECT_THAT(common::ReadFile(folder.path() / "launch.sh"),
              HasSubstr("\"$here/train_deepspeed.py\""));
}

TEST(Launch, AModuleOfTheFolderIsFoundFromElsewhere) {
  const fakes::TemporaryFolder folder;
  (void)WriteLaunch(LlamaOfItsFile("torchtitan"), kZero3,
                    {.path = folder.path()});
  EXPECT_TRUE(fs::exists(folder.path() / "titan_model.py"));
  EXPECT_THAT(common::ReadFile(folder.path() / "launch.sh"),
              HasSubstr("export \"PYTHONPATH=$here\""));
}

TEST(Launch, AFolderCanBeCopiedToAnotherMachine) {
  const fakes::TemporaryFolder folder;
  const Job job = LlamaOfItsFile("deepspeed");
  (void)WriteLaunch(job, kZero3, {.path = folder.path()});
  const std::string script = common::ReadFile(folder.path() / "launch.sh");
  EXPECT_THAT(script, AllOf(HasSubstr("\"$here/config.json\""),
                            Not(HasSubstr(folder.path().string())),
                            Not(HasSubstr(job.config_json.string()))));
  EXPECT_EQ(common::ReadFile(folder.path() / "config.json"),
            common::ReadFile(job.config_json));
}

TEST(Launch, AFrameworkWithoutAnAdapterHasNoCommand) {
  EXPECT_EQ(LaunchText(LlamaJob("colossalai"), {.dp = 16}), "");
  EXPECT_EQ(LaunchJson(LlamaJob("colossalai"), {.dp = 16})["command"], "");
}

TEST(Launch, AVariableWithASpaceIsAnAssignmentForAShell) {
  const fakes::TemporaryFolder folder;
  const fs::path file = folder.path() / "mine.toml";
  common::StoreFile(file,
                    "title = \"mine\"\ncommand = [\"train\"]\n"
                    "settings = [{variable = \"N\", text = \"a b\"}]\n");
  Job job = LlamaJob();
  job.framework.adapter = trials::Adapter::Read(file);
  job.workload.training = job.framework.adapter->training();
  EXPECT_THAT(LaunchText(job, kZero3), HasSubstr(": N='a b' train"));
}

TEST(WriteLaunch, WritesAScriptAndItsFilesAndReplacesOnlyWithForce) {
  const fakes::TemporaryFolder folder;
  const Job job = LlamaOfItsFile("nanotron");
  LaunchFolder write{folder.path() / "new"};
  const fs::path config = write.path / "config.yaml";
  const std::string text = WriteLaunch(job, kZero3, write);
  EXPECT_THAT(text, AllOf(HasSubstr("launch.sh"), HasSubstr("config.yaml")));
  const std::string script = common::ReadFile(write.path / "launch.sh");
  EXPECT_THAT(script, AllOf(HasSubstr("\"$here/config.yaml\""),
                            HasSubstr("--nnodes=2"), HasSubstr("HEAD_NODE:?")));
  EXPECT_EQ(WriteLaunch(job, kZero3, write), text);
  common::StoreFile(config, "mine\n");
  EXPECT_THROW((void)WriteLaunch(job, kZero3, write), common::InputError);
  EXPECT_EQ(common::ReadFile(config), "mine\n");
  write.force = true;
  EXPECT_EQ(WriteLaunch(job, kZero3, write), text);
  EXPECT_NE(common::ReadFile(config), "mine\n");
}

TEST(WriteLaunch, ABatchScriptAsksForTheNodesOfThePlan) {
  const fakes::TemporaryFolder folder;
  (void)WriteLaunch(LlamaOfItsFile("megatron-lm"), kZero3,
                    {.path = folder.path(), .slurm = true});
  EXPECT_THAT(common::ReadFile(folder.path() / "job.sbatch"),
              AllOf(HasSubstr("#SBATCH --nodes=2\n"),
                    HasSubstr("#SBATCH --gpus-per-node=8\n"),
                    HasSubstr("export HEAD_NODE="), HasSubstr("\nsrun ")));
}

TEST(Launch, JsonHasTheCommandFilesAndNotesOfTheText) {
  for (const char* framework : {"megatron-lm", "nanotron", "deepspeed"}) {
    const Job job = LlamaOfItsFile(framework);
    const std::string text = LaunchText(job, kZero3);
    const common::Json json = LaunchJson(job, kZero3);
    EXPECT_THAT(text, HasSubstr(json["command"]));
    EXPECT_EQ(json["refusal"], "");
    for (const auto& [name, content] : json["files"].items()) {
      EXPECT_THAT(text, HasSubstr(name)) << framework;
    }
    for (const std::string note : json["notes"]) {
      EXPECT_THAT(text, HasSubstr("note: " + note + "\n"));
    }
  }
}

TEST(WriteLaunch, OneNodeNeedsNoNameOfAHeadAndNoBatchSystem) {
  const fakes::TemporaryFolder folder;
  Job job = LlamaJob("megatron-lm", 1);
  job.config_json = Llama8b();
  (void)WriteLaunch(job, {.dp = 8, .zero_stage = 3, .microbatches = 32},
                    {.path = folder.path()});
  const std::string script = common::ReadFile(folder.path() / "launch.sh");
  EXPECT_THAT(script,
              AllOf(testing::StartsWith("#!/usr/bin/env bash\n"),
                    HasSubstr("set -euo pipefail\n"), HasSubstr("\nexec "),
                    Not(HasSubstr("HEAD_NODE:?")), Not(HasSubstr("#SBATCH"))));
  EXPECT_NE(fs::status(folder.path() / "launch.sh").permissions() &
                fs::perms::owner_exec,
            fs::perms::none);
}

TEST(WriteLaunch, NothingIsWrittenIfOneOfTheFilesIsAnothers) {
  const fakes::TemporaryFolder folder;
  common::StoreFile(folder.path() / "launch.sh", "mine\n");
  EXPECT_THAT(fakes::ErrorOf([&] {
                return WriteLaunch(LlamaOfItsFile("nanotron"), kZero3,
                                   {.path = folder.path()});
              }),
              AllOf(HasSubstr("launch.sh exists with another content"),
                    HasSubstr("--force replaces it")));
  EXPECT_FALSE(fs::exists(folder.path() / "config.yaml"));
}

TEST(WriteLaunch, WithoutAnAdapterTheErrorNamesThoseThatThereAre) {
  const fakes::TemporaryFolder folder;
  EXPECT_THAT(fakes::ErrorOf([&] {
                return WriteLaunch(LlamaJob("colossalai"), kZero3,
                                   {.path = folder.path()});
              }),
              AllOf(HasSubstr("--write: no adapter starts colossalai"),
                    HasSubstr("megatron-lm")));
}

}  // namespace jobs::launch_test
