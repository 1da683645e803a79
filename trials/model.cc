#include "trials/model.h"

#include <algorithm>
#include <cstdint>

namespace trials {
namespace {

// Parameters of a dense layer and of norms.
std::int64_t Dense(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return inputs * outputs + (bias ? outputs : 0);
}

std::int64_t Norm(const Model& model) {
  return static_cast<std::int64_t>(model.hidden_size) *
         (model.norm_bias ? 2 : 1);
}

std::int64_t FeedForward(const Model& model, std::int64_t ffn) {
  return (model.gated_ffn ? 2 : 1) *
             Dense(model.hidden_size, ffn, model.ffn_bias) +
         Dense(ffn, model.hidden_size, model.ffn_bias);
}

// Down to a vector of `rank` numbers with a norm, and up to `outputs`.
std::int64_t LowRank(std::int64_t hidden, std::int64_t rank,
                     std::int64_t outputs) {
  return hidden * rank + rank + rank * outputs;
}

std::int64_t LatentAttention(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t heads = model.attention_heads;
  const std::int64_t query = heads * model.head_size;
  const std::int64_t plain = model.head_size - model.rope_head_size;
  const std::int64_t value = model.value_head_size;
  return (model.query_rank > 0 ? LowRank(hidden, model.query_rank, query)
                               : hidden * query) +
         LowRank(hidden, model.kv_rank, heads * (plain + value)) +
         hidden * model.rope_head_size + heads * value * hidden;
}

std::int64_t AttentionParameters(const Model& model) {
  if (model.kv_rank > 0) {
    return LatentAttention(model);
  }
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t query =
      std::int64_t{model.attention_heads} * model.head_size;
  const std::int64_t key = std::int64_t{model.kv_heads} * model.head_size;
  return Dense(hidden, query, model.attention_bias) +
         2 * Dense(hidden, key, model.attention_bias) +
         Dense(query, hidden, model.output_bias) +
         (model.qk_norm ? 2 * model.head_size : 0);
}

}  // namespace

Model DenseModel(const Model& model) {
  Model dense = model;
  dense.experts = dense.experts_per_token = dense.shared_ffn_size = 0;
  dense.expert_groups = dense.groups_per_token = 0;
  dense.shared_expert_gate = dense.router_bias = false;
  dense.ffn_size = model.dense_ffn_size;
  dense.dense_layers = 0;
  return dense;
}

std::int64_t BlockParameters(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t router = Dense(hidden, model.experts, model.router_bias);
  const std::int64_t shared =
      (model.shared_ffn_size > 0 ? FeedForward(model, model.shared_ffn_size)
                                 : 0) +
      (model.shared_expert_gate ? hidden : 0);
  return AttentionParameters(model) + router + shared +
         std::max(1, model.experts) * ExpertParameters(model) +
         model.norms * Norm(model);
}

std::int64_t ExpertParameters(const Model& model) {
  return FeedForward(model, model.ffn_size);
}

std::int64_t EmbeddingParameters(const Model& model) {
  const std::int64_t class_token = model.patch_size > 0 ? 1 : 0;
  const std::int64_t rows = std::int64_t{model.vocab_size} +
                            model.max_positions + model.token_types +
                            class_token;
  const std::int64_t patches =
      model.patch_size == 0
          ? 0
          : Dense(model.patch_size, model.hidden_size, /*bias=*/true);
  return rows * model.hidden_size + patches +
         (model.embedding_norm ? Norm(model) : 0);
}

std::int64_t HeadParameters(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  return (model.final_norm ? Norm(model) : 0) +
         (model.pooler ? Dense(hidden, hidden, /*bias=*/true) : 0) +
         Dense(hidden, model.classes, /*bias=*/true) +
         (model.tied_embeddings
              ? 0
              : Dense(hidden, model.vocab_size, model.head_bias));
}

std::int64_t ParameterCount(const Model& model) {
  const std::int64_t dense =
      model.dense_layers == 0
          ? 0
          : model.dense_layers * BlockParameters(DenseModel(model));
  return EmbeddingParameters(model) + dense +
         (model.layers - model.dense_layers) * BlockParameters(model) +
         HeadParameters(model);
}

std::int64_t ActiveParameterCount(const Model& model) {
  const std::int64_t idle =
      model.experts > 0 ? model.experts - model.experts_per_token : 0;
  return ParameterCount(model) -
         idle * (model.layers - model.dense_layers) * ExpertParameters(model);
}

}  // namespace trials
