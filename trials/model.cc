#include "trials/model.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"

namespace trials {
namespace {

// Parameters of a dense layer and of norms.
std::int64_t Dense(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return inputs * outputs + (bias ? outputs : 0);
}

std::int64_t Norm(const Model& model) {
  return static_cast<std::int64_t>(model.hidden_size) * (model.plain_norms ? 0
                                                         : model.norm_bias ? 2
                                                                           : 1);
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
  return (model.attention_gate ? 2 : 1) *
             Dense(hidden, query, model.attention_bias) +
         2 * Dense(hidden, key, model.attention_bias) +
         Dense(query, hidden, model.output_bias) +
         (model.whole_qk_norm ? query + key
          : model.qk_norm     ? 2 * model.head_size
                              : 0) +
         (model.sinks ? model.attention_heads : 0);
}

std::int64_t StateParameters(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  return hidden * (std::int64_t{model.state_columns} + model.state_inner) +
         std::int64_t{model.state_channels} * model.state_kernel +
         model.state_parameters;
}

// The sum over all blocks of what `of` returns for a block of each kind.
auto OverBlocks(const Model& model, auto of) {
  auto sum = OwnLayers(model) * of(model);
  if (model.dense_layers > 0) {
    sum += model.dense_layers * of(DenseModel(model));
  }
  for (const Model& kind : model.kinds) {
    sum += kind.layers * of(kind);
  }
  return sum;
}

// The names of the parts that are there.
std::vector<std::string> Listed(
    std::initializer_list<std::pair<bool, std::string_view>> parts) {
  std::vector<std::string> names;
  for (const auto& [is_there, name] : parts) {
    if (is_there) {
      names.emplace_back(name);
    }
  }
  return names;
}

// What was never compared with measurements.
std::vector<std::string> NewBlocks(const Model& model) {
  const bool state = model.state_inner > 0 ||
                     std::ranges::any_of(model.kinds, [](const Model& kind) {
                       return kind.state_inner > 0;
                     });
  return Listed({{state, "state-space layers or linear attention"},
                 {!model.kinds.empty(), "blocks of several kinds"},
                 {!model.towers.empty(), "towers or an encoder"},
                 {model.cross_attention, "cross attention"}});
}

// The first field that says nothing without another one; "" if there is none.
std::string MissingField(const Model& model) {
  constexpr std::pair<std::string_view, std::string_view> kNeeded[] = {
      {"window", "windowed_share"},
      {"rope_head_size", "kv_rank"},
      {"value_head_size", "kv_rank"},
      {"kv_rank", "query_rank rope_head_size value_head_size"},
      {"experts_per_token", "experts"},
      {"groups_per_token", "expert_groups"},
      {"expert_groups", "groups_per_token"},
      {"experts",
       "experts_per_token expert_groups router_bias unnormalized_router "
       "shared_ffn_size dense_layers"},
      {"shared_ffn_size", "shared_expert_gate"},
      {"dense_ffn_size", "dense_layers"},
      {"dense_layers", "dense_ffn_size"},
      {"state_inner",
       "state_heads state_size state_channels state_columns state_kernel "
       "state_parameters"},
      {"state_columns", "state_inner"},
      {"state_heads", "state_size"}};
  std::map<std::string_view, double> values;
  VisitFields(model, [&values](const char* name, const auto& value) {
    values[name] = static_cast<double>(value);
  });
  for (const auto& [needed, fields] : kNeeded) {
    for (const std::string_view field : common::Split(fields, ' ')) {
      if (values[field] != 0.0 && values[needed] == 0.0) {
        return fmt::format("{} needs {}", field, needed);
      }
    }
  }
  return "";
}

}  // namespace

std::string SizeProblem(const Model& model) {
  constexpr int kMost = 10000;  // the largest published models have hundreds
  const std::pair<bool, std::string> problems[] = {
      {model.layers > kMost,
       fmt::format("{} layers are more than {}: correct their number",
                   model.layers, kMost)},
      {model.layers < 1 || model.hidden_size < 1 || model.attention_heads < 1 ||
           model.kv_heads < 1 || (model.attention && model.head_size < 1) ||
           (model.vocab_size < 1 && model.patch_size < 1),
       "layers, hidden size, heads and vocabulary must be integers from 1"},
      {model.attention_heads % std::max(1, model.kv_heads) != 0,
       fmt::format("{} heads are not a multiple of {} kv_heads",
                   model.attention_heads, model.kv_heads)},
      {model.experts_per_token > model.experts,
       fmt::format("a token takes {} of {} experts", model.experts_per_token,
                   model.experts)},
      {model.dense_layers > model.layers,
       fmt::format("{} dense layers are more than {} layers",
                   model.dense_layers, model.layers)},
      {model.groups_per_token > model.expert_groups,
       fmt::format("a token takes {} of {} groups of experts",
                   model.groups_per_token, model.expert_groups)},
      {model.expert_groups > 0 && model.experts % model.expert_groups != 0,
       fmt::format("{} experts are not a multiple of {} groups", model.experts,
                   model.expert_groups)},
      {model.rotary_share > 1.0 || model.windowed_share > 1.0,
       "a share is more than 1"},
      {model.tokens != 0, "tokens needs a tower, which sizes do not have"}};
  for (const auto& [holds, problem] : problems) {
    if (holds) {
      return problem;
    }
  }
  return MissingField(model);
}

Model DenseModel(const Model& model) {
  Model dense = model;
  dense.experts = dense.experts_per_token = dense.shared_ffn_size = 0;
  dense.expert_groups = dense.groups_per_token = 0;
  dense.shared_expert_gate = dense.router_bias = false;
  dense.ffn_size = model.dense_ffn_size;
  dense.dense_layers = 0;
  dense.kinds.clear();
  return dense;
}

int OwnLayers(const Model& model) {
  return std::accumulate(
      model.kinds.begin(), model.kinds.end(), model.layers - model.dense_layers,
      [](int rest, const Model& kind) { return rest - kind.layers; });
}

bool HasFeedForward(const Model& model) {
  return model.experts > 0 || model.ffn_size > 0;
}

std::string NotValidated(const Model& model) {
  return fmt::format("{}", fmt::join(NewBlocks(model), ", "));
}

std::vector<std::string> RareParts(const Model& model) {
  std::vector<std::string> parts = model.special;
  for (const auto& more :
       {NewBlocks(model),
        Listed({{model.plain_norms, "norms without parameters"},
                {model.whole_qk_norm,
                 "norms of queries and keys over all heads at once"},
                {model.attention_gate, "a gate of attention's result"},
                {model.sinks, "attention sinks"},
                {model.clamped_ffn, "a clamped activation"},
                {!model.attention && model.state_inner == 0,
                 "blocks without attention"},
                {model.block_parameters != 0 || model.other_parameters != 0,
                 "parameters outside of its usual layers"}})}) {
    parts.insert(parts.end(), more.begin(), more.end());
  }
  return parts;
}

double AttentionWidth(const Model& model) {
  return OverBlocks(model, [](const Model& block) {
    return (block.attention ? 1.0 : 0.0) * block.attention_heads *
           block.head_size;
  });
}

double StateElements(const Model& model) {
  return OverBlocks(model, [](const Model& block) {
    return static_cast<double>(block.state_size) * block.state_inner;
  });
}

std::int64_t BlockParameters(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t router = Dense(hidden, model.experts, model.router_bias);
  const std::int64_t shared =
      (model.shared_ffn_size > 0 ? FeedForward(model, model.shared_ffn_size)
                                 : 0) +
      (model.shared_expert_gate ? hidden : 0);
  return (model.attention ? AttentionParameters(model) : 0) +
         (model.cross_attention ? AttentionParameters(model) : 0) +
         (model.state_inner > 0 ? StateParameters(model) : 0) +
         (HasFeedForward(model)
              ? router + shared +
                    std::max(1, model.experts) * ExpertParameters(model)
              : 0) +
         model.norms * Norm(model) + model.block_parameters;
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
  return std::accumulate(model.towers.begin(), model.towers.end(),
                         EmbeddingParameters(model) +
                             OverBlocks(model, BlockParameters) +
                             HeadParameters(model) + model.other_parameters,
                         [](std::int64_t sum, const Model& tower) {
                           return sum + ParameterCount(tower);
                         });
}

std::int64_t ActiveParameterCount(const Model& model) {
  return ParameterCount(model) - OverBlocks(model, [](const Model& block) {
           const std::int64_t idle =
               block.experts > 0 ? block.experts - block.experts_per_token : 0;
           return idle * ExpertParameters(block);
         });
}

}  // namespace trials
