#include "trials/workload.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
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
    return fakes::ErrorOf([&] { return ReadModel(Write("model.json", text)); });
  }

  // The same of a [workload] table in fig.toml.
  std::string WorkloadError(const std::string& text) const {
    return fakes::ErrorOf([&] { return Read(text); });
  }
  Workload Read(const std::string& text) const {
    return ReadWorkload(common::TomlTable::ParseFile(Write("fig.toml", text))
                            .RequireTable("workload"));
  }

  fakes::TemporaryFolder folder_;
};

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

TEST_F(WorkloadTest, ImagesAreAsManyTokensAsTheirPatchesAndOne) {
  std::filesystem::copy_file(kWorkloads / "vit-base-patch16-224.json",
                             folder_.path() / "vit.json");
  const std::string text = "[workload]\nmodel = 'vit.json'\nbatch_size = 8\n";
  EXPECT_EQ(Read(text).sequence_length, 197);
  EXPECT_THAT(WorkloadError(text + "sequence_length = 196\n"),
              HasSubstr("an image is 197 tokens"));
}

TEST_F(WorkloadTest, DocumentsAreNotLongerThanTheirSequence) {
  std::filesystem::copy_file(
      fakes::SourceFolder() / "experiments/workloads/llama-3-8b.json",
      folder_.path() / "llama.json");
  const std::string text =
      "[workload]\nmodel = 'llama.json'\nbatch_size = 8\n"
      "sequence_length = 4096\n";
  EXPECT_EQ(Read(text + "packed_tokens = 4096\n").training.packed_tokens, 4096);
  EXPECT_THAT(WorkloadError(text + "packed_tokens = 4097\n"),
              HasSubstr("a document is longer than the 4096 tokens"));
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
      // Qwen2.5 0.5B
      {R"("qwen2", "hidden_size": 896, "num_hidden_layers": 24,
          "num_attention_heads": 14, "num_key_value_heads": 2,
          "intermediate_size": 4864, "vocab_size": 151936,
          "tie_word_embeddings": true)",
       494'032'768},
      // Qwen1.5-MoE-A2.7B
      {R"("qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 16, "num_key_value_heads": 16,
          "intermediate_size": 5632, "moe_intermediate_size": 1408,
          "shared_expert_intermediate_size": 5632, "num_experts": 60,
          "num_experts_per_tok": 4, "vocab_size": 151936)",
       14'315'784'192},
      // Gemma 2 2B, Gemma 3 1B
      {R"("gemma2", "hidden_size": 2304, "num_hidden_layers": 26,
          "num_attention_heads": 8, "num_key_value_heads": 4,
          "intermediate_size": 9216, "vocab_size": 256000)",
       2'614'341'888},
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
  for (const auto& [name, parameters] :
       std::vector<std::pair<std::string, std::int64_t>>{
           {"bert-base-uncased", 109'482'240},
           {"gpt2", 124'439'808},
           {"qwen2-1.5b", 1'543'714'304},
           {"qwen3-8b", 8'190'735'360},
           {"qwen3-30b-a3b", 30'532'122'624},
           {"gemma-2-9b", 9'241'705'984},
           {"llama-3.2-1b", 1'235'814'400},
           {"llama-2-7b", 6'738'415'616},
           {"llama-3-8b", 8'030'261'248},
           {"deepseek-v2", 235'741'434'880},
           {"deepseek-v3", 671'026'419'200}}) {
    EXPECT_EQ(ParameterCount(ReadModel(kWorkloads / (name + ".json"))),
              parameters)
        << name;
  }
}

TEST_F(WorkloadTest, LocalAttentionIsReadFromKeysOrFromTheList) {
  const std::string sizes =
      R"("hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
         "num_key_value_heads": 4, "intermediate_size": 128,
         "vocab_size": 100, "sliding_window": 512)";
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
                                 "full_attention", "full_attention",
                                 "sliding_attention", "full_attention"])"),
      1.0 / 3.0);
}

TEST_F(WorkloadTest, ModelErrorsNameTheFileAndTheKey) {
  EXPECT_THAT(ModelError(R"({"model_type": "lama", "num_experts": 8})"),
              AllOf(HasSubstr("model.json: unknown model_type 'lama'"),
                    HasSubstr("did you mean 'llama'?"),
                    HasSubstr("known: llama, mistral, ")));
  EXPECT_THAT(ModelError("{}"), HasSubstr("'model_type' is missing"));
  EXPECT_THAT(ModelError(R"({"model_type": "qwen2"})"),
              HasSubstr("the key 'num_hidden_layers' is missing"));
  EXPECT_THAT(
      ModelError(R"({"model_type": "llama", "num_hidden_layers": "8"})"),
      HasSubstr("num_hidden_layers must be a number"));
  for (const char* layers : {"0", "-1", "2.5", "1e10"}) {
    EXPECT_THAT(ModelError(R"({"model_type": "llama", "hidden_size": 64,
        "num_attention_heads": 4, "intermediate_size": 1, "vocab_size": 1,
        "num_hidden_layers": )" +
                           std::string(layers) + "}"),
                HasSubstr("from "));
  }
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
      HasSubstr("head_size = head_dim | $hidden_size / $attention_heads is "
                "12.8: it must be an integer"));
}

TEST_F(WorkloadTest, ReadsTheTrainingSettings) {
  std::filesystem::copy_file(kWorkloads / "qwen2-1.5b.json",
                             folder_.path() / "qwen2-1.5b.json");
  const Workload workload = Read(
      "[workload]\nmodel = 'qwen2-1.5b.json'\nbatch_size = 64\n"
      "sequence_length = 1024\nprecision = 'fp16'\n");
  EXPECT_EQ(workload.name, "qwen2-1.5b");
  EXPECT_EQ(workload.batch_size, 64);
  EXPECT_EQ(workload.sequence_length, 1024);
  EXPECT_EQ(workload.precision, Precision::kFp16);
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
  const Model llama = read("llama", "");
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_size, 16);
  EXPECT_FALSE(llama.tied_embeddings || llama.attention_bias);
  EXPECT_EQ(llama.rotary_share, 1.0);
  EXPECT_EQ(read("qwen2", R"(, "num_key_value_heads": null)").kv_heads, 4);
  EXPECT_EQ(read("phi3", "").rotary_share, 1.0);
  const std::string kv = R"(, "num_key_value_heads": 2)";
  EXPECT_EQ(read("gemma2", "").kv_heads, 4);
  EXPECT_EQ(read("qwen3", kv).head_size, 128);
  EXPECT_EQ(read("gemma2", "").head_size, 256);
  EXPECT_EQ(read("vit", R"(, "image_size": 4, "patch_size": 2)").classes, 1000);
  const std::string window = R"(, "sliding_window": 8)";
  EXPECT_EQ(read("mixtral", kv + window + R"(, "num_local_experts": 2,
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
  // Attention 4 x 2 x 2, a dense layer 2 x 2 x 11 or a router 2 x 4 and four
  // experts 2 x 2 x 5, two norms of 2.
  EXPECT_EQ(BlockParameters(DenseModel(model)), 16 + 44 + 4);
  EXPECT_EQ(BlockParameters(model), 16 + 8 + 80 + 4);
  // An embedding and a head of 7 x 2, and a norm.
  EXPECT_EQ(ParameterCount(model), 14 + 64 + 2 * 108 + 14 + 2);
}

Workload Example(const std::string& model) {
  return {.name = model,
          .model = ReadModel(kWorkloads / (model + ".json")),
          .batch_size = 16,
          .sequence_length = 1024};
}

TEST(ScaledWorkload, DividesSizesAndKeepsWhatParallelismDivides) {
  const Workload whole = Example("qwen2-1.5b");
  const Workload small = Scaled(whole, 16);
  EXPECT_EQ(small.model.layers, whole.model.layers);
  EXPECT_EQ(small.model.attention_heads, whole.model.attention_heads);
  EXPECT_EQ(small.model.kv_heads, whole.model.kv_heads);
  EXPECT_EQ(small.batch_size, whole.batch_size);
  EXPECT_EQ(small.model.head_size, 128 / 16);
  EXPECT_EQ(small.model.hidden_size, 12 * 8);
  EXPECT_EQ(small.model.ffn_size, 8960 / 16 / 64 * 64);
  EXPECT_EQ(small.sequence_length, 1024 / 16);
  EXPECT_EQ(Scaled(whole, 1), whole);
}

TEST(ScaledWorkload, StopsAtSizesThatEveryConfigurationDivides) {
  const Workload small = Scaled(Example("qwen2-1.5b"), 1 << 20);
  EXPECT_EQ(small.model.head_size, 8);
  EXPECT_EQ(small.model.ffn_size, 64);
  EXPECT_EQ(small.model.vocab_size, 512);
  EXPECT_EQ(small.sequence_length, 32);
  EXPECT_EQ(small.model.max_positions, 0);
  // There are positions for all tokens.
  EXPECT_EQ(Scaled(Example("gpt2"), 2).model.max_positions, 512);
  EXPECT_EQ(Scaled(Example("gpt2"), 1000).model.max_positions, 32);
}

TEST(ScaledWorkload, AnImageHasTwoTokensAtLeast) {
  Workload image = Example("vit-base-patch16-224");
  image.sequence_length = image.model.max_positions;
  const Workload small = Scaled(image, 2);
  EXPECT_EQ(small.sequence_length, 197 / 2);
  EXPECT_EQ(small.model.max_positions, 197 / 2);
  EXPECT_EQ(small.model.patch_size, 768 / 2);
  EXPECT_EQ(Scaled(image, 1000).sequence_length, 2);
  EXPECT_EQ(Scaled(image, 1000).model.patch_size, 8);
  image.model.patch_size = 1;
  EXPECT_EQ(Scaled(image, 2).sequence_length, 197 / 2);
}

}  // namespace trials::workload_test
