// The shape of a transformer.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace trials {

// The shape of a transformer, as far as cost depends on it.
//
// Errors: ReadModel throws InputError for a file that is missing, is not JSON,
// lacks a needed key or describes a model that is not simulated.
struct Model {
  std::string name;  // file stem or `_name_or_path`
  std::string type;  // Hugging Face model_type: bert, qwen2, llama, ...
  std::string note;  // a warning about what was assumed; usually ""
  int layers = 0;    // transformer blocks
  int hidden_size = 0;
  int attention_heads = 0;
  int kv_heads = 0;   // < attention_heads: grouped-query attention
  int head_size = 0;  // per attention head
  int ffn_size = 0;   // of an expert, if there are experts
  int vocab_size = 0;
  int max_positions = 0;        // learned position embeddings, 0 if rotary
  int token_types = 0;          // BERT's segment embeddings
  bool gated_ffn = false;       // three matrices (SwiGLU) instead of two
  bool attention_bias = false;  // bias of the q, k, v projections
  bool output_bias = false;     // bias of the attention's output projection
  bool ffn_bias = false;
  bool head_bias = false;        // bias of the vocabulary head
  bool norm_bias = false;        // LayerNorm (scale and shift), else RMSNorm
  bool tied_embeddings = false;  // the vocabulary head shares the embedding
  bool pooler = false;           // BERT's dense layer on the first token
  bool embedding_norm = false;   // BERT's norm after the embeddings
  bool final_norm = true;        // a norm after the last block
  bool causal = true;
  bool dropout = true;  // where the family trains with it (BERT, GPT)
  // Norms of a block: 2; 1 if attention and feed-forward layer share theirs
  // (Phi), 4 if both also have one after them (Gemma).
  int norms = 2;
  // Attention and feed-forward layer have the same input (GPT-NeoX).
  bool parallel_layers = false;
  bool qk_norm = false;       // a norm of each head's query and key (Qwen3)
  double rotary_share = 1.0;  // of a head's dimensions
  // Attention that sees only the last `window` tokens, in this share of the
  // blocks.
  int window = 0;
  double windowed_share = 0.0;
  // Multi-head latent attention (DeepSeek): keys and values are products of a
  // vector of kv_rank numbers per token, queries of one of query_rank (0: of
  // the hidden states). rope_head_size of the head_size dimensions are rotary
  // and have one key for all heads. 0: no latent attention.
  int kv_rank = 0;
  int query_rank = 0;
  int rope_head_size = 0;
  int value_head_size = 0;  // 0: head_size
  // Mixture of experts: each token goes through `experts_per_token` of
  // `experts` feed-forward layers, which a router chooses. 0: one dense layer.
  int experts = 0;
  int experts_per_token = 0;
  // A token's experts are in at most groups_per_token of `expert_groups`
  // groups, which are on hosts of their own (DeepSeek). 0: no groups.
  int expert_groups = 0;
  int groups_per_token = 0;
  bool router_bias = false;         // corrects the choice (DeepSeek-V3)
  int shared_ffn_size = 0;          // experts that every token goes through
  bool shared_expert_gate = false;  // weights their result (Qwen2-MoE)
  // The first blocks have a dense layer of dense_ffn_size instead of experts.
  int dense_layers = 0;
  int dense_ffn_size = 0;
  // Vision: a token is a linear map of a patch of this many values (channels
  // times pixels). 0: tokens are looked up in a table.
  int patch_size = 0;
  int classes = 0;  // of a classifier that replaces the vocabulary head

  friend bool operator==(const Model&, const Model&) = default;
};

// Reads a Hugging Face config.json: BERT, ViT, GPT-2, GPT-NeoX, Llama, Mistral,
// Mixtral, Qwen 2 and 3 and their MoE, Gemma 2 and 3, Phi, Phi-3, DeepSeek V2
// and V3. Another model_type with the keys of Llama is read as Llama, with a
// note.
[[nodiscard]] Model ReadModel(const std::filesystem::path& config_json);

// The model whose blocks are all like the first dense_layers.
[[nodiscard]] Model DenseModel(const Model& model);

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
// Those that a token goes through: of the experts, experts_per_token.
[[nodiscard]] std::int64_t ActiveParameterCount(const Model& model);

}  // namespace trials
