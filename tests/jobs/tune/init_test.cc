#include "jobs/tune/init.h"

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "common/units.h"
#include "harness/experiment.h"
#include "harness/manifest/manifest.h"
#include "harness/testbeds/testbeds.h"
#include "jobs/machine.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/knobs.h"

namespace jobs::init_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InitTest : public testing::Test {
 protected:
  InitTest() {
    fakes::WriteFile(folder_.path() / "config.json",
                     "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": "
                     "4, \"n_layer\": 4, \"n_positions\": 64, \"vocab_size\": "
                     "256}");
    options_.folder = folder_.path();
    options_.manifest = folder_.path() / "tune.toml";
    options_.model = "config.json";
    options_.gpus = "1x4";
    options_.memory_gib = 8.0;
    options_.batch = 16;
    options_.sequence = 64;
    options_.command = {"true", "{microbatches}"};
  }

  // The manifest, after a check that it can be run.
  std::string Write() {
    std::string text = ToText(DraftManifest(options_));
    fakes::WriteFile(options_.manifest, text);
    (void)harness::CheckManifest(harness::ReadManifest(options_.manifest));
    return text;
  }

  [[nodiscard]] std::string Problem() const {
    return fakes::ErrorOf([&] { return ToText(DraftManifest(options_)); });
  }

  fakes::TemporaryFolder folder_;
  InitOptions options_;
};

TEST_F(InitTest, EarlierJobsPredictInsteadOfTheSimulator) {
  options_.from = {"old", "/results/older"};
  EXPECT_THAT(ToText(DraftManifest(options_)),
              AllOf(HasSubstr("[predictions]\nfrom = [\"old\", "
                              "\"/results/older\"]\n"),
                    HasSubstr("\"oppa-sim\"")));
  options_.calibration = "c.toml";
  EXPECT_THAT(Problem(), HasSubstr("leave one out"));
}

TEST_F(InitTest, StartsFromThePresentConfigurationOfTheCommandLine) {
  options_.framework = "hf-trainer";
  options_.batch = 0;
  options_.command = {"torchrun", "run_clm.py", "--per_device_train_batch_size",
                      "2", "--gradient_accumulation_steps=8"};
  const std::string text = Write();
  EXPECT_THAT(text, HasSubstr("start = [\"dp=4,tp=1,pp=1,microbatches=8\"]"));
  EXPECT_THAT(text, HasSubstr("batch_size = 64 "));
  EXPECT_THAT(text, HasSubstr("# microbatches = [1, 2, 4"));
}

TEST_F(InitTest, PredictionsTakeASavedCalibration) {
  options_.gpu = "a100";
  options_.calibration = "c.toml";
  EXPECT_THAT(ToText(DraftManifest(options_)), HasSubstr("calibration = "));
  EXPECT_THAT(ToText(DraftManifest(options_)), HasSubstr("[predictions]"));
}

TEST_F(InitTest, KeepsEveryCharacterOfTheCommandLine) {
  options_.command = {"sh", "-c", "a=1\nb=\"\\\x1b\x7f\r\xc3\xa9\"",
                      "{microbatches}"};
  (void)Write();
  const auto manifest = harness::ReadManifest(options_.manifest);
  EXPECT_EQ(manifest.problems.front().backend.GetStrings("program"),
            options_.command);
  options_.command[2] = "caf\xe9";
  EXPECT_THAT(Problem(), HasSubstr("is not UTF-8"));
}

TEST_F(InitTest, AddsPresentValuesThatNoGridHas) {
  options_.framework = "megatron-lm";
  options_.batch = options_.sequence = 0;
  options_.command = {"torchrun", "pretrain_gpt.py", "--global-batch-size=48",
                      "--seq-length=64", "--micro-batch-size=4"};
  EXPECT_THAT(Write(), HasSubstr("microbatches = [1, 2, 3, 4"));
}

TEST_F(InitTest, VariesOnlyThePlaceholdersOfACommandLineWithoutAnAdapter) {
  options_.command = {"sh", "-c", "train --mb {micro_batch_size} --dp {dp}"};
  const std::string text = Write();
  EXPECT_THAT(text, HasSubstr("zero_stage = [0]  # not in your command line"));
  EXPECT_THAT(text, HasSubstr("\ntp = [1]"));
  EXPECT_THAT(text, Not(HasSubstr("\nmicrobatches = ")));
}

TEST_F(InitTest, SaysWhereNothingCanVaryBeforeItAsksForSizes) {
  options_.command = {"torchrun", "train.py"};
  options_.batch = options_.sequence = 0;
  EXPECT_THAT(Problem(),
              AllOf(HasSubstr("nothing can vary"), HasSubstr("--framework"),
                    HasSubstr("{micro_batch_size}")));
}

TEST_F(InitTest, NamesAMistypedPlaceholderWhereNothingElseCanVary) {
  options_.command = {"torchrun", "train.py", "--tp={tpp}"};
  EXPECT_THAT(Problem(), AllOf(HasSubstr("unknown placeholder '{tpp}'"),
                               HasSubstr("known: "), HasSubstr(" tp")));
}

TEST_F(InitTest, VariesWhatAPlanRecommends) {
  fakes::WriteFile(folder_.path() / "config.json",
                   "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_head\": "
                   "4, \"n_layer\": 4, \"n_positions\": 4096, "
                   "\"vocab_size\": 256}");
  options_.sequence = 4096;
  options_.framework = "megatron-lm";
  options_.command = {"torchrun",
                      "pretrain_gpt.py",
                      "--micro-batch-size",
                      "1",
                      "--tensor-model-parallel-size",
                      "4",
                      "--sequence-parallel"};
  const std::string text = Write();
  EXPECT_THAT(text, HasSubstr("\ncp = [1, 2, 4]\n"));
  EXPECT_THAT(text, HasSubstr("\nsp = [1, 2, 4]\n"));
  EXPECT_THAT(text, HasSubstr("start = [\"dp=1,tp=4,pp=1,"));
  EXPECT_THAT(text, HasSubstr("sp=4"));
  // All gradients are 1.8 MB.
  EXPECT_THAT(text, HasSubstr("\ndp_bucket_mb = [1, 4]\n"));
  // Rules of FSDP2 turn it on with tensor parallelism.
  options_.framework = "torchtitan";
  options_.command = {"torchrun", "-m", "torchtitan.train",
                      "--training.local_batch_size=1",
                      "--parallelism.tensor_parallel_degree=2"};
  EXPECT_THAT(Write(),
              AllOf(HasSubstr("\nsp = [1, 2, 4]\n"), HasSubstr("sp=2")));
}

TEST_F(InitTest, OptionsNarrowTheSpace) {
  options_.framework = "hf-trainer";
  options_.command = {"torchrun", "run_clm.py", "--per_device_train_batch_size",
                      "2", "--gradient_accumulation_steps=2"};
  options_.vary = {"grad_checkpoint", "mbs=1,2,4"};
  std::string text = Write();
  EXPECT_THAT(text, HasSubstr("\nmicro_batch_size = [1, 2, 4]\n"));
  EXPECT_THAT(text, HasSubstr("\n# grad_checkpoint = [0, 1]\n"));
  EXPECT_THAT(text, HasSubstr("\ndp_bucket_mb = [25]\n"));
  EXPECT_THAT(text, Not(HasSubstr("microbatches = ")));
  options_.vary = {};
  options_.fix = {"microbatches=1"};
  text = Write();
  EXPECT_THAT(text, HasSubstr("\nmicrobatches = [1]\n"));
  EXPECT_THAT(text, HasSubstr("\n# start = ")) << "it has other values";
  EXPECT_THAT(text, HasSubstr("# grad_checkpoint = [0, 1]"));

  options_.fix = {"tp=2"};
  EXPECT_THAT(Problem(), HasSubstr("--fix tp=2: the command line does not set "
                                   "tp; it sets dp, dp_bucket_mb"));
  options_.fix = {"microbatches"};
  EXPECT_THAT(Problem(), HasSubstr("give one value"));
  options_.fix = {};
  options_.vary = {"gradcheckpoint=1"};
  EXPECT_THAT(Problem(), HasSubstr("did you mean 'grad_checkpoint'"));
  options_.vary = {"grad_checkpoint=7"};
  EXPECT_THAT(Problem(), HasSubstr("--vary grad_checkpoint=7: invalid value "
                                   "'7'"));
}

TEST_F(InitTest, ListsEachParameterOfTheCommandLineOnce) {
  options_.command = {"true", "{micro_batch_size}", "{microbatches}"};
  options_.vary = {"tp"};
  EXPECT_THAT(Problem(), HasSubstr("tp; it sets dp, microbatches"));
  EXPECT_THAT(Problem(), Not(HasSubstr("microbatches, microbatches")));
}

TEST_F(InitTest, ReadsStepTimesByThePatternOfAnOption) {
  options_.step_time = R"(took (\d+\.\d*) "s")";
  EXPECT_THAT(Write(), HasSubstr(R"([backend.log]
step_time_s = "took (\\d+\\.\\d*) \"s\"")"));
}

TEST_F(InitTest, RejectsAStartForOtherDevicesAndAnUnknownGpu) {
  options_.start = "dp=8,microbatches=2";
  EXPECT_THAT(Problem(),
              HasSubstr("--start dp=8,microbatches=2: dp * tp * pp * cp is 8, "
                        "but the machine has 1 x 4 devices (--gpus)"));
  options_.gpu = "x9000";
  EXPECT_THAT(Problem(), HasSubstr("--gpu x9000: unknown GPU"));
}

TEST_F(InitTest, RejectsAStartWithAnUnevenBatchAndNamesTheNearest) {
  options_.start = "dp=4,microbatches=3";
  EXPECT_THAT(Problem(),
              HasSubstr("--start dp=4,microbatches=3: microbatches=3 does not "
                        "divide the batch of 16 on dp=4 ranks; the nearest "
                        "that do are 2 and 4"));
}

TEST_F(InitTest, NamesTheOptionForWhatTheCommandLineDoesNotSay) {
  options_.batch = options_.sequence = 0;
  EXPECT_THAT(Problem(), HasSubstr("--batch N"));
  options_.batch = 8;
  EXPECT_THAT(Problem(), HasSubstr("--seq N"));
  options_.sequence = 64;
  options_.model = "";
  EXPECT_THAT(Problem(), HasSubstr("--model FILE"));
  options_.command = {};
  EXPECT_THAT(Problem(), HasSubstr("after --"));
}

TEST_F(InitTest, OnALoginNodeADeviceHasTheMemoryOfTheNamedGpu) {
  if (!DetectMachine({}).product.empty()) {
    GTEST_SKIP() << "this machine has GPUs";
  }
  options_.memory_gib = 0.0;
  options_.gpu = "h100";
  EXPECT_THAT(Write(), HasSubstr(fmt::format(
                           "memory_gib = {:.2f}",
                           FindMachine({.gpu = "h100"}).gpu.memory_bytes /
                               common::kGibi)));
}

TEST_F(InitTest, StartsFromPredictionsForTheUsualHostOfTheGpu) {
  options_.command = {"true", "{microbatches}", "{tp}"};
  options_.batch = 1 << 15;
  options_.gpu = "h100";
  const auto time_on = [this](const char* gpus) {
    options_.gpus = gpus;
    const std::string text = Write();
    EXPECT_THAT(text, HasSubstr("methods = [\"oppa-sim\"]"));
    EXPECT_THAT(text, HasSubstr("memory_gib = 8.00"));
    EXPECT_THAT(text, HasSubstr("like = \"h100-infiniband\""));
    const harness::Manifest manifest = harness::ReadManifest(options_.manifest);
    const harness::Testbed testbed =
        harness::MakeTestbed(manifest.problems.front());
    const harness::PredictionSource source = testbed.predictions("");
    EXPECT_THAT(source.description, HasSubstr("(4 x H100-SXM5-80GB), generic"));
    const auto candidate = testbed.space->Find(
        trials::Canonical(trials::ParseParallelConfig("dp=1,tp=4,pp=1")));
    return source.predict().step_time_s.at(candidate.value());
  };
  // Tensor parallelism over hosts pays for their network.
  EXPECT_GT(time_on("2x2"), time_on("1x4"));
}

TEST_F(InitTest, WritesAManifestForReaders) {
  options_.start = "dp=4,microbatches=2";
  options_.memory_gib = 8.0;
  options_.price = 2.5;
  std::string text = Write();
  const std::size_t source = text.find("# Detected: ");
  text.erase(source, text.find('\n', source) + 1 - source);
  if (!DetectMachine({}).product.empty()) {
    GTEST_SKIP() << "this machine has GPUs";
  }
  EXPECT_EQ(
      text,
      R"(# A search for the fastest configuration of a training job, for `oppa tune`.
# Keys: docs/manifest_format.md, docs/external-trials.md.

[experiment]
methods = ["oppa-sim"]
start = ["dp=4,tp=1,pp=1,microbatches=2"]  # your present configuration

[backend]
type = "command"
folder = "."  # in which the program starts
program = ["true", "{microbatches}"]
timeout_s = 1800  # of a trial
silence_s = 600   # a trial without a step for this long hangs

[workload]
model = "config.json"
batch_size = 16  # sequences of a step over all ranks
sequence_length = 64

[cluster]
nodes = 1
gpus_per_node = 4
memory_gib = 8.00  # of one device
like = "cpu-2"  # links and speed, for predictions
price_per_gpu_hour = 2.5  # USD

# The simulator predicts every configuration, and the search corrects its
# predictions by trials. Frameworks: experiments/frameworks.
[predictions]
framework = "generic"

# The parameters that vary, with their values.
[space]
)" +
          text.substr(text.find("[space]\n") + 8,
                      text.find("\n[budget]") - text.find("[space]\n") - 8) +
          R"(
[budget]
time_minutes = 20  # half as many more for the repeated measurements
trials = 24
q_max = 20  # steps of a trial
stop_when = "gain < 1% and p_found_5 > 75%"  # expected of the best untried configuration, and the probability that one within 5% of the best was tried
)");
}

// Every combination of the options that add a line or a table.
TEST_F(InitTest, EveryCombinationOfOptionsIsInTheManifest) {
  if (!DetectMachine({}).product.empty()) {
    GTEST_SKIP() << "this machine has GPUs";
  }
  for (int bits = 0; bits < 128; ++bits) {
    const auto on = [bits](int bit) { return (bits >> bit & 1) != 0; };
    options_.start = on(0) ? "dp=4,microbatches=2" : "";
    options_.step_time = on(1) ? "took ([0-9.]+)" : "";
    options_.price = on(2) ? 2.5 : 0.0;
    options_.power_w = on(3) ? 700.0 : 0.0;
    options_.gpu = on(4) ? "h100" : "";
    options_.nodes.slurm = on(5) ? "trial" : "";
    options_.nodes.sbatch = on(6) ? "--account=me --mem=0" : "";
    const std::string text = ToText(DraftManifest(options_));
    const auto table = common::TomlTable::ParseString(text, "m.toml");
    const auto start = table.GetTable("experiment").GetStrings("start");
    EXPECT_EQ(start.size(), on(0) ? 1U : 0U) << text;
    EXPECT_EQ(
        table.GetTable("backend").GetTable("log").GetString("step_time_s", ""),
        options_.step_time);
    const auto cluster = table.GetTable("cluster");
    EXPECT_EQ(cluster.GetDouble("price_per_gpu_hour", 0.0), options_.price);
    EXPECT_EQ(cluster.GetDouble("power_per_gpu_w", 0.0), options_.power_w);
    EXPECT_EQ(cluster.GetString("like", ""),
              on(4) ? "h100-infiniband" : "cpu-2");
    EXPECT_EQ(table.GetTable("predictions").GetString("framework", ""),
              "generic");
    EXPECT_EQ(table.Has("slurm"), on(5) || on(6)) << text;
    EXPECT_EQ(table.GetTable("slurm").GetString("account", ""),
              on(6) ? "me" : "");
    EXPECT_EQ(table.GetTable("slurm").GetInt("cpus", 0),
              (on(5) || on(6)) && !on(4) ? 4 : 0);
  }
}

TEST_F(InitTest, AHostfileStartsTheProgramInsteadOfSrun) {
  fakes::WriteFile(folder_.path() / "hosts", "a\nb\n");
  options_.nodes.hostfile = "hosts";
  options_.gpus = "2x2";
  EXPECT_THAT(ToText(DraftManifest(options_)),
              AllOf(HasSubstr("\nhostfile = \"hosts\"  # ssh starts"),
                    Not(HasSubstr("ranks = "))));
  options_.nodes.hostfile = "";
  EXPECT_THAT(ToText(DraftManifest(options_)),
              HasSubstr("\nranks = \"per-node\"  # srun starts"));
}

TEST_F(InitTest, RefusesAnOptionThatTheJobsOwnFileContradicts) {
  fakes::WriteFile(folder_.path() / "ds.json",
                   R"({"bf16": {"enabled": true},
                       "zero_optimization": {"stage": 3,
                         "offload_param": {"device": "cpu"}}})");
  options_.framework = "deepspeed";
  options_.batch = 32;
  options_.command = {"deepspeed", "train.py", "--deepspeed_config", "ds.json"};
  options_.training = {"offload=parameters"};
  EXPECT_EQ(Problem(), "no error");
  options_.training = {"offload=optimizer"};
  EXPECT_THAT(
      Problem(),
      AllOf(HasSubstr("ds.json: it trains with offload=optimizer+parameters"),
            HasSubstr("the options say offload=optimizer")));
  // The same weights in another order are no contradiction.
  options_.training = {"offload=parameters+optimizer"};
  EXPECT_EQ(Problem(), "no error");
}

TEST_F(InitTest, PathsAboveTheManifestAreAbsolute) {
  options_.manifest = folder_.path() / "oppa-results" / "tune.toml";
  const std::string text = ToText(DraftManifest(options_));
  EXPECT_THAT(text, AllOf(HasSubstr("\nfolder = \"..\"  #"),
                          HasSubstr("\nmodel = \"" + folder_.path().string() +
                                    "/config.json\"\n")));
}

TEST_F(InitTest, TriesWhatAProfileSaysAfterThePresentConfiguration) {
  options_.start = "dp=4,microbatches=2";
  options_.next = "dp=4,microbatches=4";
  EXPECT_THAT(Write(), HasSubstr("start = [\"dp=4,tp=1,pp=1,microbatches=2\", "
                                 "\"dp=4,microbatches=4\"]  # your"));
  options_.start = "";
  EXPECT_THAT(Write(), HasSubstr("\n# start = [\"dp=4\"]  # your present"));
}

TEST_F(InitTest, WhatTheCommandSaysOfTheTrainingIsPredictedOrANote) {
  options_.framework = "hf-trainer";
  options_.command = {"torchrun", "run_clm.py", "--optim=adamw_8bit",
                      "--lora_r=8"};
  EXPECT_THAT(Write(),
              AllOf(HasSubstr("optimizer = \"adam-8bit\""),
                    HasSubstr("precision = \"fp32\""),
                    HasSubstr("predictions do not count what --lora_r=8"),
                    HasSubstr("predictions are for precision=fp32")));
  options_.training = {"precision=bf16"};
  EXPECT_THAT(Write(),
              AllOf(HasSubstr("precision = \"bf16\""), Not(HasSubstr("fp32"))));
}

TEST_F(InitTest, ACommandOfAnotherModelOrOtherGpusIsRefused) {
  options_.framework = "megatron-lm";
  options_.command = {"torchrun", "pretrain_gpt.py", "--bf16",
                      "--num-layers=2"};
  EXPECT_THAT(Problem(), HasSubstr("--num-layers=2: the model has 4"));
  options_.command = {"torchrun", "--nproc-per-node=2", "pretrain_gpt.py"};
  EXPECT_THAT(Problem(), HasSubstr("--gpus 1x4: --nproc-per-node in the "
                                   "command is 2: correct one of them"));
}

}  // namespace jobs::init_test
