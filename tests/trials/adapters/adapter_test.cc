#include "trials/adapters/adapter.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/process.h"
#include "common/text.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/data_folder.h"
#include "trials/knobs.h"

namespace trials::adapter_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class AdapterTest : public testing::Test {
 protected:
  AdapterTest() {
    job_.folder = folder_.path();
    job_.workload.batch_size = 64;
    job_.workload.sequence_length = 2048;
    job_.workload.model.layers = 24;
    job_.cluster.nodes = 2;
    job_.cluster.gpus_per_node = 8;
  }

  [[nodiscard]] RenderedJob Render(
      const std::string& name, const std::string& config,
      Adapter::Purpose purpose = Adapter::Purpose::kUse) const {
    return Adapter::Find(name).Render(
        job_, Canonical(ParseParallelConfig(config)), purpose,
        folder_.path() / "files", [](std::string_view text) {
          return text == "{max_steps}" ? "12" : std::string(text);
        });
  }
  [[nodiscard]] std::string Line(const std::string& name,
                                 const std::string& config) const {
    return common::ShellLine(Render(name, config).words);
  }

  fakes::TemporaryFolder folder_;
  AdapterJob job_;
};

TEST_F(AdapterTest, GivesMegatronItsFlagsUnderTheirConditions) {
  job_.words = {"torchrun", "pretrain_gpt.py"};
  const std::string plain = Line("megatron-lm", "dp=8,tp=2,pp=1");
  EXPECT_THAT(plain, HasSubstr("--tensor-model-parallel-size 2"));
  EXPECT_THAT(plain, HasSubstr("--micro-batch-size 8"));
  EXPECT_THAT(plain, Not(HasSubstr("--use-distributed-optimizer")));
  EXPECT_THAT(plain, Not(HasSubstr("virtual")));
  EXPECT_THAT(plain, Not(HasSubstr("--recompute")));
  const std::string all = Line("megatron-lm",
                               "dp=4,tp=1,pp=4,zero_stage=1,microbatches=8,"
                               "model_chunks=2,grad_checkpoint=1");
  EXPECT_THAT(all, HasSubstr("--use-distributed-optimizer"));
  EXPECT_THAT(all, HasSubstr("--num-layers-per-virtual-pipeline-stage 3"));
  EXPECT_THAT(all, HasSubstr("--no-overlap-p2p-communication"));
  EXPECT_THAT(all, HasSubstr("--recompute-granularity full"));
  EXPECT_THAT(all, HasSubstr("--recompute-method uniform"));
  EXPECT_THAT(all, HasSubstr("--micro-batch-size 2"));
}

// 24 layers on 20 chunks: the middle ones have two.
TEST_F(AdapterTest, GivesMegatronTheLayersOfUnequalStages) {
  job_.words = {"torchrun", "pretrain_gpt.py",
                "--decoder-first-pipeline-num-layers", "3"};
  const std::string line =
      Line("megatron-lm", "dp=4,tp=1,pp=4,microbatches=8,model_chunks=5");
  EXPECT_THAT(line, HasSubstr("--pipeline-model-parallel-layout "
                              "'Et|(t|)*7(t*2|)*4(t|)*7tL'"));
  EXPECT_THAT(line, Not(HasSubstr("virtual")));
  EXPECT_THAT(line, Not(HasSubstr("decoder-first")));
}

TEST_F(AdapterTest, SetsTheVariableThatMegatronNeedsForTensorParallelism) {
  job_.words = {"torchrun", "pretrain_gpt.py"};
  EXPECT_THAT(CommandLine(Render("megatron-lm", "dp=8,tp=2,pp=1")),
              StartsWith("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun "));
  EXPECT_THAT(CommandLine(Render("megatron-lm", "dp=16,tp=1,pp=1")),
              StartsWith("torchrun "));
}

TEST(RenderedJobs, CommandLineQuotesTheValuesOfVariables) {
  EXPECT_EQ(CommandLine({{"a b"}, {"N=c d", "M="}, {}}), "N='c d' M='' 'a b'");
}

TEST(RenderedJobs, CommandLineContinuesBetweenWords) {
  EXPECT_EQ(
      CommandLine({{"train", "--data x y", "--steps", "20"}, {"N=1"}, {}}, 20),
      "N=1 train \\\n    '--data x y' \\\n    --steps 20");
}

TEST(RenderedJobs, CommandLineLeavesTheFirstNodeToTheShell) {
  EXPECT_EQ(CommandLine({{"--endpoint=$HEAD_NODE:1"}, {"N=$HEAD_NODE"}, {}}),
            "N=\"$HEAD_NODE\" \"--endpoint=$HEAD_NODE:1\"");
  EXPECT_EQ(CommandLine({{"$here/a \"b\" $c"}, {}, {}}),
            R"("$here/a \"b\" \$c")");
  EXPECT_EQ(CommandLine({{"$HOME/x"}, {}, {}}), "'$HOME/x'");
}

TEST_F(AdapterTest, ReplacesTheUsersFlagsWhereTheyAre) {
  job_.words = {"torchrun",
                "pretrain_gpt.py",
                "--tensor-model-parallel-size=8",
                "--lr",
                "1e-4",
                "--use-distributed-optimizer",
                "--micro-batch-size",
                "1"};
  const std::vector<std::string> words =
      Render("megatron-lm", "dp=8,tp=2,pp=1").words;
  EXPECT_EQ(words[2], "--tensor-model-parallel-size=2");
  EXPECT_EQ(words[3], "--lr");
  EXPECT_EQ(words[5], "--micro-batch-size");
  EXPECT_EQ(words[6], "8");
  EXPECT_THAT(words, Not(Contains("--use-distributed-optimizer")));
}

// Keys of Hydra, flags of absl, and a file that no option names.
TEST_F(AdapterTest, WritesTheFormsOfThePrograms) {
  const auto file = folder_.path() / "own.toml";
  const std::string adapter = file.string();
  fakes::WriteFile(
      file,
      "settings = [\n"
      "  {flag = \"train.micro\", value = \"$micro_batch_size\"},\n"
      "  {flag = \"--accumulate=\", value = \"$microbatches\"},\n"
      "  {flag = \"--remat=\", bool = \"$grad_checkpoint\"},\n"
      "  {key = \"zero.stage\", value = \"$zero_stage\"},\n"
      "]\n[file]\nformat = \"yaml\"\n");
  job_.words = {"train.py", "run.yml", "++train.micro=2", "--noremat"};
  fakes::WriteFile(folder_.path() / "run.yml", "zero:\n  stage: 1\n");
  const PresentConfig present = Adapter::Find(adapter).Present(job_);
  EXPECT_EQ(present.config.zero_stage, 1);
  EXPECT_EQ(present.config.microbatches, 2);
  EXPECT_EQ(present.config.grad_checkpoint, 0);
  const RenderedJob job = Render(adapter,
                                 "dp=16,tp=1,pp=1,microbatches=4,zero_stage=2,"
                                 "grad_checkpoint=1");
  EXPECT_THAT(job.words,
              ElementsAre("train.py", job.files.at(0).path.string(),
                          "++train.micro=1", "--remat=true", "--accumulate=4"));
  EXPECT_THAT(job.files.at(0).content, HasSubstr("stage: 2"));
}

TEST_F(AdapterTest, LimitsOnlyTrialsToAFewStepsWithoutCheckpoints) {
  job_.words = {"pretrain_gpt.py", "--train-iters", "5000", "--save", "ckpt"};
  const std::string trial = common::ShellLine(
      Render("megatron-lm", "dp=16,tp=1,pp=1", Adapter::Purpose::kTrial).words);
  EXPECT_THAT(trial, HasSubstr("--train-iters 12"));
  EXPECT_THAT(trial, Not(HasSubstr("--save")));
  const std::string use = Line("megatron-lm", "dp=16,tp=1,pp=1");
  EXPECT_THAT(use, HasSubstr("--train-iters 5000 --save ckpt"));
}

TEST_F(AdapterTest, SetsKeysInACopyOfTheUsersDeepSpeedFile) {
  fakes::WriteFile(folder_.path() / "ds.json",
                   "{\"train_batch_size\": \"auto\", \"bf16\": {\"enabled\": "
                   "true}, \"zero_optimization\": {\"stage\": 3, "
                   "\"overlap_comm\": true}}");
  job_.words = {"deepspeed", "train.py", "--deepspeed_config", "ds.json"};
  const RenderedJob job =
      Render("deepspeed", "dp=16,tp=1,pp=1,zero_stage=2,zero_bucket_mb=64");
  ASSERT_EQ(job.files.size(), 1u);
  EXPECT_EQ(job.files[0].path, folder_.path() / "files" / "ds.json");
  EXPECT_EQ(job.words.back(), job.files[0].path.string());
  const std::string& text = job.files[0].content;
  const auto get = [&](const char* key) {
    return GetConfigKey(ConfigFormat::kJson, text, key);
  };
  EXPECT_EQ(get("train_batch_size"), "64");
  EXPECT_EQ(get("train_micro_batch_size_per_gpu"), "4");
  EXPECT_EQ(get("zero_optimization.stage"), "2");
  EXPECT_EQ(get("zero_optimization.reduce_bucket_size"), "33554432");
  EXPECT_EQ(get("bf16.enabled"), "true");
  EXPECT_EQ(fakes::ReadFile(folder_.path() / "ds.json").find("33554432"),
            std::string::npos);
  // Its usual level, warning, hides the step times.
  EXPECT_THAT(
      Render("deepspeed", "dp=16", Adapter::Purpose::kTrial).files[0].content,
      HasSubstr("\"log_level\": \"info\""));
}

TEST_F(AdapterTest, GivesTorchtitanFlagsWhereTheJobNamesNoFile) {
  job_.words = {"torchrun", "-m", "torchtitan.train", "--module", "llama3"};
  const std::string line = Line("torchtitan", "dp=8,tp=2,pp=1,zero_stage=3");
  EXPECT_THAT(line, HasSubstr("--parallelism.tensor_parallel_degree 2"));
  EXPECT_THAT(line,
              HasSubstr("--parallelism.fsdp_reshard_after_forward always"));
  EXPECT_THAT(line, Not(HasSubstr("activation_checkpoint")));
  fakes::WriteFile(folder_.path() / "job.toml", "[training]\nseq_len = 2048\n");
  job_.words = {"train.py", "--job.config_file", "job.toml"};
  const RenderedJob job =
      Render("torchtitan", "dp=4,tp=1,pp=4,zero_stage=2,microbatches=8");
  ASSERT_EQ(job.files.size(), 1u);
  const auto get = [&](const char* key) {
    return GetConfigKey(ConfigFormat::kToml, job.files[0].content, key);
  };
  EXPECT_EQ(get("training.local_batch_size"), "16");
  EXPECT_EQ(get("parallelism.pipeline_parallel_microbatch_size"), "2");
  EXPECT_THAT(job.files[0].content,
              HasSubstr("data_parallel_shard_degree = -1\n"));
  EXPECT_EQ(get("activation_checkpoint.mode"), "none");
}

// torchtitan 0.3 shards by default, and each of its configurations has a kind
// of recomputation, which a subcommand after all flags replaces.
TEST_F(AdapterTest, ReadsTorchtitansDefaultsAndItsSubcommand) {
  job_.words = {"torchrun", "-m",     "torchtitan.train",
                "--module", "llama3", "--parallelism.tensor_parallel_degree=4"};
  const Adapter adapter = Adapter::Find("torchtitan");
  PresentConfig present = adapter.Present(job_);
  EXPECT_EQ(ToString(present.config), "dp=4,tp=4,pp=1,zero_stage=3");
  EXPECT_THAT(present.notes,
              ElementsAre(HasSubstr("activation-checkpoint: = (absent)"),
                          HasSubstr("local_batch_size is not given")));
  job_.words.insert(job_.words.end(), {"--training.local_batch_size=2",
                                       "activation-checkpoint:full"});
  present = adapter.Present(job_);
  EXPECT_EQ(present.config.grad_checkpoint, trials::kRecomputeFull);
  EXPECT_THAT(present.notes, testing::IsEmpty());
  EXPECT_THAT(
      Line("torchtitan", "dp=8,tp=1,pp=2,zero_stage=2"),
      testing::ContainsRegex("microbatch_size.* activation-checkpoint:none$"));
  job_.words.back() = "activation-checkpoint:memory-budget";
  EXPECT_THAT(adapter.Present(job_).notes,
              ElementsAre(HasSubstr("activation-checkpoint: = memory-budget")));
}

TEST_F(AdapterTest, AWordThatOverridesAKeyOfTheFileCounts) {
  struct Case {
    const char* adapter;
    const char* file;
    const char* content;
    std::vector<std::string> words;
    const char* present;
  };
  const Case cases[] = {
      {"torchtitan",
       "job.toml",
       "[training]\nlocal_batch_size = 1\n",
       {"train.py", "--job.config_file", "job.toml",
        "--training.local_batch_size", "4", "--compile.no-enable",
        "--activation_checkpoint.mode=full"},
       "dp=16,tp=1,pp=1,zero_stage=3,grad_checkpoint=1,torch_compile=1"},
      {"nemo",
       "conf.yaml",
       "model:\n  tensor_model_parallel_size: 2\n",
       {"pretrain.py", "--config-file", "conf.yaml",
        "model.tensor_model_parallel_size=4",
        "ddp.use_distributed_optimizer=false",
        "optimizer.use_distributed_optimizer=false"},
       "dp=4,tp=4,pp=1"},
      {"accelerate-fsdp",
       "fsdp.yaml",
       "fsdp_config:\n  fsdp_reshard_after_forward: true\n",
       {"accelerate", "launch", "--config_file", "fsdp.yaml",
        "--fsdp_reshard_after_forward", "false", "train.py"},
       "dp=16,tp=1,pp=1,zero_stage=2"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.adapter);
    fakes::WriteFile(folder_.path() / each.file, each.content);
    job_.words = each.words;
    const ParallelConfig present =
        Adapter::Find(each.adapter).Present(job_).config;
    const ParallelConfig expected = ParseParallelConfig(each.present);
    EXPECT_EQ(present.tp, expected.tp);
    EXPECT_EQ(present.zero_stage, expected.zero_stage);
    EXPECT_EQ(present.grad_checkpoint, expected.grad_checkpoint);
    EXPECT_EQ(present.torch_compile, expected.torch_compile);
    // What a trial sets is in its copy of the file alone.
    const RenderedJob trial =
        Render(each.adapter, ToString(Canonical(expected)));
    EXPECT_THAT(common::ShellLine(trial.words),
                Not(testing::ContainsRegex("local_batch|no-enable|mode=|model_"
                                           "parallel|distributed|reshard")));
    ASSERT_EQ(trial.files.size(), 1U);
    EXPECT_THAT(trial.words, Contains(trial.files[0].path.string()));
  }
}

TEST_F(AdapterTest, NamesTheOptionOfAConfigurationFileThatIsMissing) {
  job_.words = {"run_train.py"};
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Render("nanotron", "dp=16,tp=1,pp=1",
                              Adapter::Purpose::kTrial);
              }),
              HasSubstr("--config-file FILE"));
}

TEST_F(AdapterTest, ReadsWhatADeepSpeedFileSaysOfMemoryAndTime) {
  fakes::WriteFile(folder_.path() / "ds.json", R"({
    "bf16": {"enabled": "auto"}, "fp16": {"enabled": true},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 3, "zero_quantized_weights": true,
      "offload_optimizer": {"device": "cpu", "pin_memory": true},
      "offload_param": {"device": "nvme", "nvme_path": "/drive"}}})");
  job_.words = {"train.py", "--deepspeed", "ds.json"};
  const FileSettings read =
      Adapter::Find("hf-trainer-deepspeed").ReadSettings(job_);
  EXPECT_EQ(read.training, (std::vector<std::string>{
                               "precision=fp16", "offload=optimizer+parameters",
                               "fp32_gradients=true", "optimizer=adamw"}));
  ASSERT_EQ(read.notes.size(), 2U);
  EXPECT_THAT(read.notes[0], HasSubstr("time of the drive is missing"));
  EXPECT_THAT(read.notes[1],
              HasSubstr("zero_quantized_weights = true: not understood"));
}

TEST_F(AdapterTest, ATextInPlaceOfANumberOfAFileIsRefused) {
  const auto error = [this](const char* stage) {
    fakes::WriteFile(
        folder_.path() / "ds.json",
        fmt::format(R"({{"zero_optimization": {{"stage": {}}}}})", stage));
    job_.words = {"train.py", "--deepspeed_config", "ds.json"};
    return fakes::ErrorOf(
        [this] { (void)Adapter::Find("deepspeed").Present(job_); });
  };
  EXPECT_THAT(error(R"("three")"),
              HasSubstr("zero_optimization.stage = three: the framework takes "
                        "a number"));
  EXPECT_EQ(error(R"("auto")"), "no error");
  EXPECT_EQ(error("2"), "no error");
}

TEST_F(AdapterTest, SaysThatItDoesNotKnowAnOptimizerOfADeepSpeedFile) {
  fakes::WriteFile(folder_.path() / "ds.json",
                   R"({"optimizer": {"type": "Sophia"}})");
  job_.words = {"train.py", "--deepspeed", "ds.json"};
  EXPECT_THAT(Adapter::Find("hf-trainer-deepspeed").ReadSettings(job_).notes,
              testing::ElementsAre(HasSubstr("optimizer.type = Sophia")));
}

TEST_F(AdapterTest, ReadsWhatACommandSaysOfMemoryAndTime) {
  const auto said = [this](const char* name, const char* words) {
    job_.words.clear();
    for (const std::string_view word : common::Split(words, ' ')) {
      job_.words.emplace_back(word);
    }
    const FileSettings read = Adapter::Find(name).ReadCommand(job_);
    return fmt::format("{} | {} | {}", fmt::join(read.training, " "),
                       fmt::join(read.unread, " "),
                       fmt::join(read.unknown, " "));
  };
  EXPECT_EQ(said("megatron-lm", "pretrain_gpt.py --lr 1e-4 --save a"),
            "precision=fp32 |  | ");
  EXPECT_EQ(said("megatron-lm",
                 "pretrain_gpt.py --bf16 --fp8-format e4m3 --optimizer sgd "
                 "--optimizer-cpu-offload"),
            "precision=fp8 optimizer=sgd-momentum offload=optimizer |  | ");
  EXPECT_EQ(
      said("megatron-lm", "pretrain_gpt.py --bf16 --optimizer lion --yes"),
      "precision=bf16 | --optimizer=lion | --yes");
  EXPECT_EQ(said("hf-trainer",
                 "run_clm.py --bf16 --optim=adamw_8bit --use_peft --lora_r 8 "
                 "--load_in_4bit False --fsdp full_shard"),
            "precision=bf16 optimizer=adam-8bit | --use_peft --lora_r=8 "
            "--fsdp=full_shard | ");
  EXPECT_EQ(said("torchtitan",
                 "-m torchtitan.train --training.enable_cpu_offload "
                 "--optimizer.lr 1 --model.converters=float8"),
            "offload=optimizer+parameters precision=bf16 | "
            "--model.converters=float8 | ");
  EXPECT_EQ(
      said("nemo", "train.py ++model.lora.rank=8 mixed_precision=fp16_mixed"),
      "precision=fp16 | model.lora.rank=8 | ");
}

TEST_F(AdapterTest, ACommandThatTrainsAnotherModelContradictsIt) {
  job_.workload.model =
      ReadModel(ExperimentsFolder() / "workloads/llama-3-8b.json");
  job_.words = {"pretrain_gpt.py",
                "--num-layers=16",
                "--swiglu",
                "--untie-embeddings-and-output-weights",
                "--disable-bias-linear",
                "--group-query-attention",
                "--num-query-groups=8",
                "--kv-channels=128",
                "--multi-latent-attention"};
  EXPECT_THAT(
      Adapter::Find("megatron-lm").Contradictions(job_),
      testing::UnorderedElementsAre(
          "--num-layers=16: the model has 32",
          "--multi-latent-attention: the model has none of it",
          "--normalization is LayerNorm by default: the model has RMSNorm"));
  job_.words = {"run.sh", "--bf16"};  // it may add the flags of the model
  EXPECT_THAT(Adapter::Find("megatron-lm").Contradictions(job_),
              testing::IsEmpty());
}

TEST_F(AdapterTest, ReadsThePresentConfigurationOfEveryFramework) {
  fakes::WriteFile(folder_.path() / "ds.json", "{}");
  fakes::WriteFile(folder_.path() / "job.toml", "");
  fakes::WriteFile(folder_.path() / "config.yaml", "model:\n  dtype: bf16\n");
  struct Case {
    const char* adapter;
    std::vector<std::string> words;
    const char* config;
  };
  const Case cases[] = {
      {"megatron-lm",
       {"pretrain_gpt.py"},
       "dp=2,tp=2,pp=4,zero_stage=1,zero_bucket_mb=64,microbatches=16,"
       "model_chunks=2,grad_checkpoint=2,sp=2"},
      {"megatron-lm", {"pretrain_gpt.py"}, "dp=16,tp=1,pp=1,dp_bucket_mb=4"},
      {"megatron-lm",
       {"pretrain_gpt.py"},
       "dp=4,tp=1,pp=4,microbatches=8,model_chunks=5"},
      {"deepspeed",
       {"train.py", "--deepspeed_config", "ds.json"},
       "dp=16,tp=1,pp=1,zero_stage=2,zero_bucket_mb=256"},
      {"torchtitan",
       {"train.py", "--job.config_file", "job.toml"},
       "dp=4,tp=2,pp=2,zero_stage=3,microbatches=4,grad_checkpoint=1,"
       "torch_compile=1"},
      {"torchtitan",
       {"train.py", "--job.config_file", "job.toml"},
       "dp=8,tp=2,pp=1,zero_stage=3,dp_replicate=4,torch_compile=2"},
      {"torchtitan", {"train.py"}, "dp=8,tp=2,pp=1,zero_stage=2"},
      {"nanotron",
       {"run_train.py", "--config-file", "config.yaml"},
       "dp=4,tp=2,pp=2,zero_stage=1,microbatches=8,zero_bucket_mb=64,sp=2"},
      {"hf-trainer", {"run.py"}, "dp=16,tp=1,pp=1,grad_checkpoint=1"},
      {"hf-trainer", {"run.py"}, "dp=16,tp=1,pp=1,torch_compile=2"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(each.adapter) + ": " + each.config);
    job_.words = each.words;
    const RenderedJob rendered = Render(each.adapter, each.config);
    AdapterJob changed = job_;
    changed.words = rendered.words;
    for (const RenderedFile& file : rendered.files) {
      fakes::WriteFile(file.path, file.content);
    }
    const PresentConfig present = Adapter::Find(each.adapter).Present(changed);
    EXPECT_EQ(ToString(present.config),
              ToString(Canonical(ParseParallelConfig(each.config))));
    EXPECT_TRUE(present.notes.empty()) << testing::PrintToString(present.notes);
  }
}

TEST_F(AdapterTest, NotesSettingsThatNoConfigurationReproduces) {
  job_.words = {"pretrain_gpt.py", "--micro-batch-size", "2",
                "--ddp-bucket-size", "40000001"};
  const PresentConfig present = Adapter::Find("megatron-lm").Present(job_);
  ASSERT_EQ(present.notes.size(), 1u);
  EXPECT_THAT(present.notes[0], HasSubstr("--ddp-bucket-size = 40000001"));
}

TEST_F(AdapterTest, ReadsTheBatchSizeOfTheJob) {
  job_.words = {"pretrain_gpt.py", "--global-batch-size", "96"};
  const Adapter adapter = Adapter::Find("megatron-lm");
  EXPECT_EQ(adapter.PresentNumber(job_, "$batch_size"), 96.0);
  EXPECT_EQ(adapter.PresentNumber(job_, "$sequence_length"), std::nullopt);
}

TEST(Adapters, AllOfThemCanBeRead) {
  for (const std::string& name : Adapter::Names()) {
    const Adapter adapter = Adapter::Find(name);
    EXPECT_FALSE(adapter.title().empty()) << name;
    EXPECT_FALSE(adapter.checked().empty()) << name;
    EXPECT_FALSE(adapter.settings().empty()) << name;
  }
  EXPECT_GE(Adapter::Names().size(), 6u);
}

// An adapter with this text.
Adapter WithText(const std::string& text) {
  static const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "a.toml", text);
  return Adapter::Read(folder.path() / "a.toml");
}

// A row that gives a flag the value of an expression.
std::string FlagRow(const std::string& flag, const std::string& value) {
  return "[[settings]]\nflag = '" + flag + "'\nvalue = '" + value + "'\n";
}

// What a job with these words on 2 hosts of 8 GPUs has at present.
PresentConfig PresentOf(const std::string& adapter,
                        std::vector<std::string> words) {
  AdapterJob job;
  job.words = std::move(words);
  job.cluster.nodes = 2;
  job.cluster.gpus_per_node = 8;
  return WithText(adapter).Present(job);
}

TEST(Adapters, TextsOfDigitsAreNumbersInAFile) {
  std::string text = "[file]\nformat = 'toml'\noption = ['--config']\n";
  for (const char* setting : {"a = 'full'", "b = '0'", "c = '9'", "d = '1x'",
                              "e = 'x1'", "f = ''", "g = '0123456789'"}) {
    text += std::string("[[settings]]\nkey = 't.") + setting[0] + "'\ntext" +
            (setting + 1) + "\n";
  }
  AdapterJob job;
  job.words = {"run", "--config", "/nowhere/job.toml"};
  const RenderedJob rendered = WithText(text).Render(
      job, ParallelConfig(), Adapter::Purpose::kUse, "/files", {});
  ASSERT_EQ(rendered.files.size(), 1U);
  EXPECT_EQ(rendered.files[0].path, "/files/job.toml");
  EXPECT_EQ(rendered.files[0].content,
            "\n[t]\na = \"full\"\nb = 0\nc = 9\nd = \"1x\"\ne = "
            "\"x1\"\nf = \"\"\ng = \"0123456789\"\n");
  EXPECT_THAT(rendered.words,
              ElementsAre("run", "--config", "/files/job.toml"));
  // A trial reads the file.
  EXPECT_THROW(
      (void)WithText(text).Render(job, ParallelConfig(),
                                  Adapter::Purpose::kTrial, "/files", {}),
      std::exception);
}

TEST(Adapters, WithoutAFileKeysAreFlagsIfTheFrameworkTakesThem) {
  const std::string keys =
      "[[settings]]\nkey = 'a.b'\nvalue = '$dp'\n"
      "[[settings]]\nkey = 'c'\nvalue = '$tp'\nfile_only = true\n";
  const std::string file =
      "[file]\nformat = 'toml'\noption = ['--config', '-c']\n";
  const auto words = [&](const std::string& text, Adapter::Purpose purpose) {
    AdapterJob job;
    job.words = {"run"};
    return WithText(text + keys)
        .Render(job, ParallelConfig{.dp = 3}, purpose, "/files", {})
        .words;
  };
  const std::string flags = file + "keys_as_flags = true\n";
  for (const auto purpose :
       {Adapter::Purpose::kUse, Adapter::Purpose::kTrial}) {
    EXPECT_THAT(words(flags, purpose), ElementsAre("run", "--a.b", "3"));
  }
  EXPECT_THAT(words(file, Adapter::Purpose::kUse), ElementsAre("run"));
  EXPECT_THROW((void)words(file, Adapter::Purpose::kTrial), common::InputError);
}

TEST(Adapters, ASettingHasOneNameAndAtMostOneValue) {
  for (const char* row :
       {"value = '1'", "flag = ''", "flag = '--x'\nvariable = 'X'\nvalue = '1'",
        "variable = 'X'", "key = 'x'\nvalue = '1'",
        "flag = '--x'\nvalue = '1'\nbool = '1'",
        "flag = '--x'\nvalue = '1'\ntext = 'a'"}) {
    EXPECT_THROW((void)WithText(std::string("[[settings]]\n") + row + "\n"),
                 common::InputError)
        << row;
  }
  EXPECT_EQ(
      WithText("[[settings]]\nvariable = 'X'\ntext = ''\n").settings().size(),
      1U);
}

// The data-parallel ranks fill what the other sizes leave of 16 GPUs.
TEST(PresentConfig, FollowsFromTheValuesOfTheFlags) {
  const auto present = [](const std::string& value, const std::string& word) {
    const PresentConfig found =
        PresentOf(FlagRow("--x", value), {"run", "--x", word});
    return found.notes.empty() ? ToString(found.config) : "no equivalent";
  };
  EXPECT_EQ(present("$tp", "4"), "dp=4,tp=4,pp=1");
  EXPECT_EQ(present("$tp", "4.0"), "dp=4,tp=4,pp=1");
  EXPECT_EQ(present("$tp", "32"), "dp=1,tp=32,pp=1");
  EXPECT_EQ(present("$dp", "4"), "dp=4,tp=1,pp=1");
  EXPECT_EQ(present("$pp * 2", "4"), "dp=8,tp=1,pp=2");
  EXPECT_EQ(present("$pp * 2", "5"), "no equivalent");
  EXPECT_EQ(present("$tp", "four"), "no equivalent");
  EXPECT_EQ(present("$tp", "auto"), "dp=16,tp=1,pp=1");
  // 8192 is the greatest value that is tried.
  EXPECT_EQ(present("$microbatches", "8192"),
            "dp=16,tp=1,pp=1,microbatches=8192");
  EXPECT_EQ(present("$microbatches", "8193"), "no equivalent");
}

// tp * pp = 4 alone could be pp = 4; with tp = 2 it is pp = 2, also where
// another setting has no equivalent. Context-parallel ranks are not
// data-parallel ones.
TEST(PresentConfig, SettingsAgreeWithEachOther) {
  const struct {
    std::string settings;
    std::vector<std::string> words;
    const char* config;
  } cases[] = {
      {FlagRow("--x", "$dp") + FlagRow("--y", "$microbatches"),
       {"run", "--x", "4", "--y", "8"},
       "dp=4,tp=1,pp=1,microbatches=8"},
      {FlagRow("--model", "$tp * $pp") + FlagRow("--tp", "$tp"),
       {"run", "--model", "4", "--tp", "2"},
       "dp=4,tp=2,pp=2"},
      {FlagRow("--cp", "$cp"), {"run", "--cp", "4"}, "dp=4,tp=1,pp=1,cp=4"},
      {FlagRow("--zero", "$zero_stage") + FlagRow("--tp", "$tp") +
           FlagRow("--model", "$pp * $tp"),
       {"run", "--zero", "x", "--tp", "2", "--model", "4"},
       "dp=4,tp=2,pp=2"}};
  for (const auto& [settings, words, config] : cases) {
    const PresentConfig present = PresentOf(settings, words);
    EXPECT_EQ(ToString(present.config), config);
    EXPECT_EQ(present.notes.size(), words[1] == "--zero" ? 1U : 0U);
    for (const std::string& note : present.notes) {
      EXPECT_THAT(note, StartsWith("--zero = x has no equivalent"));
    }
  }
}

TEST(PresentConfig, TextsAreEqualButForTheirCase) {
  const std::string row =
      "[[settings]]\nflag = '--mode'\ntext = 'Full'\n"
      "when = '$grad_checkpoint = 1'\ndefault = 'none'\n";
  const auto checkpoint = [&](const std::string& word) {
    const PresentConfig present = PresentOf(row, {"run", "--mode", word});
    return present.notes.empty() ? present.config.grad_checkpoint : -1;
  };
  EXPECT_EQ(checkpoint("fULL"), 1);
  EXPECT_EQ(checkpoint("None"), 0);
  EXPECT_EQ(checkpoint("ful"), -1);
  EXPECT_EQ(checkpoint("1"), -1);
}

// Of a parameter with up to four values.
TEST(PresentConfig, HasAValueThatTheAdapterLists) {
  const auto present = [](const std::string& space,
                          const std::string& parameter,
                          const std::string& word) {
    const PresentConfig found =
        PresentOf(FlagRow("--x", "$" + parameter) + space, {"--x", word});
    return found.notes.empty()
               ? BuiltInKnobs().Require(parameter).Get(found.config)
               : -1;
  };
  EXPECT_EQ(present("", "zero_stage", "2"), 2);
  EXPECT_EQ(present("", "zero_stage", "4"), -1);
  EXPECT_EQ(present("[space]\nzero_stage = [0, 1]\n", "zero_stage", "2"), -1);
  EXPECT_EQ(present("[space]\nzero_stage = [0, 1]\n", "zero_stage", "1"), 1);
  EXPECT_EQ(
      present("[space]\ngrad_checkpoint = [0, 1]\n", "grad_checkpoint", "2"),
      -1);
  EXPECT_EQ(present("[space]\ntp = [1, 2]\n", "tp", "4"), 4);
}

TEST(PresentConfig, ATextThatTheJobLacksIsOffAndANumberIsLeftToTheFramework) {
  const PresentConfig present = PresentOf(
      "[[settings]]\nflag = '--none'\ntext = 'x'\n"
      "when = '$grad_checkpoint = 0'\n"
      "[[settings]]\nflag = '--tp'\nvalue = '$tp'\nwhen = '$tp > 0'\n",
      {"run"});
  EXPECT_EQ(present.config.grad_checkpoint, 1);
  EXPECT_EQ(present.config.tp, 1);
  EXPECT_TRUE(present.notes.empty());
}

TEST(Adapters, ParametersAreThoseOfSettingsThatApplyToMoreThanTrials) {
  const auto parameters = [](const std::string& keys) {
    return WithText("[file]\nformat = 'toml'\noption = ['--config']\n" + keys)
        .Parameters({});
  };
  const std::string tp = FlagRow("--tp", "$tp");
  EXPECT_THAT(parameters(tp), ElementsAre("dp", "tp"));
  EXPECT_THAT(parameters(tp + "trial = true\n"), ElementsAre("dp"));
  const std::string key = "[[settings]]\nkey = 'pp'\nvalue = '$pp'\n";
  EXPECT_THAT(parameters(key), ElementsAre("dp"));
  EXPECT_THAT(parameters(key + "trial = true\n"), ElementsAre("dp"));
  EXPECT_THAT(parameters(FlagRow("--mbs", "$micro_batch_size")),
              ElementsAre("dp", "microbatches"));
}

}  // namespace trials::adapter_test
