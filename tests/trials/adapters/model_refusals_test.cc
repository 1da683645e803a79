// Commands that give the sizes of a model say everything about it, or there is
// none.

#include <fstream>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "common/process.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/adapters/adapter.h"
#include "trials/knobs.h"

namespace trials::model_refusals_test {

using ::testing::HasSubstr;

const std::filesystem::path kModels =
    fakes::SourceFolder() / "tests/reference/models";

// The command and the files for a new job, or why there is none.
struct Launch {
  std::string refusal;
  std::string text;
};

Launch LaunchOf(const std::string& adapter, const Model& model,
                const std::filesystem::path& config_json = {}) {
  AdapterJob job;
  job.workload = {"m", model, 64, 512, Precision::kBf16};
  job.cluster.nodes = 1;
  job.cluster.gpus_per_node = 8;
  job.config_json = config_json;
  const RenderedJob rendered = Adapter::Find(adapter).RenderUsual(
      job, Canonical(ParseParallelConfig("dp=8")), ".");
  Launch launch{rendered.refusal, CommandLine(rendered)};
  for (const RenderedFile& file : rendered.files) {
    launch.text += file.content;
  }
  return launch;
}

Launch LaunchOf(const std::string& adapter, const std::string& name) {
  return LaunchOf(adapter, ReadModel(kModels / name), kModels / name);
}

class SizesByFlags : public testing::TestWithParam<const char*> {};

// Another value of any field of a model with experts and of one without is in
// the command, or a reason for none.
TEST_P(SizesByFlags, SayEveryFieldOrRefuseTheModel) {
  // Not part of a model that is trained, or of its cost only.
  const std::set<std::string> no_matter = {"mtp_layers", "dropout", "window"};
  // Of experts only; of a first block without; of latent attention only.
  const std::set<std::string> together = {
      "experts_per_token",  "expert_groups",    "groups_per_token",
      "router_bias",        "shared_ffn_size",  "shared_expert_gate",
      "dense_ffn_size",     "query_rank",       "rope_head_size",
      "value_head_size",    "dense_layers",     "state_heads",
      "state_size",         "state_channels",   "state_columns",
      "state_kernel",       "state_parameters", "tokens",
      "unnormalized_router"};
  for (const char* file : {"llama-3.1-8b.json", "gpt2.json"}) {
    Model model = ReadModel(kModels / file);
    model.window = 128;  // of windowed_share of the blocks
    const std::string usual = LaunchOf(GetParam(), model).text;
    Model changed = model;
    VisitFields(changed, [&](const std::string& name, auto& value) {
      if (no_matter.contains(name) || together.contains(name) ||
          (name == "rotary_share" && model.max_positions > 0)) {
        return;
      }
      const auto before = value;
      using T = std::remove_cvref_t<decltype(value)>;
      if constexpr (std::is_same_v<T, bool>) {
        value = !value;
      } else if constexpr (std::is_floating_point_v<T>) {
        value = 0.5;
      } else {
        value = name == "kv_heads" ? before / 2 : before + 8;
      }
      const Launch launch = LaunchOf(GetParam(), changed);
      EXPECT_TRUE(!launch.refusal.empty() || launch.text != usual)
          << file << ": " << name;
      value = before;
    });
    changed.special = {"something else"};
    EXPECT_NE(LaunchOf(GetParam(), changed).refusal, "");
  }
}

TEST_P(SizesByFlags, RefuseEveryModelWithAPartThatNoSettingSays) {
  std::set<std::string> said;
  const Adapter adapter = Adapter::Find(GetParam());
  for (const AdapterSetting& setting : adapter.settings()) {
    said.insert(setting.parts.begin(), setting.parts.end());
  }
  for (const auto& entry : std::filesystem::directory_iterator(kModels)) {
    Model model;
    try {
      model = ReadModel(entry.path());
    } catch (const std::invalid_argument&) {
      continue;
    }
    if (std::ranges::any_of(RareParts(model), [&](const std::string& part) {
          return !said.contains(part);
        })) {
      EXPECT_NE(LaunchOf(GetParam(), model, entry.path()).refusal, "")
          << entry.path();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Adapters, SizesByFlags,
                         testing::Values("megatron-lm", "nanotron",
                                         "torchtitan"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

// Its factors of dimensions apply at every length.
TEST(MegatronFlags, DoNotScalePositionsAsLongRopeDoes) {
  const std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "longrope.json";
  common::Json json = common::ReadJson(kModels / "llama-3.1-8b.json");
  json["rope_scaling"] = {{"type", "longrope"}, {"long_factor", {1.0, 2.0}}};
  std::ofstream(file) << json.dump();
  EXPECT_THAT(LaunchOf("megatron-lm", ReadModel(file), file).refusal,
              HasSubstr("scaling of rotary positions"));
}

TEST(MegatronFlags, TrainTheModelsThatTheySay) {
  for (const char* name :
       {"llama-3.1-8b.json",   "qwen2.5-7b.json",          "qwen3-32b.json",
        "mixtral-8x7b.json",   "deepseek-v3.json",         "kimi-k2.json",
        "starcoder2-15b.json", "starcoder.json",           "glm-4.5-air.json",
        "gpt2.json",           "dots-llm1.json",           "phi-4.json",
        "afm-4.5b.json",       "ernie-4.5-0.3b.json",      "glm-4-9b-chat.json",
        "gpt-oss-20b.json",    "helium-1-preview-2b.json", "minitron-8b.json",
        "qwen3-next-80b.json", "smollm3-3b.json"}) {
    EXPECT_EQ(LaunchOf("megatron-lm", name).refusal, "") << name;
  }
  EXPECT_THAT(LaunchOf("megatron-lm", "deepseek-v3.json").text,
              HasSubstr("--moe-router-num-groups 8 --moe-router-group-topk 4 "
                        "--moe-router-topk-scaling-factor 2.5"));
  EXPECT_THAT(
      LaunchOf("megatron-lm", "kimi-k2.json").text,
      testing::AllOf(HasSubstr("--moe-router-topk-scaling-factor 2.827"),
                     testing::Not(HasSubstr("num-groups"))));
  // Latent attention without YaRN, and a norm of the compressed keys.
  for (const char* name : {"deepseek-v2-lite.json", "glm-4.7-flash.json"}) {
    EXPECT_THAT(
        LaunchOf("megatron-lm", name).text,
        testing::AllOf(HasSubstr("--qk-layernorm"), HasSubstr("--kv-channels"),
                       HasSubstr("--rope-type rope --no-rope-fusion")))
        << name;
  }
  EXPECT_THAT(LaunchOf("megatron-lm", "qwen1.5-moe-a2.7b.json").text,
              HasSubstr("--moe-router-pre-softmax"));
  EXPECT_THAT(LaunchOf("megatron-lm", "stablelm-2-1.6b.json").text,
              HasSubstr("--hidden-dropout 0"));
  const std::string starcoder =
      LaunchOf("megatron-lm", "starcoder2-15b.json").text;
  EXPECT_THAT(starcoder, testing::Not(HasSubstr("--swiglu")));
  EXPECT_THAT(starcoder, HasSubstr("--window-size 4095,0"));
}

TEST(MegatronFlags, RefuseWhatTheyWouldChange) {
  for (const char* name :
       {"olmo-2-7b.json",        "apertus-8b.json",     "nemotron-h-8b.json",
        "hunyuan-7b.json",       "roberta-base.json",   "gemma-7b.json",
        "gemma3-4b.json",        "command-r.json",      "glm-4-9b-0414.json",
        "modernbert-base.json",  "llava-1.5-7b.json",   "t5-3b.json",
        "bloom-560m.json",       "falcon-7b.json",      "gptj-6b.json",
        "opt-30b.json",          "granite-3.1-8b.json", "jamba-1.5-mini.json",
        "ernie45-21b.json",      "minimax-m2.json",     "llama-4-scout.json",
        "whisper-large-v3.json", "mamba-2.8b.json",     "phi-3.5-moe.json",
        "seed-oss-36b.json"}) {
    EXPECT_NE(LaunchOf("megatron-lm", name).refusal, "") << name;
  }
  EXPECT_THAT(LaunchOf("megatron-lm", "olmo-2-7b.json").refusal,
              HasSubstr("norms only after its layers, norms of queries and "
                        "keys over all heads at once"));
}

// Flags without a size: one for each part that the model has.
TEST(MegatronFlags, SayPartsThatNoSizeSays) {
  EXPECT_THAT(LaunchOf("megatron-lm", "minitron-8b.json").text,
              testing::AllOf(HasSubstr("--squared-relu"),
                             HasSubstr("--apply-layernorm-1p"),
                             HasSubstr("--rotary-percent 0.5")));
  EXPECT_THAT(LaunchOf("megatron-lm", "glm-4-9b-chat.json").text,
              HasSubstr("--rotary-interleaved"));
  EXPECT_THAT(LaunchOf("megatron-lm", "smollm3-3b.json").text,
              HasSubstr("--no-rope-freq 4"));
  EXPECT_THAT(
      LaunchOf("megatron-lm", "gpt-oss-20b.json").text,
      testing::AllOf(HasSubstr("--softmax-type learnable"),
                     HasSubstr("--window-size 127,0 --window-attn-skip-freq 2"),
                     HasSubstr("--quick-geglu"),
                     testing::Not(HasSubstr("sigmoid"))));
  EXPECT_THAT(LaunchOf("megatron-lm", "qwen3-next-80b.json").text,
              testing::AllOf(
                  HasSubstr("--experimental-attention-variant gated_delta_net"),
                  HasSubstr("--linear-attention-freq 4"),
                  HasSubstr("--attention-output-gate")));
  EXPECT_THAT(LaunchOf("megatron-lm", "llama-3.1-8b.json").text,
              testing::Not(HasSubstr("--rotary-interleaved")));
}

TEST(TitanModel, HasTheSizesThatNoConfigurationHas) {
  EXPECT_THAT(LaunchOf("torchtitan", "llama-3.1-8b.json").text,
              testing::AllOf(HasSubstr("--module llama3 --config llama3_8b"),
                             testing::Not(HasSubstr("TITAN_MODEL"))));
  EXPECT_THAT(LaunchOf("torchtitan", "gpt-oss-20b.json").text,
              HasSubstr("--module gpt_oss --config gpt_oss_20b"));
  for (const char* name :
       {"mixtral-8x7b.json", "qwen2.5-7b.json", "mistral-nemo.json",
        "internlm3-8b.json", "phi-4.json", "dots-llm1.json",
        "qwen3-235b-a22b.json", "llama-3.2-1b.json"}) {
    const Launch launch = LaunchOf("torchtitan", name);
    EXPECT_EQ(launch.refusal, "") << name;
    EXPECT_THAT(launch.text,
                testing::AllOf(HasSubstr("--module titan_model --config sizes"),
                               HasSubstr("TITAN_MODEL='layers="),
                               HasSubstr("PYTHONPATH=.")))
        << name;
  }
  for (const char* name : {"kimi-k2.json", "mistral-7b.json", "phi-3-mini.json",
                           "glm-4.5-air.json", "qwen1.5-moe-a2.7b.json"}) {
    EXPECT_NE(LaunchOf("torchtitan", name).refusal, "") << name;
  }
}

TEST(NanotronKeys, SayPartsAndWindowsAndNumbers) {
  for (const auto& [name, key] :
       {std::pair("helium-1-preview-2b.json", "rope_interleaved: true"),
        {"smollm3-3b.json", "no_rope_layer: 4"},
        {"mistral-7b.json", "sliding_window_size: 4096"},
        {"mistral-7b.json", "rms_norm_eps: 0.00001\n"},
        {"mistral-7b.json", "rope_theta: 10000.0\n"},
        {"phi-3-mini.json", "sliding_window_size: 2047"}}) {
    const Launch launch = LaunchOf("nanotron", name);
    EXPECT_EQ(launch.refusal, "") << name;
    EXPECT_THAT(launch.text, HasSubstr(key)) << name;
  }
}

// Where the framework would read a model of that name otherwise.
TEST(OtherFrameworks, RefuseWhatTheyWouldChange) {
  for (const auto& [adapter, name] :
       {std::pair("torchtitan", "moonlight-16b-a3b.json"),
        {"nanotron", "mixtral-8x7b.json"},
        {"nanotron", "llama-3.1-8b.json"},
        {"nemo", "exaone-4.0-32b.json"},
        {"nemo", "ernie45-21b.json"},
        {"nemo", "glm-4.5-air.json"}}) {
    EXPECT_NE(LaunchOf(adapter, name).refusal, "") << adapter << " " << name;
  }
}

// The reference file with other values of these keys.
Launch LaunchOf(const std::string& adapter, const std::string& name,
                const common::Json& changes) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "config.json";
  common::Json config =
      common::ParseObject(common::ReadFile(kModels / name), name);
  config.update(changes);
  common::StoreFile(file, config.dump());
  return LaunchOf(adapter, ReadModel(file), file);
}

// Their flags give the usual order only; the share of kinds is the same.
TEST(OtherFrameworks, RefuseBlocksInAnotherOrderThanTheyTrain) {
  struct Case {
    const char* name;
    int layers;
    int period;
    const char* often;
    std::vector<std::string> adapters;
  };
  const Case cases[] = {
      {"gpt-oss-20b.json",
       24,
       2,
       "sliding_attention",
       {"megatron-lm", "nemo", "torchtitan"}},
      {"gemma-2-9b.json", 42, 2, "sliding_attention", {"nemo"}},
      {"gemma-3-1b.json", 26, 6, "sliding_attention", {"nemo"}},
      {"qwen3-next-80b.json",
       48,
       4,
       "linear_attention",
       {"megatron-lm", "nemo"}}};
  for (const auto& [name, layers, period, often, adapters] : cases) {
    std::vector<std::string> types;
    for (int i = 1; i <= layers; ++i) {
      types.emplace_back(i % period == 0 ? "full_attention" : often);
    }
    const std::vector<std::string> other(types.rbegin(), types.rend());
    for (const std::string& adapter : adapters) {
      EXPECT_EQ(LaunchOf(adapter, name, {{"layer_types", types}}).refusal, "")
          << adapter << " " << name;
      EXPECT_THAT(LaunchOf(adapter, name, {{"layer_types", other}}).refusal,
                  HasSubstr("order"))
          << adapter << " " << name;
    }
    EXPECT_EQ(LaunchOf("hf-trainer", name, {{"layer_types", other}}).refusal,
              "");
  }
}

TEST(OtherFrameworks, RefuseRoutersThatNormalizeOtherwise) {
  const auto refusal = [](const char* adapter, const char* name, bool normal) {
    return LaunchOf(adapter, name, {{"norm_topk_prob", normal}}).refusal;
  };
  EXPECT_EQ(refusal("megatron-lm", "glm-4.5.json", true), "");
  EXPECT_THAT(refusal("megatron-lm", "glm-4.5.json", false),
              HasSubstr("sigmoid router normalizes"));
  EXPECT_THAT(refusal("megatron-lm", "deepseek-v3.json", false),
              HasSubstr("sigmoid router normalizes"));
  EXPECT_EQ(refusal("nemo", "deepseek-v3.json", true), "");
  EXPECT_NE(refusal("nemo", "deepseek-v3.json", false), "");
  EXPECT_EQ(refusal("nemo", "olmoe-1b-7b.json", false), "");
  EXPECT_NE(refusal("nemo", "olmoe-1b-7b.json", true), "");
  EXPECT_NE(refusal("nemo", "qwen3-next-80b.json", false), "");
}

// Programs that read the config.json train every causal language model.
TEST(ProgramsWithAConfigJson, RefuseWhatIsNoLanguageModel) {
  for (const char* adapter : {"hf-trainer", "hf-trainer-fsdp", "deepspeed",
                              "hf-trainer-deepspeed", "accelerate-fsdp"}) {
    for (const char* name : {"roberta-base.json", "vit-base-patch16-224.json",
                             "t5-3b.json", "llava-1.5-7b.json"}) {
      EXPECT_THAT(LaunchOf(adapter, name).refusal, HasSubstr("causal"))
          << adapter << " " << name;
    }
    for (const char* name : {"olmo-2-7b.json", "nemotron-h-8b.json",
                             "gpt-oss-20b.json", "mamba-2.8b.json"}) {
      EXPECT_EQ(LaunchOf(adapter, name).refusal, "") << adapter << " " << name;
    }
  }
  // Types that Transformers does not have, and files of another type than
  // their own.
  for (const char* adapter : {"hf-trainer", "hf-trainer-fsdp", "deepspeed",
                              "hf-trainer-deepspeed", "accelerate-fsdp"}) {
    EXPECT_THAT(LaunchOf(adapter, "kimi-k2.json").refusal,
                HasSubstr("no such model_type"))
        << adapter;
    EXPECT_THAT(LaunchOf(adapter,
                         ReadModel(kModels / "llama-3.1-8b.json",
                                   {.as = "qwen2", .parameters = ""}),
                         kModels / "llama-3.1-8b.json")
                    .refusal,
                HasSubstr("the file's own model_type"))
        << adapter;
  }
  EXPECT_EQ(LaunchOf("nemo", "gpt-oss-20b.json").refusal, "");
  for (const char* name : {"mixtral-8x7b.json", "gemma3-4b.json",
                           "bloom-560m.json", "roberta-base.json"}) {
    EXPECT_THAT(LaunchOf("nemo", name).refusal, HasSubstr("no bridge"));
  }
}

// Its configurations end at these positions (decoder.py of 0.3.0).
TEST(OtherFrameworks, LongerSequencesThanAConfigurationHasAreNotItsOwn) {
  const auto text = [](const char* name, int sequence_length) {
    AdapterJob job;
    job.workload = {"m", ReadModel(kModels / name), 64, sequence_length,
                    Precision::kBf16};
    job.cluster.nodes = 1;
    job.cluster.gpus_per_node = 8;
    job.config_json = kModels / name;
    const RenderedJob rendered =
        Adapter::Find("torchtitan")
            .RenderUsual(job, Canonical(ParseParallelConfig("dp=8")), ".");
    return rendered.refusal + CommandLine(rendered);
  };
  EXPECT_THAT(text("llama-3.1-8b.json", 131072), HasSubstr("llama3_8b"));
  EXPECT_THAT(text("llama-3.1-8b.json", 131073), HasSubstr("length=131073"));
  EXPECT_THAT(text("qwen3-32b.json", 40960), HasSubstr("qwen3_32b"));
  EXPECT_THAT(text("qwen3-32b.json", 40961), HasSubstr("length=40961"));
  EXPECT_THAT(text("gpt-oss-20b.json", 131073), HasSubstr("of up to 131072"));
  EXPECT_THAT(text("deepseek-v3.json", 16385), HasSubstr("of up to 16384"));
}

}  // namespace trials::model_refusals_test
