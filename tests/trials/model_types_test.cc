// The types of experiments/models/types.toml. tests/reference/models/ has files
// with the keys and values of public models; model_counts.csv their parameters
// as Transformers counts them (scripts/reference-counts writes it). To add a
// model: its config.json in that folder, and a row.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/text.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/trials/simulator/problem.h"
#include "trials/config_expression.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/simulator.h"

namespace trials::model_types_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::filesystem::path kReference =
    fakes::SourceFolder() / "tests/reference";

// Files whose structure no type has.
const std::vector<std::string> kRefused = {
    "albert-base-v2.json", "deberta-v3-base.json", "llama-3.2-11b-vision.json",
    "opt-350m.json", "zamba2-2.7b.json"};

// The library ties its embeddings unless the file says otherwise; the published
// weights have a head.
constexpr const char* kWithHead = "mistral-small-3.1-24b.json";

struct Count {
  double parameters = 0.0;
  double active = 0.0;
};

// Of each file, those of the classes that Transformers has for it.
std::map<std::string, std::vector<Count>> Counts() {
  std::map<std::string, std::vector<Count>> counts;
  const std::string text = common::ReadFile(kReference / "model_counts.csv");
  const auto lines = common::Split(text, '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const auto cells = common::Split(lines[i], ',');
    if (cells.size() > 5) {
      const std::string name(cells[0]);
      const double head =
          name == kWithHead ? common::NumberOrNan(cells[5]) : 0.0;
      counts[name].push_back({common::NumberOrNan(cells[3]) + head,
                              common::NumberOrNan(cells[4]) + head});
    }
  }
  return counts;
}

Model Reference(const std::string& name) {
  return ReadModel(kReference / "models" / name);
}

class ModelTypes : public testing::TestWithParam<std::string> {};

TEST_P(ModelTypes, CountAsTransformersDoes) {
  const Model model = Reference(GetParam());
  const auto count = static_cast<double>(ParameterCount(model));
  const auto active = static_cast<double>(ActiveParameterCount(model));
  // A correction of the router's choice is a buffer there.
  const auto near = [&](const Count& one) {
    return std::abs(count / one.parameters - 1.0) < 1e-6;
  };
  const std::vector<Count> counts = Counts()[GetParam()];
  const auto found = std::ranges::find_if(counts, near);
  ASSERT_NE(found, counts.end())
      << model.type << " " << count << " is not " << counts.front().parameters;
  // Biases of experts and the rows of routers are counted in both ways.
  EXPECT_NEAR(active / found->active, 1.0, 0.15) << found->active;
  EXPECT_THAT(model.note, Not(HasSubstr("nothing is known")));
}

// Every parameter belongs to a module that is simulated.
TEST_P(ModelTypes, AreSimulatedWithTheirParameters) {
  const Model model = Reference(GetParam());
  const Workload workload{"m", model, 64, 512, Precision::kBf16};
  const Framework framework;
  const Cluster cluster = SmallCluster();
  const GpuModel gpu(cluster.gpu, Precision::kBf16, 2e-6);
  const LayerCosts costs = ComputeLayerCosts(workload, framework, gpu, {});
  const double sum =
      costs.embedding.ParameterCount() + costs.head.ParameterCount() +
      model.dense_layers * costs.dense_block.ParameterCount() +
      (model.layers - model.dense_layers) * costs.block.ParameterCount();
  EXPECT_NEAR(sum / static_cast<double>(ParameterCount(model)), 1.0, 0.01);
  for (const LayerCost* cost : {&costs.block, &costs.embedding, &costs.head}) {
    EXPECT_GT(cost->forward_s, 0.0);
    EXPECT_GT(cost->backward_s, 0.0);
  }
}

std::vector<std::string> ReadFiles() {
  std::vector<std::string> names;
  for (const auto& [name, counts] : Counts()) {
    if (std::ranges::find(kRefused, name) == kRefused.end()) {
      names.push_back(name);
    }
  }
  return names;
}
INSTANTIATE_TEST_SUITE_P(Files, ModelTypes, testing::ValuesIn(ReadFiles()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace_if(
                               name,
                               [](char c) { return std::isalnum(c) == 0; },
                               '_');
                           return name;
                         });

// Transformers has no class for these; each count is that of the checkpoint.
TEST(ModelTypes, ThoseOfRemoteCodeHaveTheirPublishedCounts) {
  const fakes::TemporaryFolder folder;
  const auto count = [&folder](const std::string& text) {
    fakes::WriteFile(folder.path() / "config.json", "{" + text + "}");
    return static_cast<double>(
        ParameterCount(ReadModel(folder.path() / "config.json")));
  };
  const std::string block = R"(, "hidden_size": 4096, "vocab_size": 92544,
      "num_attention_heads": 32, "num_hidden_layers": 32)";
  EXPECT_NEAR(count(R"("model_type": "internlm2", "num_key_value_heads": 8,
                       "intermediate_size": 14336, "bias": false)" +
                    block),
              7737708544.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "baichuan", "hidden_size": 4096,
                       "intermediate_size": 11008, "num_hidden_layers": 32,
                       "num_attention_heads": 32, "vocab_size": 125696)"),
              7505973248.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "qwen", "hidden_size": 4096,
                       "intermediate_size": 22016, "num_hidden_layers": 32,
                       "num_attention_heads": 32, "kv_channels": 128,
                       "vocab_size": 151936, "no_bias": true)"),
              7721324544.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "exaone", "hidden_size": 4096,
                       "intermediate_size": 14336, "num_layers": 32,
                       "num_attention_heads": 32, "num_key_value_heads": 8,
                       "vocab_size": 102400)"),
              7818448896.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "chatglm", "hidden_size": 4096,
                       "ffn_hidden_size": 13696, "num_layers": 28,
                       "num_attention_heads": 32, "kv_channels": 128,
                       "multi_query_attention": true, "add_qkv_bias": true,
                       "multi_query_group_num": 2,
                       "padded_vocab_size": 65024)"),
              6243584000.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "deepseek", "hidden_size": 2048,
                       "intermediate_size": 10944, "num_hidden_layers": 28,
                       "num_attention_heads": 16, "num_key_value_heads": 16,
                       "moe_intermediate_size": 1408, "n_routed_experts": 64,
                       "n_shared_experts": 2, "num_experts_per_tok": 6,
                       "first_k_dense_replace": 1, "vocab_size": 102400)"),
              16375728128.0, 1.0);
  EXPECT_NEAR(count(R"("model_type": "bailing_moe", "hidden_size": 2048,
                       "intermediate_size": 5120, "num_hidden_layers": 20,
                       "num_attention_heads": 16, "num_key_value_heads": 4,
                       "head_dim": 128, "moe_intermediate_size": 512,
                       "num_experts": 256, "num_shared_experts": 1,
                       "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
                       "first_k_dense_replace": 1, "use_qk_norm": true,
                       "moe_router_enable_expert_bias": true,
                       "vocab_size": 157184)"),
              16.26e9, 0.01e9);
}

TEST(ModelTypes, OthersAreRefused) {
  for (const std::string& name : kRefused) {
    EXPECT_NE(fakes::ErrorOf([&] { return Reference(name); }), "") << name;
  }
}

TEST(ModelTypes, WhatNoMeasurementHasIsSaid) {
  EXPECT_EQ(NotValidated(Reference("llama-3.1-8b.json")), "");
  EXPECT_EQ(NotValidated(Reference("gpt-oss-20b.json")), "");
  EXPECT_EQ(NotValidated(Reference("mamba-2.8b.json")),
            "state-space layers or linear attention");
  EXPECT_THAT(NotValidated(Reference("nemotron-h-8b.json")),
              HasSubstr("blocks of several kinds"));
  EXPECT_EQ(NotValidated(Reference("t5-3b.json")),
            "towers or an encoder, cross attention");
  EXPECT_THAT(Reference("gemma3-4b.json").note, HasSubstr("417 million"));
}

TEST(ModelTypes, BlocksOfAHybridAreOfTheKindsInItsPattern) {
  const Model model = Reference("nemotron-h-8b.json");
  ASSERT_EQ(model.kinds.size(), 2U);
  EXPECT_EQ(model.kinds[0].layers, 24);  // Mamba-2
  EXPECT_GT(model.kinds[0].state_inner, 0);
  EXPECT_EQ(model.kinds[1].layers, 24);  // feed-forward
  EXPECT_EQ(OwnLayers(model), 4);        // attention
  EXPECT_EQ(model.ffn_size, 0);
  EXPECT_FALSE(model.kinds[0].attention || model.kinds[1].attention);
  // 4 blocks of 32 heads of 128.
  EXPECT_DOUBLE_EQ(AttentionWidth(model), 4 * 32 * 128);
}

// A model in a temporary folder.
class ReadingTypes : public testing::Test {
 protected:
  // Of these types, a file without num_key_value_heads has more than 4.
  static bool HasOwnDefault(const std::string& type) {
    constexpr std::array kTypes = {"dots1", "exaone4", "gemma",  "gpt_oss",
                                   "jamba", "lfm2",    "llama4", "minimax",
                                   "mist",  "mixtral", "qwen",   "stablelm"};
    return std::ranges::any_of(
        kTypes, [&](const char* name) { return type.starts_with(name); });
  }
  [[nodiscard]] std::filesystem::path Write(const std::string& type,
                                            const std::string& more) const {
    std::ofstream(folder_.path() / "config.json")
        << R"({"model_type": ")" << type
        << R"(", "hidden_size": 64, "num_hidden_layers": 4,
              "num_attention_heads": 4, "intermediate_size": 128,
              "vocab_size": 100)"
        << (HasOwnDefault(type) && more.find("key_value") == more.npos
                ? R"(, "num_key_value_heads": 4)"
                : "")
        << more << "}";
    return folder_.path() / "config.json";
  }
  [[nodiscard]] Model Read(const std::string& type,
                           const std::string& more = "",
                           const ModelOptions& options = {}) const {
    return ReadModel(Write(type, more), options);
  }
  // "": no error.
  [[nodiscard]] std::string Error(const std::string& type,
                                  const std::string& more = "",
                                  const ModelOptions& options = {}) const {
    const std::filesystem::path path = Write(type, more);
    try {
      (void)ReadModel(path, options);
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "";
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(ReadingTypes, AnUnknownTypeIsReadAsAnotherOnRequestOnly) {
  EXPECT_THAT(Error("lama"), AllOf(HasSubstr("unknown model_type 'lama'"),
                                   HasSubstr("did you mean 'llama'?"),
                                   HasSubstr("--as llama")));
  Model model = Read("lama", "", {.as = "llama", .parameters = ""});
  EXPECT_THAT(model.note, HasSubstr("'lama' is read as llama"));
  model.note = "";
  EXPECT_EQ(model, Read("llama"));
  EXPECT_THAT(Error("llama", "", {.as = "lama", .parameters = ""}),
              HasSubstr("unknown type of --as"));
}

TEST_F(ReadingTypes, AnArchitectureDecidesWhereTheTypeIsUnknown) {
  const Model model =
      Read("next_llama", R"(, "architectures": ["LlamaForCausalLM"])");
  EXPECT_EQ(model.type, "llama");
  EXPECT_THAT(model.note, HasSubstr("LlamaForCausalLM"));
  EXPECT_EQ(Read("x", R"(, "num_key_value_heads": 4,
                         "architectures": ["Qwen2ForCausalLM"])")
                .type,
            "qwen2");
  EXPECT_THAT(Error("x", R"(, "architectures": ["NewForCausalLM"])"),
              HasSubstr("unknown model_type 'x'"));
}

TEST_F(ReadingTypes, AHeadOtherThanThatOfTheVocabularyIsRefused) {
  for (const char* architecture :
       {"LlamaForSequenceClassification", "LlamaModel", "LlamaRewardModel",
        "LlamaForCausalLMEagle", "LlamaBiForMNTP", "Llama"}) {
    EXPECT_THAT(Error("llama", fmt::format(R"(, "architectures": ["{}"])",
                                           architecture)),
                AllOf(HasSubstr(architecture), HasSubstr("--as llama")));
  }
  EXPECT_EQ(Error("llama", R"(, "architectures": ["LlamaForCausalLM"])"), "");
}

TEST_F(ReadingTypes, AClassOfItsOwnIsSaid) {
  const auto note = [this](const char* architecture) {
    return Read("llama",
                fmt::format(R"(, "architectures": ["{}"])", architecture))
        .note;
  };
  EXPECT_EQ(note("LlamaForCausalLM"), "");
  const auto of_bert = [this](const char* architecture) {
    return Read("bert", fmt::format(R"(, "type_vocab_size": 2,
        "max_position_embeddings": 16, "architectures": ["{}"])",
                                    architecture))
        .note;
  };
  EXPECT_EQ(of_bert("BertForMaskedLM"), "");
  EXPECT_THAT(of_bert("JinaBertForMaskedLM"), HasSubstr("its own may differ"));
  EXPECT_THAT(of_bert("BertForSequenceClassification"),
              HasSubstr("whose head may have other parameters"));
  EXPECT_THAT(note("LlamaMTPForCausalLM"), HasSubstr("read as llama"));
  EXPECT_THAT(note("MyOwnForCausalLM"), HasSubstr("its own may differ"));
}

TEST_F(ReadingTypes, WhatAFileLeavesOutIsTheLibrarysDefault) {
  EXPECT_EQ(Read("mistral", R"(, "num_attention_heads": 32, "head_dim": 8,
                                "num_key_value_heads": null)")
                .kv_heads,
            32)
      << "null is None";
  const char* deepseek = R"(, "kv_lora_rank": 8, "qk_rope_head_dim": 8,
      "qk_nope_head_dim": 8, "v_head_dim": 8, "num_experts_per_tok": 2)";
  EXPECT_THAT(Error("deepseek_v3", deepseek),
              HasSubstr("its number of experts is missing"));
  const Model dense = Read(
      "deepseek_v3", std::string(deepseek) +
                         R"(, "n_routed_experts": null, "q_lora_rank": null)");
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(dense.query_rank, 0);
  const Model sparse =
      Read("deepseek_v3", std::string(deepseek) + R"(, "n_routed_experts": 8)");
  EXPECT_THAT(
      Error("deepseek_v3",
            std::string(deepseek) +
                R"(, "n_routed_experts": 8, "n_group": 3, "topk_group": 1)"),
      HasSubstr("8 experts are not a multiple of 3 groups"));
  EXPECT_EQ(sparse.ffn_size, 2048);
  EXPECT_EQ(sparse.query_rank, 1536);
  EXPECT_EQ(sparse.shared_ffn_size, 2048);
  const std::string heads = R"(, "num_key_value_heads": 4)";
  EXPECT_EQ(Read("falcon_h1", heads).state_inner, 1024);
  EXPECT_EQ(Read("falcon_h1", heads + R"(, "mamba_d_ssm": null)").state_inner,
            128);
  EXPECT_THAT(Error("nemotron_h"), HasSubstr("pattern of its blocks"));
  EXPECT_THAT(Error("qwen2_vl"), HasSubstr("vision_config is missing"));
}

// Sizes that Transformers ignores or cannot run, while others follow them.
TEST_F(ReadingTypes, KeysThatProgramsReadDifferentlyAreRefused) {
  EXPECT_THAT(
      Error("deepseek_v3",
            R"(, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
                 "qk_nope_head_dim": 8, "num_experts_per_tok": 2,
                 "n_routed_experts": 8, "moe_layer_freq": 2)"),
      HasSubstr("moe_layer_freq is not 1"));
  EXPECT_THAT(Error("nemotron_h", R"(, "hybrid_override_pattern": "M-M-",
                                       "tie_word_embeddings": true)"),
              HasSubstr("tie_word_embeddings is true"));
  EXPECT_THAT(Error("helium", R"(, "head_dim": 32)"),
              HasSubstr("all heads together are not as wide"));
  const auto mamba = [this](const std::string& keys, const char* as) {
    const std::filesystem::path path = folder_.path() / "config.json";
    std::ofstream(path) << R"({"vocab_size": 1000, "n_layer": 2, )" << keys
                        << "}";
    return fakes::ErrorOf([&] { (void)ReadModel(path, {.as = as}); });
  };
  for (const char* type : {"mamba", "mamba2", "falcon_mamba"}) {
    EXPECT_THAT(
        mamba(fmt::format(R"("model_type": "{}", "d_model": 64)", type), ""),
        HasSubstr("Transformers reads hidden_size"));
  }
  EXPECT_EQ(mamba(R"("d_model": 64)", "mamba"), "no error")
      << "the file of the authors' own program";
}

TEST_F(ReadingTypes, PatchesOfQwenAreMergedAsItsFileSays) {
  const auto tower = [this](const char* type, const std::string& more) {
    return ParameterCount(
        Read(type,
             fmt::format(R"(, "vision_config": {{"depth": 2, "num_heads": 4,
            "embed_dim": 64, "hidden_size": 64, "intermediate_size": 128,
            "out_hidden_size": 64{}}})",
                         more))
            .towers.front());
  };
  // As Transformers counts model.visual.
  EXPECT_EQ(tower("qwen2_vl", ""), 257600);
  EXPECT_EQ(tower("qwen2_vl", R"(, "spatial_merge_size": 4)"), 1290560);
  EXPECT_EQ(tower("qwen2_5_vl", R"(, "spatial_merge_size": 1)"), 166976);
  EXPECT_EQ(tower("qwen2_5_vl", R"(, "temporal_patch_size": 1)"), 203264);
  EXPECT_EQ(tower("qwen3_vl", R"(, "spatial_merge_size": 4)"), 4779840);
}

TEST_F(ReadingTypes, HalfOfAnEncoderWithADecoderIsRefused) {
  const auto t5 = [this](const char* architecture) {
    return Error("t5", fmt::format(R"(, "d_model": 64, "d_kv": 16, "d_ff": 128,
        "num_layers": 2, "num_heads": 4, "architectures": ["{}"])",
                                   architecture));
  };
  EXPECT_THAT(t5("T5EncoderModel"), HasSubstr("not the whole model"));
  EXPECT_THAT(t5("T5ForCausalLM"), HasSubstr("not the whole model"));
  EXPECT_EQ(t5("T5ForConditionalGeneration"), "");
  EXPECT_EQ(t5("T5WithLMHeadModel"), "");
}

TEST_F(ReadingTypes, SizesThatDifferFromBlockToBlockAreRefused) {
  EXPECT_THAT(Error("llama", R"(, "num_key_value_heads": [4, 4, 2, 2])"),
              HasSubstr("num_key_value_heads differs from block to block"));
  EXPECT_EQ(Read("llama", R"(, "num_key_value_heads": [2, 2, 2, 2])").kv_heads,
            2);
}

TEST_F(ReadingTypes, KeysBelowATableAreChecked) {
  const auto mpt = [this](const std::string& more) {
    return Error("mpt",
                 R"(, "d_model": 64, "n_layers": 4, "n_heads": 4, )" + more);
  };
  EXPECT_EQ(mpt(R"("attn_config": {"alibi": true})"), "");
  EXPECT_THAT(mpt(R"("attn_config": {"alibi": true, "qk_ln": true})"),
              HasSubstr("norms of queries and keys of MPT"));
  EXPECT_THAT(mpt(R"("attn_config": {"alibi": true},
                     "ffn_config": {"ffn_type": "mb_dmoe"})"),
              HasSubstr("with experts or gates"));
}

// Also with --as, which knows no more.
TEST_F(ReadingTypes, KeysOfStructuresThatATypeLacksAreRefused) {
  for (const char* key :
       {"moe_num_experts", "num_local_experts", "mamba_d_state", "ssm_state",
        "linear_attn_config", "conv_kernel", "vision_config", "encoder_layers",
        "kv_lora_rank", "n_group", "audio_config", "index_topk",
        // DeciLM, Hunyuan-Large, Gemma 3n, GPT-NeoX, Cohere, Arctic, LFM2
        "block_configs", "cla_share_factor", "num_kv_shared_layers",
        "use_parallel_residual", "sliding_window_pattern",
        "parallel_attn_mlp_res", "altup_num_inputs", "laurel_rank",
        "hidden_size_per_layer_input"}) {
    const std::string more = fmt::format(R"(, "{}": 8)", key);
    EXPECT_THAT(Error("llama", more), HasSubstr(key));
    EXPECT_THAT(Error("new", more, {.as = "llama", .parameters = ""}),
                HasSubstr(key));
    EXPECT_EQ(Error("llama", fmt::format(R"(, "{}": null)", key)), "");
  }
  EXPECT_EQ(Error("llama", R"(, "is_encoder_decoder": false)"), "");
  // A tower under any key.
  for (const char* tower :
       {R"("visual": {"size": 448})", R"("eyes": {"layers": 48, "heads": 16})",
        R"("ears": {"width": 1280})", R"("lidar": {"hidden_size": 64})"}) {
    EXPECT_THAT(Error("llama", fmt::format(", {}", tower)),
                HasSubstr("says a structure"))
        << tower;
  }
  EXPECT_EQ(Error("llama", R"(, "task_specific_params": {"length": 50})"), "");
  EXPECT_THAT(Error("bert", R"(, "type_vocab_size": 2,
      "max_position_embeddings": 16, "position_embedding_type": "alibi")"),
              HasSubstr("positions other than a learned table"));
  // Known, though an alternative before it has a value.
  EXPECT_EQ(Error("qwen2_moe", R"(, "moe_intermediate_size": 32,
      "decoder_sparse_step": 1, "num_experts": 4, "num_experts_per_tok": 2,
      "mlp_only_layers": [1])"),
            "");
  EXPECT_EQ(Error("llama4_text", R"(, "interleave_moe_layer_step": 1,
      "moe_layers": [0, 1, 2, 3], "intermediate_size_mlp": 128)"),
            "");
}

TEST_F(ReadingTypes, QuantizedWeightsAreSaidUnlessModelsAreTrainedInThem) {
  const auto note = [this](const char* method) {
    return Read("llama", fmt::format(
                             R"(, "quantization_config": {{"quant_method":
                             "{}", "load_in_4bit": true}})",
                             method))
        .note;
  };
  for (const char* method : {"bitsandbytes", "awq", "gptq", "bitnet"}) {
    EXPECT_THAT(note(method),
                AllOf(HasSubstr(method), HasSubstr("frozen_bits")));
  }
  EXPECT_EQ(note("fp8"), "");
}

TEST_F(ReadingTypes, NoHeadSizeMeansASharedOne) {
  for (const char* type : {"seed_oss", "ernie4_5"}) {
    EXPECT_EQ(
        Read(type, R"(, "num_key_value_heads": 4, "head_dim": null)").head_size,
        16);
  }
}

TEST_F(ReadingTypes, AnImageClassifierHasAsManyClassesAsItsFileNames) {
  const auto classes = [this](const char* more) {
    return Read("vit",
                std::string(R"(, "image_size": 32, "patch_size": 16)") + more)
        .classes;
  };
  EXPECT_EQ(classes(""), 1000);
  EXPECT_EQ(classes(R"(, "id2label": {"0": "a", "1": "b", "2": "c"})"), 3);
  EXPECT_EQ(classes(R"(, "num_labels": 7)"), 7);
}

TEST_F(ReadingTypes, KeysOfAPartThatIsSwitchedOffChangeNothing) {
  EXPECT_EQ(Error("llama", R"(, "use_sliding_window": false,
      "sliding_window": 4096, "max_window_layers": 4, "use_cla": false,
      "cla_share_factor": 2)"),
            "");
  EXPECT_THAT(Error("llama", R"(, "use_sliding_window": true,
      "sliding_window": 4096)"),
              HasSubstr("window"));
  EXPECT_THAT(Error("llama", R"(, "use_cla": false, "sliding_window": 4096)"),
              HasSubstr("sliding_window"));
  // What is no structure stays unknown: a switch may have another meaning.
  EXPECT_THAT(Read("llama", R"(, "use_bias": false, "gate_bias_kind": 2)").note,
              HasSubstr("gate_bias_kind of its config.json"));
}

// As Python's json writes them.
TEST_F(ReadingTypes, NumbersThatAreNotFiniteAreReadAsAbsent) {
  EXPECT_EQ(Error("llama", R"(, "time_step_limit": [0.0, Infinity],
      "a \" NaN": NaN, "rope_theta": -Infinity)"),
            "");
  EXPECT_THAT(Error("llama", R"(, "rope_theta": Infinite)"),
              HasSubstr("not valid JSON"));
}

TEST_F(ReadingTypes, ListsAndPeriodsThatDoNotFitTheLayersAreRefused) {
  EXPECT_THAT(Error("gemma2", R"(, "layer_types": ["full_attention"])"),
              HasSubstr("layer_types has 1 elements for 4 layers"));
  EXPECT_THAT(Error("gemma2", R"(, "layer_types": ["full_attention",
      "full_attention", "full_attention", "full_attention", "full_attention"])"),
              HasSubstr("layer_types has 5 elements for 4 layers"));
  EXPECT_THAT(Error("nemotron_h", R"(, "num_key_value_heads": 4,
      "hybrid_override_pattern": "M-*M*")"),
              HasSubstr("has 5 elements for 4 layers"));
  EXPECT_THAT(Error("llama", R"(, "num_key_value_heads": [4, 4])"),
              HasSubstr("num_key_value_heads has 2 elements for 4 layers"));
  EXPECT_THAT(Error("qwen3_moe", R"(, "num_experts": 4,
      "num_experts_per_tok": 2, "mlp_only_layers": [4])"),
              HasSubstr("mlp_only_layers has block 4 of 4 layers"));
  EXPECT_THAT(Error("jamba", R"(, "attn_layer_period": 0,
      "attn_layer_offset": -1)"),
              HasSubstr("a period must not be 0"));
  EXPECT_THAT(Error("qwen3_moe", R"(, "num_experts": 4,
      "num_experts_per_tok": 2, "decoder_sparse_step": 0)"),
              HasSubstr("a period must not be 0"));
  EXPECT_THAT(Error("jamba", R"(, "attn_layer_period": 4,
      "attn_layer_offset": 4)"),
              HasSubstr("not below its period"));
}

// Their first positions are those of padding.
TEST_F(ReadingTypes, ARobertaHasFewerPositionsThanItsTable) {
  for (const char* name : {"roberta-base.json", "xlm-roberta-base.json"}) {
    EXPECT_EQ(ReadModel(kReference / "models" / name).max_positions, 512);
  }
}

TEST_F(ReadingTypes, KindsOfBlocksThatATypeLacksAreRefused) {
  const auto of = [this](const char* type, const char* kind) {
    return Error(type, fmt::format(R"(, "layer_types": ["full_attention",
        "full_attention", "{}", "full_attention"])",
                                   kind));
  };
  EXPECT_EQ(of("llama", "full_attention"), "");
  EXPECT_THAT(of("llama", "sliding_attention"),
              AllOf(HasSubstr("'layer_types' says 'sliding_attention'"),
                    HasSubstr("type llama")));
  EXPECT_EQ(of("gemma2", "sliding_attention"), "");
  EXPECT_THAT(of("gemma2", "retention"), HasSubstr("says 'retention'"));
  const std::string pattern =
      R"(, "num_key_value_heads": 4, "hybrid_override_pattern": "M-*)";
  EXPECT_EQ(Error("nemotron_h", pattern + R"(E")"), "");
  EXPECT_THAT(Error("nemotron_h", pattern + R"(G")"), HasSubstr("says 'G'"));
}

// A size on the command line of a framework cannot say what they do.
TEST_F(ReadingTypes, KeysOfWhichNothingIsKnownAreSaid) {
  const Model model = Read("llama", R"(, "attention_multiplier": 0.5,
      "final_logit_softcapping": 30.0, "torch_dtype": "bfloat16",
      "rope_theta": 1e6, "eos_token_id": [1, 2], "attention_dropout": 0.1)");
  EXPECT_THAT(model.note,
              HasSubstr("attention_multiplier, final_logit_softcapping of its "
                        "config.json, of which nothing is known"));
  EXPECT_THAT(RareParts(model), Contains(HasSubstr("attention_multiplier")));
  EXPECT_EQ(Read("llama", R"(, "eos_token_id": 2)").note, "");
}

TEST_F(ReadingTypes, TheUpperBlocksOfQwenHaveWindowsWhereItsFileSaysSo) {
  const auto share = [this](const std::string& more) {
    const Model model = Read(
        "qwen2", R"(, "sliding_window": 8, "max_window_layers": 3)" + more);
    return model.window > 0 ? model.windowed_share : 0.0;
  };
  EXPECT_EQ(share(R"(, "use_sliding_window": false)"), 0.0);
  EXPECT_EQ(share(R"(, "use_sliding_window": true)"), 0.25);
}

TEST_F(ReadingTypes, ParametersAreComparedWithWhatIsKnown) {
  const auto count = static_cast<double>(ParameterCount(Read("llama")));
  const auto error = [&](double factor) {
    return Error("llama", "",
                 {.as = "", .parameters = fmt::format("{}", count * factor)});
  };
  EXPECT_EQ(error(1.0), "");
  EXPECT_EQ(error(1.009), "");
  EXPECT_EQ(error(0.991), "");
  EXPECT_THAT(error(1.02), HasSubstr("--parameters says"));
  EXPECT_THAT(error(0.98), HasSubstr("--parameters says"));
  EXPECT_THAT(error(1.0 - 6400.0 / count),
              HasSubstr("the embeddings may be tied"));
  EXPECT_EQ(Error("llama", "", {.as = "", .parameters = "0.177m"}), "");
  EXPECT_THAT(Error("llama", "", {.as = "", .parameters = "many"}),
              HasSubstr("a number such as 7.7e9 or 7.7b"));
}

TEST_F(ReadingTypes, ParametersAreComparedWithTheIndexBesideTheFile) {
  const auto count = ParameterCount(Read("llama"));
  const auto error = [&](const std::string& metadata, const std::string& more) {
    fakes::WriteFile(folder_.path() / "model.safetensors.index.json",
                     R"({"metadata": {)" + metadata + "}}");
    return Error("llama", more);
  };
  const std::string half = fmt::format(R"("total_size": {})", 2 * count);
  const std::string bf16 = R"(, "torch_dtype": "bfloat16")";
  EXPECT_EQ(error(half, bf16), "");
  EXPECT_EQ(error(half, R"(, "dtype": "float16")"), "");
  EXPECT_THAT(
      error(half, R"(, "torch_dtype": "float32", "beta": 3)"),
      AllOf(HasSubstr("model.safetensors.index.json (--parameters replaces "
                      "it) says"),
            HasSubstr("keys that were not read"), HasSubstr("beta")));
  EXPECT_EQ(error(half, ""), "");  // of unknown type
  EXPECT_EQ(error(fmt::format(R"("total_parameters": {})", count), ""), "");
  EXPECT_THAT(error(fmt::format(R"("total_parameters": {})", 2 * count), ""),
              HasSubstr("says"));
  EXPECT_EQ(error("", bf16), "");
  EXPECT_EQ(error(R"("total_size": "much")", bf16), "");
  fakes::WriteFile(folder_.path() / "model.safetensors.index.json", "[1]");
  EXPECT_THAT(Error("llama", bf16), HasSubstr("index.json"));
  // 8-bit weights with scales have other sizes.
  EXPECT_EQ(error(fmt::format(R"("total_size": {})", count),
                  bf16 + R"(, "quantization_config": {"bits": 8})"),
            "");
}

TEST_F(ReadingTypes, ManyLayersAreRefusedSoon) {
  EXPECT_THAT(Error("gemma2", R"(, "num_hidden_layers": 2147483647,
                             "sliding_window": 8)"),
              HasSubstr("layers"));
}

TEST_F(ReadingTypes, ActivationsThatNoSizeHasAreSpecial) {
  EXPECT_THAT(Read("llama", R"(, "hidden_act": "silu")").special, IsEmpty());
  EXPECT_THAT(Read("llama", R"(, "hidden_act": "relu2")").special,
              Contains(HasSubstr("activation")));
  EXPECT_THAT(Read("arcee", R"(, "hidden_act": "relu2")").special,
              testing::ElementsAre("squared ReLU"));
  EXPECT_THAT(Read("starcoder2", R"(, "hidden_act": "relu")").special,
              testing::ElementsAre("an activation other than GELU"));
  EXPECT_THAT(
      Read("starcoder2", R"(, "hidden_act": "gelu_pytorch_tanh")").special,
      IsEmpty());
  EXPECT_THAT(RareParts(Read("qwen2")), IsEmpty());
  EXPECT_THAT(RareParts(Read("olmo2")),
              Contains("norms of queries and keys over all heads at once"));
}

TEST_F(ReadingTypes, PartsHaveWordsOfUsers) {
  for (const auto& entry :
       std::filesystem::directory_iterator(kReference / "models")) {
    Model model;
    try {
      model = ReadModel(entry.path());
    } catch (const common::InputError&) {
      continue;
    }
    for (const std::string& part : RareParts(model)) {
      EXPECT_EQ(part.find('_'), std::string::npos) << entry << part;
    }
  }
}

TEST_F(ReadingTypes, ExpressionsHaveAlternativesDefaultsAndFunctions) {
  const ConfigFile file(Write("llama", R"(, "a": 3, "n": null, "t": "MM-*",
      "o": {"b": 5}, "l": ["x", "y", "x", "x"], "m": [1, 3], "e": [],
      "f": true, "s": "one-two")"));
  Model model;
  model.layers = 4;
  model.hidden_size = 7;
  const auto value = [&](std::string_view text) {
    return ConfigExpression{file, model}.Value(text).value_or(-1.0);
  };
  EXPECT_EQ(value("a"), 3);
  EXPECT_EQ(value("n | a"), 3);
  EXPECT_EQ(value("n"), -1);
  EXPECT_EQ(value("n:4 + a"), 7);
  EXPECT_EQ(value("a:4"), 3);
  EXPECT_EQ(value("o.b"), 5);
  EXPECT_EQ(value("root.o.b - o.c:1"), 4);
  EXPECT_EQ(value("$hidden_size % 4"), 3);
  EXPECT_EQ(value("2 + 3 * 4 / 2 - 1"), 7);
  EXPECT_EQ(value("-(2 + 3) * -2"), 10);
  EXPECT_EQ(value("(n | a) * 2"), 6);
  EXPECT_EQ(value("(a | n) * 2"), 6);
  EXPECT_EQ(value("(n | z) * 2 | 9"), 9);
  EXPECT_EQ(value("is(e, x) | 8"), 8);
  EXPECT_EQ(value("f && !(a > 3) || false"), 1);
  EXPECT_EQ(value("a >= 3 && a <= 3 && a == 3 && a != 4 && a < 4"), 1);
  EXPECT_EQ(value("is(s, one, one-two)"), 1);
  EXPECT_EQ(value("is(s, one)"), 0);
  EXPECT_EQ(value("is(n, x) | 8"), 8);
  EXPECT_EQ(value("has(a) + has(n)"), 1);
  EXPECT_EQ(value("size(l) + size(e) + size(n)"), 4);
  EXPECT_EQ(value("count(is(l, x))"), 3);
  EXPECT_EQ(value("share(is(t, M))"), 0.5);
  EXPECT_EQ(value("count(in(m, i))"), 2);
  EXPECT_EQ(value("count(i % 2 == 0)"), 2);
  EXPECT_EQ(value("floor(7 / 2) + ceil(7 / 2)"), 7);
  EXPECT_EQ(value("min(2, a) + max(2, a)"), 5);
  const auto error = [&](std::string_view text) {
    return fakes::ErrorOf([&] { return value(text); });
  };
  EXPECT_THAT(error("s"), HasSubstr("s must be a number"));
  EXPECT_THAT(error("a +"), HasSubstr("a key, a number or a function"));
  EXPECT_THAT(error("(a"), HasSubstr("')' is needed"));
  EXPECT_THAT(error("no(a)"), HasSubstr("there is no function 'no'"));
  EXPECT_THAT(error("$no"), HasSubstr("no field 'no'"));
  model.layers = 5;
  EXPECT_THAT(error("count(is(l, x))"), HasSubstr("4 elements for 5 layers"));
  EXPECT_THAT(error("count(is(t, M))"), HasSubstr("4 elements for 5 layers"));
}

// The cost of a block is the mean over its kinds: with half of them, half of
// the difference.
TEST(BlockKinds, TheCostOfABlockIsTheirMean) {
  Model model = Reference("llama-3.2-1b.json");
  const auto cost = [&](int layers) {
    Model mixed = model;
    if (layers > 0) {
      Model kind = model;
      kind.ffn_size = 2048;
      kind.layers = layers;
      mixed.kinds.push_back(kind);
    }
    const Workload workload{"m", mixed, 64, 512, Precision::kBf16};
    const Framework framework;
    const Cluster cluster = SmallCluster();
    const GpuModel gpu(cluster.gpu, Precision::kBf16, 2e-6);
    return ComputeLayerCosts(workload, framework, gpu, {}).block;
  };
  const LayerCost none = cost(0);
  const LayerCost half = cost(model.layers / 2);
  const LayerCost all = cost(model.layers);
  EXPECT_NEAR(half.forward_s, (none.forward_s + all.forward_s) / 2, 1e-12);
  EXPECT_NEAR(half.saved_bytes, (none.saved_bytes + all.saved_bytes) / 2, 1.0);
  EXPECT_NEAR(half.ParameterCount(),
              (none.ParameterCount() + all.ParameterCount()) / 2, 1.0);
  EXPECT_EQ(half.parameters.size(), none.parameters.size());
}

TEST(Towers, TheFirstStageComputesThem) {
  const auto step = [](bool tower) {
    Model model = Reference("llava-1.5-7b.json");
    if (!tower) {
      model.towers.clear();
    }
    const Workload workload{"m", model, 64, 1024, Precision::kBf16};
    ParallelConfig config;
    config.dp = 8;
    config.microbatches = 8;
    return Simulator(workload, SmallCluster(), {}).Simulate(config);
  };
  const StepReport with = step(true);
  const StepReport without = step(false);
  EXPECT_GT(with.step_time_s, 1.02 * without.step_time_s);
  EXPECT_LT(with.step_time_s, 1.3 * without.step_time_s);
  EXPECT_NEAR((with.memory.parameters_bytes - without.memory.parameters_bytes) /
                  (2.0 * 303.5e6),
              1.0, 0.05);
}

}  // namespace trials::model_types_test
