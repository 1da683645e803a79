// The shape of a transformer, and of what is built from similar blocks.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/fields.h"

namespace trials {

// The shape of a model, as far as cost depends on it. A field's name is also
// that of a size on the command line (jobs/job.h), of a variable in rules
// ($experts), and of a key in experiments/models/types.toml, which says how
// config.json files give it.
//
// Errors: ReadModel throws InputError for a file that is missing, is not JSON,
// lacks a needed key or describes a model that is not simulated.
struct Model {
  OPPA_FIELD_LIST(Model);
  std::string name;  // file stem or `_name_or_path`
  std::string type;  // Hugging Face model_type: bert, qwen2, llama, ...
  std::string note;  // a warning about what was assumed; usually ""
  OPPA_FIELD(int, layers, 0);  // blocks
  OPPA_FIELD(int, hidden_size, 0);
  OPPA_FIELD(int, attention_heads, 0);
  OPPA_FIELD(int, kv_heads, 0);   // < attention_heads: grouped-query attention
  OPPA_FIELD(int, head_size, 0);  // per attention head
  OPPA_FIELD(int, ffn_size, 0);   // of an expert, if there are experts; 0: none
  OPPA_FIELD(int, vocab_size, 0);
  OPPA_FIELD(int, max_positions, 0);        // learned embeddings, 0 if rotary
  OPPA_FIELD(int, token_types, 0);          // BERT's segment embeddings
  OPPA_FIELD(bool, gated_ffn, false);       // three matrices (SwiGLU), not two
  OPPA_FIELD(bool, attention_bias, false);  // of the q, k, v projections
  OPPA_FIELD(bool, output_bias, false);     // of attention's output projection
  OPPA_FIELD(bool, ffn_bias, false);
  OPPA_FIELD(bool, head_bias, false);        // of the vocabulary head
  OPPA_FIELD(bool, norm_bias, false);        // scale and shift, else RMSNorm
  OPPA_FIELD(bool, tied_embeddings, false);  // the head shares the embedding
  OPPA_FIELD(bool, pooler, false);  // BERT's dense layer on the first token
  OPPA_FIELD(bool, embedding_norm, false);  // a norm after the embeddings
  OPPA_FIELD(bool, final_norm, true);       // a norm after the last block
  OPPA_FIELD(bool, causal, true);
  OPPA_FIELD(bool, dropout, true);  // where the family trains with it
  // Norms of a block: 2; 1 if attention and feed-forward layer share theirs
  // (Phi), 4 if both also have one after them (Gemma), 3 with cross_attention.
  OPPA_FIELD(int, norms, 2);
  // Attention and feed-forward layer have the same input (GPT-NeoX).
  OPPA_FIELD(bool, parallel_layers, false);
  OPPA_FIELD(bool, qk_norm, false);  // of each head's query and key (Qwen3)
  OPPA_FIELD(double, rotary_share, 1.0);  // of a head's dimensions
  // Attention that sees only the last `window` tokens, in this share of the
  // blocks.
  OPPA_FIELD(int, window, 0);
  OPPA_FIELD(double, windowed_share, 0.0);
  // Multi-head latent attention (DeepSeek): keys and values are products of a
  // vector of kv_rank numbers per token, queries of one of query_rank (0: of
  // the hidden states). rope_head_size of the head_size dimensions are rotary
  // and have one key for all heads. 0: no latent attention.
  OPPA_FIELD(int, kv_rank, 0);
  OPPA_FIELD(int, query_rank, 0);
  OPPA_FIELD(int, rope_head_size, 0);
  OPPA_FIELD(int, value_head_size, 0);  // 0: head_size
  // Mixture of experts: each token goes through `experts_per_token` of
  // `experts` feed-forward layers, which a router chooses. 0: one dense layer.
  OPPA_FIELD(int, experts, 0);
  OPPA_FIELD(int, experts_per_token, 0);
  // A token's experts are in at most groups_per_token of `expert_groups`
  // groups, which are on hosts of their own (DeepSeek). 0: no groups.
  OPPA_FIELD(int, expert_groups, 0);
  OPPA_FIELD(int, groups_per_token, 0);
  OPPA_FIELD(bool, router_bias, false);  // corrects the choice (DeepSeek-V3)
  // The weights of a token's experts are those among all (Qwen2-MoE).
  OPPA_FIELD(bool, unnormalized_router, false);
  OPPA_FIELD(int, shared_ffn_size, 0);  // experts that every token takes
  OPPA_FIELD(bool, shared_expert_gate, false);  // weights them (Qwen2-MoE)
  // The first blocks have a dense layer of dense_ffn_size instead of experts.
  OPPA_FIELD(int, dense_layers, 0);
  OPPA_FIELD(int, dense_ffn_size, 0);
  // Vision: a token is a linear map of a patch of this many values (channels
  // times pixels). 0: tokens are looked up in a table.
  OPPA_FIELD(int, patch_size, 0);
  OPPA_FIELD(int, classes, 0);  // of a classifier that replaces the head
  OPPA_FIELD(bool, plain_norms, false);     // without parameters (OLMo)
  OPPA_FIELD(bool, whole_qk_norm, false);   // qk_norm of all heads (OLMo-2)
  OPPA_FIELD(bool, attention_gate, false);  // of its result (Qwen3-Next)
  OPPA_FIELD(bool, sinks, false);  // a learned score of each head (gpt-oss)
  OPPA_FIELD(bool, clamped_ffn, false);  // what the activation takes (gpt-oss)
  // Attention to a tower's result, after that to the block's own (T5).
  OPPA_FIELD(bool, cross_attention, false);
  OPPA_FIELD(bool, attention, true);  // false: the block has none
  // A state-space layer or linear attention (Mamba, gated delta net): one
  // product gives state_columns of a token, a convolution over state_kernel
  // tokens mixes state_channels of them, a scan keeps state_size x (state_inner
  // / state_heads) numbers for each head, and a product takes its state_inner
  // results. state_parameters are the others. 0: no such layer.
  OPPA_FIELD(int, state_heads, 0);
  OPPA_FIELD(int, state_size, 0);
  OPPA_FIELD(int, state_inner, 0);
  OPPA_FIELD(int, state_channels, 0);
  OPPA_FIELD(int, state_columns, 0);
  OPPA_FIELD(int, state_kernel, 0);
  OPPA_FIELD(int, state_parameters, 0);
  OPPA_FIELD(int, mtp_layers, 0);  // predict further tokens; not counted
  // Parameters that the other fields do not give (biases of positions,
  // projectors), of a block and of the whole; may be negative.
  OPPA_FIELD(std::int64_t, block_parameters, 0);
  OPPA_FIELD(std::int64_t, other_parameters, 0);
  OPPA_FIELD(int, tokens, 0);  // of a tower; 0: as many as the sequence
  // What the fields do not say, though another model without it is trained:
  // "squared ReLU", "ALiBi".
  std::vector<std::string> special;
  // Blocks of other kinds, evenly spread over the depth: models whose blocks
  // are all of that kind, with their number of layers. The others are as this.
  std::vector<Model> kinds;
  // Models that run before the first block: of images or audio, or an encoder.
  std::vector<Model> towers;
};

// What a user knows about a model. docs/plan.md, "Models".
struct ModelOptions {
  std::string as;          // the type that an unknown model_type is read as
  std::string parameters;  // their number, which is checked: "7.7e9", "7.7b"
};

// Reads a Hugging Face config.json of a type in experiments/models/types.toml.
// Errors: also throws InputError for an unknown type, for a key of a structure
// that the type does not have, and where the parameters are more than 1% off
// those of `options` or of a model.safetensors.index.json beside the file.
[[nodiscard]] Model ReadModel(const std::filesystem::path& config_json,
                              const ModelOptions& options = {});

// Errors: throws InputError if the model has not, within 1%, this number of
// parameters: "7.7e9", "7.7b"; "" is not checked.
void CheckParameters(const Model& model, const std::string& parameters);

// What is wrong with the sizes of a model: "6 heads are not a multiple of 4
// kv_heads"; "" if nothing is.
[[nodiscard]] std::string SizeProblem(const Model& model);

// The model whose blocks are all like the first dense_layers.
[[nodiscard]] Model DenseModel(const Model& model);

// The layers that are like the model itself: neither dense_layers nor kinds.
[[nodiscard]] int OwnLayers(const Model& model);

// What is simulated from operators, but was never compared with measurements:
// "state-space layers, towers"; "" for a transformer.
[[nodiscard]] std::string NotValidated(const Model& model);

// The parts that few programs can be told of by sizes, in words: what is
// special, and the fields from plain_norms on. None for a usual model.
[[nodiscard]] std::vector<std::string> RareParts(const Model& model);

// Whether a block has a feed-forward layer or experts.
[[nodiscard]] bool HasFeedForward(const Model& model);

// Sum over the blocks of the products of scores with values: heads * head_size.
[[nodiscard]] double AttentionWidth(const Model& model);
// Numbers that the scans of all blocks keep (Model::state_size): a token
// updates and reads each of them.
[[nodiscard]] double StateElements(const Model& model);

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
