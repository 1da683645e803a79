#include "trainer/job.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trials/config_file.h"
#include "trials/constraints.h"
#include "trials/workload.h"

namespace trainer {
namespace {

struct Defaults {
  const char* type;
  const char* epsilon_key;
  ModelConstants constants;
};
constexpr std::array<Defaults, 5> kDefaults = {{
    {"gpt2", "layer_norm_epsilon", {1e-5, 10000.0}},
    {"bert", "layer_norm_eps", {1e-12, 10000.0}},
    {"vit", "layer_norm_eps", {1e-12, 10000.0}},
    {"mixtral", "rms_norm_eps", {1e-5, 1e6}},
    {"", "rms_norm_eps", {1e-6, 10000.0}},  // Llama, Qwen2 and the like
}};

// The part of a model that the trainer lacks, or "".
std::string_view Missing(const trials::Model& m) {
  const std::array<std::pair<bool, std::string_view>, 10> parts = {{
      {m.kv_rank > 0, "multi-head latent attention"},
      {m.qk_norm, "norms of queries and keys"},
      {m.window > 0, "attention to a window"},
      {m.parallel_layers, "parallel attention and feed-forward layers"},
      {m.norms != 2, "blocks without exactly two norms"},
      {m.rotary_share != 1.0, "heads that are rotated in part"},
      {m.shared_ffn_size > 0, "shared experts"},
      {m.dense_layers > 0, "dense blocks before blocks with experts"},
      {m.experts > 0 && (m.ffn_bias || m.router_bias), "experts with biases"},
      {!trials::RareParts(m).empty(), "parts of other models"},
  }};
  const auto found = std::find_if(parts.begin(), parts.end(),
                                  [](const auto& part) { return part.first; });
  return found == parts.end() ? std::string_view() : found->second;
}

}  // namespace

ModelConstants ReadModelConstants(const std::filesystem::path& config_json) {
  const trials::ConfigFile file(config_json);
  const std::string type = file.Text("model_type", "");
  const Defaults* found =
      std::find_if(kDefaults.begin(), kDefaults.end() - 1,
                   [&type](const Defaults& d) { return type == d.type; });
  ModelConstants constants = found->constants;
  constants.norm_epsilon =
      file.Number(found->epsilon_key, constants.norm_epsilon);
  constants.rotary_base = file.Number(
      "rope_theta",
      file.Number("rope_parameters.rope_theta", constants.rotary_base));
  if (constants.rotary_base <= 0.0) {
    file.Fail("rope_theta must be above 0");
  }
  return constants;
}

Job Scale(Job job, int factor) {
  if (factor <= 1) {
    return job;
  }
  const trials::Workload scaled =
      trials::Scaled({.name = "",
                      .model = std::move(job.model),
                      .batch_size = job.batch_size,
                      .sequence_length = job.sequence_length},
                     factor);
  job.model = scaled.model;
  job.sequence_length = scaled.sequence_length;
  job.bucket_unit_bytes =
      std::max<std::int64_t>(job.bucket_unit_bytes / factor / factor, 1);
  return job;
}

void CheckJob(const Job& job) {
  const trials::Model& m = job.model;
  if (const std::string_view missing = Missing(m); !missing.empty()) {
    throw common::InputError(fmt::format(
        "model '{}' has {}, which oppa-train does not implement; choose a "
        "GPT-2, BERT, ViT, Llama, Qwen2 or Mixtral model",
        m.name, missing));
  }
  if (m.max_positions > 0 && job.sequence_length > m.max_positions) {
    throw common::InputError(
        fmt::format("invalid sequence length {}: the model has {} positions",
                    job.sequence_length, m.max_positions));
  }
  if (m.head_size % 2 != 0) {
    throw common::InputError(
        fmt::format("invalid head size {}: it must be even", m.head_size));
  }
  const trials::Workload workload{.name = m.name,
                                  .model = m,
                                  .batch_size = job.batch_size,
                                  .sequence_length = job.sequence_length};
  trials::ConstraintContext context{.workload = workload, .gpus = job.ranks()};
  context.unfilled_stages = job.config.pp;
  if (const std::string problem = trials::ConfigProblem(job.config, context);
      !problem.empty()) {
    throw common::InputError("invalid configuration " +
                             trials::ToString(job.config) + ": " + problem);
  }
  if (m.ffn_size % job.config.tp != 0) {
    throw common::InputError(
        fmt::format("tp must divide the feed-forward size (tp = {}, size = {})",
                    job.config.tp, m.ffn_size));
  }
}

}  // namespace trainer
