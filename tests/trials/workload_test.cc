#include "trials/workload.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::workload_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kWorkloads =
    fakes::SourceFolder() / "experiments/workloads";

// A temporary folder with a config.json and a manifest's table over it.
class WorkloadTest : public ::testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name,
                              const std::string& text) const {
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }

  // The message of the error of reading this config.json.
  std::string ModelError(const std::string& text) const {
    try {
      (void)ReadModel(Write("model.json", text));
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "no error";
  }

  // The same of a [workload] table in fig.toml.
  std::string WorkloadError(const std::string& text) const {
    try {
      const common::TomlTable manifest =
          common::TomlTable::ParseFile(Write("fig.toml", text));
      (void)ReadWorkload(manifest.RequireTable("workload"));
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "no error";
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(WorkloadTest, ParameterCountsAreThoseOfThePublishedModels) {
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "bert-base-uncased.json")),
            109'482'240);
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "qwen2-1.5b.json")),
            1'543'714'304);
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "llama-3.2-1b.json")),
            1'235'814'400);
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "llama-2-7b.json")),
            6'738'415'616);
}

TEST_F(WorkloadTest, ReadsTheShapeOfEachArchitecture) {
  const Model bert = ReadModel(kWorkloads / "bert-base-uncased.json");
  EXPECT_EQ(bert.name, "bert-base-uncased");
  EXPECT_EQ(bert.kv_heads, 12);
  EXPECT_EQ(bert.max_positions, 512);
  EXPECT_TRUE(bert.pooler && bert.ffn_bias && bert.norm_bias);
  EXPECT_FALSE(bert.causal || bert.final_norm || bert.gated_ffn);

  const Model qwen = ReadModel(kWorkloads / "qwen2-1.5b.json");
  EXPECT_EQ(qwen.layers, 28);
  EXPECT_EQ(qwen.kv_heads, 2);
  EXPECT_EQ(qwen.head_size, 128);
  EXPECT_TRUE(qwen.attention_bias && qwen.tied_embeddings && qwen.causal);
  EXPECT_FALSE(qwen.output_bias || qwen.ffn_bias);
  EXPECT_EQ(qwen.max_positions, 0);  // rotary
}

TEST_F(WorkloadTest, MissingKeysTakeTheDefaultsOfTheModelType) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 100)";
  const Model llama = ReadModel(
      Write("llama.json", R"({"model_type": "llama",)" + sizes + "}"));
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_size, 16);
  EXPECT_FALSE(llama.tied_embeddings);
  EXPECT_FALSE(llama.attention_bias);
  const Model qwen = ReadModel(Write(
      "qwen.json",
      R"({"model_type": "qwen2", "num_key_value_heads": null,)" + sizes + "}"));
  EXPECT_EQ(qwen.kv_heads, 4);
  EXPECT_TRUE(qwen.attention_bias);
}

TEST_F(WorkloadTest, ImagesAreAsManyTokensAsTheirPatchesAndOne) {
  std::filesystem::copy_file(kWorkloads / "vit-base-patch16-224.json",
                             folder_.path() / "vit.json");
  const std::string text = "[workload]\nmodel = 'vit.json'\nbatch_size = 8\n";
  const common::TomlTable manifest =
      common::TomlTable::ParseFile(Write("fig.toml", text));
  EXPECT_EQ(ReadWorkload(manifest.RequireTable("workload")).sequence_length,
            197);
  EXPECT_THAT(WorkloadError(text + "sequence_length = 196\n"),
              HasSubstr("an image is 197 tokens"));
}

TEST_F(WorkloadTest, ConfigJsonTakesItsNameFromWithinOrFromItsFolder) {
  const std::string rest =
      R"("model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "intermediate_size": 128,
         "vocab_size": 100})";
  EXPECT_EQ(ReadModel(Write("config.json", "{" + rest)).name,
            folder_.path().filename().string());
  EXPECT_EQ(
      ReadModel(Write("config.json", R"({"_name_or_path": "me/tiny",)" + rest))
          .name,
      "me/tiny");
}

// Published totals of parameters (safetensors metadata of the checkpoints).
TEST_F(WorkloadTest, EveryArchitectureHasThePublishedParameters) {
  struct Published {
    std::string config;
    std::int64_t parameters;
  };
  const std::vector<Published> models = {
      {R"("gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
          "vocab_size": 50257, "n_positions": 1024)",
       124'439'808},
      {R"("gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25,
          "vocab_size": 50257, "n_positions": 1024)",
       1'557'611'200},
      // Pythia 6.9B
      {R"("gpt_neox", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 16384,
          "vocab_size": 50432)",
       6'857'302'016},
      {R"("mistral", "hidden_size": 4096, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 8,
          "intermediate_size": 14336, "vocab_size": 32000,
          "sliding_window": 4096)",
       7'241'732'096},
      // Qwen2.5 0.5B and 7B
      {R"("qwen2", "hidden_size": 896, "num_hidden_layers": 24,
          "num_attention_heads": 14, "num_key_value_heads": 2,
          "intermediate_size": 4864, "vocab_size": 151936,
          "tie_word_embeddings": true)",
       494'032'768},
      {R"("qwen2", "hidden_size": 3584, "num_hidden_layers": 28,
          "num_attention_heads": 28, "num_key_value_heads": 4,
          "intermediate_size": 18944, "vocab_size": 152064)",
       7'615'616'512},
      {R"("qwen3", "hidden_size": 4096, "num_hidden_layers": 36,
          "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936)",
       8'190'735'360},
      // Qwen1.5-MoE-A2.7B
      {R"("qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 16, "num_key_value_heads": 16,
          "intermediate_size": 5632, "moe_intermediate_size": 1408,
          "shared_expert_intermediate_size": 5632, "num_experts": 60,
          "num_experts_per_tok": 4, "vocab_size": 151936)",
       14'315'784'192},
      // Qwen3-30B-A3B
      {R"("qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
          "num_attention_heads": 32, "num_key_value_heads": 4,
          "head_dim": 128, "intermediate_size": 6144,
          "moe_intermediate_size": 768, "num_experts": 128,
          "num_experts_per_tok": 8, "vocab_size": 151936)",
       30'532'122'624},
      // Gemma 2 2B and 9B, Gemma 3 1B
      {R"("gemma2", "hidden_size": 2304, "num_hidden_layers": 26,
          "num_attention_heads": 8, "num_key_value_heads": 4,
          "intermediate_size": 9216, "vocab_size": 256000)",
       2'614'341'888},
      {R"("gemma2", "hidden_size": 3584, "num_hidden_layers": 42,
          "num_attention_heads": 16, "num_key_value_heads": 8,
          "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000)",
       9'241'705'984},
      {R"("gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26,
          "num_attention_heads": 4, "num_key_value_heads": 1,
          "head_dim": 256, "intermediate_size": 6912, "vocab_size": 262144)",
       999'885'952},
      // Phi-2, Phi-3-mini
      {R"("phi", "hidden_size": 2560, "num_hidden_layers": 32,
          "num_attention_heads": 32, "intermediate_size": 10240,
          "vocab_size": 51200)",
       2'779'683'840},
      {R"("phi3", "hidden_size": 3072, "num_hidden_layers": 32,
          "num_attention_heads": 32, "num_key_value_heads": 32,
          "intermediate_size": 8192, "vocab_size": 32064)",
       3'821'079'552},
      // DeepSeek-V2-Lite
      {R"("deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
          "num_attention_heads": 16, "intermediate_size": 10944,
          "moe_intermediate_size": 1408, "n_routed_experts": 64,
          "n_shared_experts": 2, "num_experts_per_tok": 6,
          "first_k_dense_replace": 1, "q_lora_rank": null,
          "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400)",
       15'706'484'224},
  };
  for (const Published& model : models) {
    EXPECT_EQ(ParameterCount(ReadModel(Write(
                  "model.json", "{\"model_type\": " + model.config + "}"))),
              model.parameters)
        << model.config;
  }
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "llama-3-8b.json")),
            8'030'261'248);
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "deepseek-v2.json")),
            235'741'434'880);
  EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / "deepseek-v3.json")),
            671'026'419'200);
}

TEST_F(WorkloadTest, AnUnknownDecoderIsReadAsLlamaWithANote) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 100})";
  Model other = ReadModel(Write("m.json", R"({"model_type": "new",)" + sizes));
  Model llama =
      ReadModel(Write("m.json", R"({"model_type": "llama",)" + sizes));
  EXPECT_THAT(other.note, HasSubstr("unknown model_type 'new': read as llama"));
  EXPECT_EQ(llama.note, "");
  other.note = "";
  other.type = "llama";
  EXPECT_EQ(other, llama);
}

TEST_F(WorkloadTest, LocalAttentionIsReadFromKeysOrFromTheList) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
         "intermediate_size": 128, "vocab_size": 100, "sliding_window": 512)";
  const auto share = [&](const std::string& type, const std::string& more) {
    return ReadModel(Write("m.json", "{\"model_type\": \"" + type + "\", " +
                                         sizes + more + "}"))
        .windowed_share;
  };
  EXPECT_DOUBLE_EQ(share("mistral", ""), 1.0);
  EXPECT_DOUBLE_EQ(share("qwen2", ""), 0.0);  // use_sliding_window is off
  EXPECT_DOUBLE_EQ(share("gemma2", ""), 0.5);
  EXPECT_DOUBLE_EQ(share("gemma3_text", ""), 5.0 / 6.0);
  EXPECT_DOUBLE_EQ(
      share("gemma2",
            R"(, "layer_types": ["full_attention", "sliding_attention",
                                 "full_attention", "full_attention"])"),
      0.25);
}

TEST_F(WorkloadTest, ModelErrorsNameTheFileAndTheKey) {
  EXPECT_THAT(ModelError(R"({"model_type": "lama", "num_experts": 8})"),
              AllOf(HasSubstr("model.json: unknown model_type 'lama'"),
                    HasSubstr("did you mean 'llama'?"),
                    HasSubstr("known: bert, qwen2, llama, mixtral, vit")));
  EXPECT_THAT(ModelError(R"({"model_type": "lama"})"),
              HasSubstr("the key 'num_hidden_layers' is missing"));
  EXPECT_THAT(ModelError("{}"), HasSubstr("'model_type' is missing"));
  EXPECT_THAT(ModelError(R"({"model_type": "qwen2"})"),
              HasSubstr("the key 'num_hidden_layers' is missing"));
  EXPECT_THAT(
      ModelError(R"({"model_type": "llama", "num_hidden_layers": "8"})"),
      HasSubstr("num_hidden_layers must be an integer from 1"));
  EXPECT_THAT(ModelError(R"({"model_type": "llama", "hidden_size": 64,
        "num_attention_heads": 4, "intermediate_size": 1, "vocab_size": 1,
        "num_hidden_layers": 2147483647})"),
              HasSubstr("2147483647 layers are more than 10000"));
  EXPECT_THAT(ModelError("{\n  \"model_type\": llama}"),
              HasSubstr("model.json:2:17: this is not valid JSON"));
  EXPECT_THAT(ModelError("[1]"), HasSubstr("a JSON object is needed"));
  EXPECT_THAT(ModelError(R"({"vocab_size": 1e2048})"),
              AllOf(HasSubstr("model.json: "), HasSubstr("1e2048")));
  EXPECT_THAT(
      ModelError(R"({"model_type": "llama", "num_hidden_layers": 2,
        "hidden_size": 64, "num_attention_heads": 5, "intermediate_size": 1,
        "vocab_size": 1})"),
      HasSubstr("hidden_size 64 is not a multiple of num_attention_heads 5"));
}

TEST_F(WorkloadTest, ReadsTheTrainingSettings) {
  std::filesystem::copy_file(kWorkloads / "qwen2-1.5b.json",
                             folder_.path() / "qwen2-1.5b.json");
  const common::TomlTable manifest = common::TomlTable::ParseFile(
      Write("fig.toml",
            "[workload]\nmodel = 'qwen2-1.5b.json'\nbatch_size = 64\n"
            "sequence_length = 1024\nprecision = 'fp16'\n"));
  const Workload workload = ReadWorkload(manifest.RequireTable("workload"));
  EXPECT_EQ(workload.name, "qwen2-1.5b");
  EXPECT_EQ(workload.batch_size, 64);
  EXPECT_EQ(workload.sequence_length, 1024);
  EXPECT_EQ(workload.precision, Precision::kFp16);
  EXPECT_NO_THROW(manifest.RejectUnknownKeys());
}

TEST_F(WorkloadTest, WorkloadErrorsNameThePlaceInTheManifest) {
  const std::string toml = (folder_.path() / "fig.toml").string();
  EXPECT_THAT(
      WorkloadError("[workload]\nmodel = 'nope.json'\nbatch_size = 1\n"),
      AllOf(StartsWith(toml + ":2:9: model \"nope.json\": "),
            HasSubstr((folder_.path() / "nope.json").string() +
                      ": no such file")));
  std::filesystem::copy_file(kWorkloads / "bert-base-uncased.json",
                             folder_.path() / "bert.json");
  const std::string model = "[workload]\nmodel = 'bert.json'\n";
  EXPECT_THAT(WorkloadError(model),
              HasSubstr("workload.batch_size is missing"));
  EXPECT_THAT(
      WorkloadError(model + "batch_size = 0\nsequence_length = 1\n"),
      StartsWith(toml +
                 ":3:14: workload.batch_size = 0: must be an integer >= 1"));
  EXPECT_THAT(WorkloadError(model + "batch_size = 8\nsequence_length = 1024\n"),
              HasSubstr("is more than the 512 positions"));
  EXPECT_THAT(
      WorkloadError(model + "batch_size = 8\nsequence_length = 128\n"
                            "precision = 'bf61'\n"),
      AllOf(StartsWith(toml + ":5:13: "), HasSubstr("did you mean 'bf16'?")));
}

// A rank of one number is a rank: two matrices and a norm.
TEST_F(WorkloadTest, RanksAndSharedExpertsOfOneCount) {
  Model model = ReadModel(kWorkloads / "deepseek-v2.json");
  model = DenseModel(model);
  const std::int64_t hidden = model.hidden_size;
  const auto with = [&](int query_rank, int kv_rank) {
    model.query_rank = query_rank;
    model.kv_rank = kv_rank;
    return BlockParameters(model);
  };
  const std::int64_t query =
      std::int64_t{model.attention_heads} * model.head_size;
  EXPECT_EQ(with(1, 64) - with(0, 64), hidden + 1 + query - hidden * query);
  const std::int64_t keys_and_values =
      std::int64_t{model.attention_heads} *
      (model.head_size - model.rope_head_size + model.value_head_size);
  EXPECT_EQ(with(0, 2) - with(0, 1), hidden + 1 + keys_and_values);
  Model moe = ReadModel(kWorkloads / "moe-32-experts.json");
  const std::int64_t without = BlockParameters(moe);
  moe.shared_ffn_size = 1;
  EXPECT_EQ(BlockParameters(moe) - without, 3 * moe.hidden_size);
}

TEST_F(WorkloadTest, PrecisionsHaveNames) {
  const auto precision = [&](const std::string& line) {
    std::filesystem::copy_file(kWorkloads / "gpt2.json",
                               folder_.path() / "m.json",
                               std::filesystem::copy_options::update_existing);
    return ReadWorkload(common::TomlTable::ParseFile(
                            Write("w.toml",
                                  "[workload]\nmodel = 'm.json'\n"
                                  "batch_size = 1\nsequence_length = 8\n" +
                                      line))
                            .RequireTable("workload"))
        .precision;
  };
  EXPECT_EQ(precision(""), Precision::kBf16);
  EXPECT_EQ(precision("precision = 'fp32'"), Precision::kFp32);
  EXPECT_EQ(precision("precision = 'fp16'"), Precision::kFp16);
  EXPECT_EQ(precision("precision = 'bf16'"), Precision::kBf16);
  EXPECT_EQ(precision("precision = 'fp8'"), Precision::kFp8);
}

// The defaults of transformers for each type.
TEST_F(WorkloadTest, EachTypeHasTheDefaultsOfItsConfigurationClass) {
  const auto read = [&](const std::string& type, const std::string& keys) {
    return ReadModel(
        Write("m.json", "{\"model_type\": \"" + type +
                            R"(", "hidden_size": 64, "num_hidden_layers": 1,
                     "num_attention_heads": 4, "intermediate_size": 128,
                     "vocab_size": 100)" +
                            keys + "}"));
  };
  EXPECT_EQ(read("llama", "").rotary_share, 1.0);
  EXPECT_EQ(read("phi3", "").rotary_share, 1.0);
  EXPECT_EQ(read("qwen3", "").head_size, 128);
  EXPECT_EQ(read("gemma2", "").head_size, 256);
  EXPECT_EQ(read("vit", R"(, "image_size": 4, "patch_size": 2)").classes, 1000);
  const std::string window = R"(, "sliding_window": 8)";
  EXPECT_EQ(read("mixtral", window + R"(, "num_local_experts": 2,
                             "num_experts_per_tok": 2)")
                .windowed_share,
            1.0);
  EXPECT_EQ(read("gemma2", window + R"(, "layer_types": ["full_attention"])")
                .windowed_share,
            0.0);
  EXPECT_EQ(read("gemma2", window + R"(, "layer_types": ["sliding_attention"])")
                .windowed_share,
            1.0);
}

// 3 of 4 experts of 2 of 3 blocks are idle.
TEST_F(WorkloadTest, IdleExpertsAreThoseOfBlocksWithExperts) {
  Model model;
  model.layers = 3;
  model.hidden_size = 2;
  model.attention_heads = model.kv_heads = 1;
  model.head_size = 2;
  model.ffn_size = 5;
  model.vocab_size = 7;
  EXPECT_EQ(ActiveParameterCount(model), ParameterCount(model));
  model.experts_per_token = 2;  // without experts
  EXPECT_EQ(ActiveParameterCount(model), ParameterCount(model));
  model.dense_layers = 1;
  model.dense_ffn_size = 11;
  model.experts = 4;
  model.experts_per_token = 1;
  EXPECT_EQ(ParameterCount(model) - ActiveParameterCount(model),
            3 * 2 * (2 * 2 * 5));
  const Model dense = DenseModel(model);
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(dense.dense_layers, 0);
  // Attention 4 x 2 x 2, a dense layer 2 x 2 x 11 or a router 2 x 4 and four
  // experts 2 x 2 x 5, two norms of 2.
  EXPECT_EQ(BlockParameters(dense), 16 + 44 + 4);
  EXPECT_EQ(BlockParameters(model), 16 + 8 + 80 + 4);
  // An embedding and a head of 7 x 2, and a norm.
  EXPECT_EQ(ParameterCount(model), 14 + 64 + 2 * 108 + 14 + 2);
  model.experts = 1;
  EXPECT_EQ(BlockParameters(model), 16 + 2 + 20 + 4);
  model.router_bias = true;
  EXPECT_EQ(BlockParameters(model), 16 + 3 + 20 + 4);
}

}  // namespace trials::workload_test
