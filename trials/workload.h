// The training job: a transformer and the settings it is trained with.

#ifndef TRIALS_WORKLOAD_H_
#define TRIALS_WORKLOAD_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/error.h"
#include "common/toml_table.h"

namespace trials {

// The shape of a transformer, as far as cost depends on it.
//
// Errors: ReadModel throws InputError for a file that is missing, is not JSON,
// lacks a needed key or describes an unknown model_type.
struct Model {
  std::string name;  // file stem or `_name_or_path`
  std::string type;  // Hugging Face model_type: bert, qwen2, llama, ...
  int layers = 0;    // transformer blocks
  int hidden_size = 0;
  int attention_heads = 0;
  int kv_heads = 0;   // < attention_heads: grouped-query attention
  int head_size = 0;  // per attention head
  int ffn_size = 0;
  int vocab_size = 0;
  int max_positions = 0;        // learned position embeddings, 0 if rotary
  int token_types = 0;          // BERT's segment embeddings
  bool gated_ffn = false;       // three matrices (SwiGLU) instead of two
  bool attention_bias = false;  // bias of the q, k, v projections
  bool output_bias = false;     // bias of the attention's output projection
  bool ffn_bias = false;
  bool norm_bias = false;        // LayerNorm (scale and shift), else RMSNorm
  bool tied_embeddings = false;  // the vocabulary head shares the embedding
  bool pooler = false;           // BERT's dense layer on the first token
  bool embedding_norm = false;   // BERT's norm after the embeddings
  bool final_norm = true;        // a norm after the last block
  bool causal = true;
  bool dropout = true;  // where the family trains with it (BERT, GPT)
  // Mixture of experts: each token goes through `experts_per_token` of
  // `experts` feed-forward layers, which a router chooses. 0: one dense layer.
  int experts = 0;
  int experts_per_token = 0;
  // Vision: a token is a linear map of a patch of this many values (channels
  // times pixels). 0: tokens are looked up in a table.
  int patch_size = 0;
  int classes = 0;  // of a classifier that replaces the vocabulary head

  friend bool operator==(const Model&, const Model&) = default;
};

// Reads a Hugging Face config.json (BERT, Qwen2, Llama, Mixtral, ViT).
[[nodiscard]] Model ReadModel(const std::filesystem::path& config_json);

// Trainable parameters of one block, of everything outside the blocks, and of
// the whole model (tied weights counted once). A block counts all experts;
// ExpertParameters is one of them.
[[nodiscard]] std::int64_t BlockParameters(const Model& model);
[[nodiscard]] std::int64_t ExpertParameters(const Model& model);
[[nodiscard]] std::int64_t EmbeddingParameters(
    const Model& model);  // before the first block
[[nodiscard]] std::int64_t HeadParameters(
    const Model& model);  // after the last; 0 for a tied matrix
[[nodiscard]] std::int64_t ParameterCount(const Model& model);

// kFp8: matrix products of linear layers in 8 bits, everything else as bf16.
enum class Precision { kFp32, kFp16, kBf16, kFp8 };

// A model and its training settings. Source: OPPA Table 2.
struct Workload {
  std::string name;
  Model model;
  int batch_size = 0;       // sequences per step over all ranks
  int sequence_length = 0;  // tokens
  Precision precision =
      Precision::kBf16;  // of compute; the optimizer keeps fp32 masters

  friend bool operator==(const Workload&, const Workload&) = default;
};

// Reads the [workload] table of a manifest:
//   model = "workloads/qwen2-1.5b.json"   (relative to the manifest)
//   batch_size = 64
//   sequence_length = 1024                  (images: patches + 1, the default)
//   precision = "bf16"                    (fp32, fp16, bf16, fp8)
[[nodiscard]] Workload ReadWorkload(const common::TomlTable& table);

}  // namespace trials

#endif  // TRIALS_WORKLOAD_H_
