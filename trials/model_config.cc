// Reads the shape of a transformer from a Hugging Face config.json. Defaults
// are those of the library, transformers, for each model_type.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/config_file.h"
#include "trials/model.h"

namespace trials {
namespace {

void ReadSizes(const ConfigFile& file, Model& model) {
  model.layers = file.Size("num_hidden_layers");
  model.hidden_size = file.Size("hidden_size");
  model.attention_heads = file.Size("num_attention_heads");
  model.head_size = model.hidden_size / model.attention_heads;
  model.ffn_size = file.Size("intermediate_size");
  model.kv_heads = model.attention_heads;
}

void ReadTextSizes(const ConfigFile& file, Model& model) {
  ReadSizes(file, model);
  model.vocab_size = file.Size("vocab_size");
}

void AddBiases(Model& model) {
  model.attention_bias = model.output_bias = model.ffn_bias = true;
  model.norm_bias = true;
}

// Blocks with local attention: those of layer_types, else `share` of them.
void AddWindow(const ConfigFile& file, double share, Model& model) {
  model.window = file.Size("sliding_window", 0);
  const int local = file.Count("layer_types", "sliding_attention");
  const int global = file.Count("layer_types", "full_attention");
  model.windowed_share = model.window == 0 ? 0.0
                         : local + global > 0
                             ? static_cast<double>(local) / (local + global)
                             : share;
}

// BertModel with its pooler. The library ties word embeddings by default.
void DescribeBert(const ConfigFile& file, Model& model) {
  ReadTextSizes(file, model);
  model.max_positions = file.Size("max_position_embeddings");
  model.token_types = file.Size("type_vocab_size");
  AddBiases(model);
  model.tied_embeddings = file.Flag("tie_word_embeddings", true);
  model.pooler = true;
  model.embedding_norm = true;
  model.final_norm = false;  // every block ends with one
  model.causal = false;
}

// GPT2LMHeadModel.
void DescribeGpt2(const ConfigFile& file, Model& model) {
  constexpr int kUsualFfn = 4;
  model.layers = file.Size("n_layer");
  model.hidden_size = file.Size("n_embd");
  model.attention_heads = model.kv_heads = file.Size("n_head");
  model.head_size = model.hidden_size / model.attention_heads;
  model.ffn_size = file.Size("n_inner", kUsualFfn * model.hidden_size);
  model.vocab_size = file.Size("vocab_size");
  model.max_positions = file.Size("n_positions");
  AddBiases(model);
  model.tied_embeddings = file.Flag("tie_word_embeddings", true);
  model.dropout = file.Number("resid_pdrop", 0.1) > 0.0;
}

// GPTNeoXForCausalLM (Pythia).
void DescribeGptNeoX(const ConfigFile& file, Model& model) {
  constexpr double kRotary = 0.25;
  ReadTextSizes(file, model);
  AddBiases(model);
  model.attention_bias = model.output_bias = file.Flag("attention_bias", true);
  model.parallel_layers = file.Flag("use_parallel_residual", true);
  model.rotary_share = file.Number("rotary_pct", kRotary);
  model.tied_embeddings = file.Flag("tie_word_embeddings", false);
}

// PhiForCausalLM (Phi-1, Phi-2).
void DescribePhi(const ConfigFile& file, Model& model) {
  constexpr double kRotary = 0.5;
  ReadTextSizes(file, model);
  model.kv_heads = file.Size("num_key_value_heads", model.attention_heads);
  AddBiases(model);
  model.head_bias = true;
  model.norms = 1;
  model.parallel_layers = true;
  model.rotary_share = file.Number("partial_rotary_factor", kRotary);
  model.tied_embeddings = file.Flag("tie_word_embeddings", false);
}

// What the decoders that follow Llama have in common.
void DescribeDecoder(const ConfigFile& file, Model& model) {
  ReadTextSizes(file, model);
  model.kv_heads = file.Size("num_key_value_heads", model.attention_heads);
  model.head_size = file.Size("head_dim", model.head_size);
  model.gated_ffn = true;
  model.tied_embeddings = file.Flag("tie_word_embeddings", false);
}

// Llama's attention_bias is one switch for q, k, v and the output.
void DescribeLlama(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.attention_bias = file.Flag("attention_bias", false);
  model.output_bias = model.attention_bias;
  model.ffn_bias = file.Flag("mlp_bias", false);
  model.rotary_share = file.Number("partial_rotary_factor", 1.0);
}

void DescribeMistral(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  AddWindow(file, 1.0, model);
}

void DescribePhi3(const ConfigFile& file, Model& model) {
  DescribeMistral(file, model);
  model.rotary_share = file.Number("partial_rotary_factor", 1.0);
}

// Qwen2 has a bias on q, k, v and nowhere else; no key indicates that.
void DescribeQwen2(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.attention_bias = true;
}

void DescribeQwen3(const ConfigFile& file, Model& model) {
  constexpr int kHead = 128;
  DescribeDecoder(file, model);
  model.head_size = file.Size("head_dim", kHead);
  model.attention_bias = file.Flag("attention_bias", false);
  model.output_bias = model.attention_bias;
  model.qk_norm = true;
}

// Every second block of Gemma 2 has local attention, five of six of Gemma 3.
void DescribeGemma2(const ConfigFile& file, Model& model) {
  constexpr int kHead = 256;
  DescribeDecoder(file, model);
  model.head_size = file.Size("head_dim", kHead);
  model.tied_embeddings = file.Flag("tie_word_embeddings", true);
  model.norms = 4;
  AddWindow(file, 0.5, model);
}

void DescribeGemma3(const ConfigFile& file, Model& model) {
  constexpr int kPattern = 6;
  DescribeGemma2(file, model);
  model.qk_norm = true;
  AddWindow(file, 1.0 - 1.0 / file.Size("sliding_window_pattern", kPattern),
            model);
}

// `experts` feed-forward layers, of which a token takes `chosen`.
void AddExperts(const ConfigFile& file, const std::string& experts,
                Model& model) {
  model.experts = file.Size(experts);
  model.experts_per_token = file.Size("num_experts_per_tok");
  if (model.experts_per_token > model.experts) {
    file.Fail(
        fmt::format("num_experts_per_tok {} is more than the {} experts of {}",
                    model.experts_per_token, model.experts, experts));
  }
}

// Fails where dense blocks are not the first ones.
void CheckEveryBlockHasExperts(const ConfigFile& file, const std::string& key) {
  if (file.Size(key, 1) != 1) {
    file.Fail(
        fmt::format("{} {}: dense blocks between blocks with experts "
                    "are not simulated",
                    key, file.Size(key)));
  }
}

// A Llama whose feed-forward layer is a choice of experts.
void DescribeMixtral(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  AddWindow(file, 1.0, model);
  AddExperts(file, "num_local_experts", model);
}

void DescribeQwen2Moe(const ConfigFile& file, Model& model) {
  DescribeQwen2(file, model);
  CheckEveryBlockHasExperts(file, "decoder_sparse_step");
  AddExperts(file, "num_experts", model);
  model.ffn_size = file.Size("moe_intermediate_size");
  model.shared_ffn_size = file.Size("shared_expert_intermediate_size");
  model.shared_expert_gate = true;
}

void DescribeQwen3Moe(const ConfigFile& file, Model& model) {
  DescribeQwen3(file, model);
  CheckEveryBlockHasExperts(file, "decoder_sparse_step");
  AddExperts(file, "num_experts", model);
  model.ffn_size = file.Size("moe_intermediate_size");
}

// Multi-head latent attention; the first blocks are dense. Modules that predict
// further tokens (V3) are left out, as in the published parameter count.
void DescribeDeepSeek(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.kv_heads = model.attention_heads;
  model.kv_rank = file.Size("kv_lora_rank");
  model.query_rank = file.Size("q_lora_rank", 0);
  model.rope_head_size = file.Size("qk_rope_head_dim");
  model.head_size = file.Size("qk_nope_head_dim") + model.rope_head_size;
  model.value_head_size = file.Size("v_head_dim");
  if (!file.Has("n_routed_experts")) {
    return;
  }
  CheckEveryBlockHasExperts(file, "moe_layer_freq");
  AddExperts(file, "n_routed_experts", model);
  model.expert_groups = file.Size("n_group", 0);
  model.groups_per_token = file.Size("topk_group", model.expert_groups);
  model.dense_layers = static_cast<int>(
      std::min<double>(model.layers, file.Number("first_k_dense_replace", 0)));
  model.dense_ffn_size = model.ffn_size;
  model.ffn_size = file.Size("moe_intermediate_size");
  model.shared_ffn_size = file.Has("n_shared_experts")
                              ? file.Size("n_shared_experts") * model.ffn_size
                              : 0;
}

void DescribeDeepSeekV3(const ConfigFile& file, Model& model) {
  DescribeDeepSeek(file, model);
  model.router_bias = model.experts > 0;  // e_score_correction_bias
}

// ViTForImageClassification: square patches and a class token.
void DescribeVit(const ConfigFile& file, Model& model) {
  const int image = file.Size("image_size");
  const int patch = file.Size("patch_size");
  if (image % patch != 0) {
    file.Fail(fmt::format("image_size {} is not a multiple of patch_size {}",
                          image, patch));
  }
  ReadSizes(file, model);
  model.patch_size = file.Size("num_channels", 3) * patch * patch;
  model.max_positions = (image / patch) * (image / patch) + 1;
  model.classes = file.Size("num_labels", 1000);
  AddBiases(model);
  model.attention_bias = file.Flag("qkv_bias", true);
  model.causal = false;
}

// The structure of one model_type.
struct Architecture {
  std::string_view type;
  void (*describe)(const ConfigFile&, Model&);
};

constexpr auto kArchitectures = std::to_array<Architecture>({
    {"bert", DescribeBert},
    {"qwen2", DescribeQwen2},
    {"llama", DescribeLlama},
    {"mixtral", DescribeMixtral},
    {"vit", DescribeVit},
    {"gpt2", DescribeGpt2},
    {"gpt_neox", DescribeGptNeoX},
    {"mistral", DescribeMistral},
    {"qwen3", DescribeQwen3},
    {"qwen2_moe", DescribeQwen2Moe},
    {"qwen3_moe", DescribeQwen3Moe},
    {"gemma2", DescribeGemma2},
    {"gemma3", DescribeGemma3},
    {"gemma3_text", DescribeGemma3},
    {"phi", DescribePhi},
    {"phi3", DescribePhi3},
    {"deepseek_v2", DescribeDeepSeek},
    {"deepseek_v3", DescribeDeepSeekV3},
});

// Another decoder, read as Llama. Keys of structures that Llama lacks are
// errors.
void DescribeUnknown(const ConfigFile& file, Model& model) {
  const std::vector<std::string> known =
      common::NamesIn(kArchitectures, &Architecture::type);
  const std::string unknown =
      fmt::format("unknown model_type '{}'{}", model.type,
                  common::DidYouMean(model.type, known));
  for (const char* key :
       {"num_local_experts", "num_experts", "n_routed_experts", "kv_lora_rank",
        "encoder_layers", "num_decoder_layers"}) {
    if (file.Has(key)) {
      file.Fail(fmt::format("{} with '{}'; known: {}", unknown, key,
                            fmt::join(known, ", ")));
    }
  }
  for (const char* key :
       {"hidden_size", "num_hidden_layers", "num_attention_heads"}) {
    if (!file.Has(key)) {
      file.Fail(
          fmt::format("{} without '{}' is not a decoder that can be read "
                      "as llama; known: {}",
                      unknown, key, fmt::join(known, ", ")));
    }
  }
  model.note = unknown +
               ": read as llama (RMSNorm, rotary positions, gated feed-forward "
               "layer without biases)";
  DescribeLlama(file, model);
}

void CheckSizes(const ConfigFile& file, const Model& model) {
  constexpr int kMost = 10000;  // the largest published models have hundreds
  if (model.layers > kMost) {
    file.Fail(fmt::format("{} layers are more than {}: correct their number",
                          model.layers, kMost));
  }
  const bool own_size =
      file.Has("head_dim") || model.kv_rank > 0 ||
      model.head_size * model.attention_heads > model.hidden_size;
  if (!own_size && model.hidden_size % model.attention_heads != 0) {
    file.Fail(fmt::format(
        "hidden_size {} is not a multiple of num_attention_heads {}",
        model.hidden_size, model.attention_heads));
  }
  if (model.attention_heads % model.kv_heads != 0) {
    file.Fail(fmt::format(
        "num_attention_heads {} is not a multiple of num_key_value_heads {}",
        model.attention_heads, model.kv_heads));
  }
}

}  // namespace

Model ReadModel(const std::filesystem::path& config_json) {
  const ConfigFile file(config_json);
  Model model;
  model.name = file.Name();
  model.type = file.Text("model_type", "");
  if (model.type.empty()) {
    file.Fail("the key 'model_type' is missing");
  }
  const auto* const found = std::ranges::find_if(
      kArchitectures,
      [&](const Architecture& known) { return known.type == model.type; });
  (found == kArchitectures.end() ? DescribeUnknown : found->describe)(file,
                                                                      model);
  CheckSizes(file, model);
  return model;
}

}  // namespace trials
