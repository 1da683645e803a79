#include "trials/tables/model_shape.h"

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "trials/data_folder.h"

namespace trials {
namespace {

void DescribeFamily(const Facts& facts, Model& model) {
  model.type = facts.RequireText("family");
  if (model.type == "llama") {
    model.gated_ffn = true;
    return;
  }
  if (model.type != "gpt" && model.type != "bert") {
    facts.Fail(
        fmt::format("family '{}' is not known here; known: gpt, llama, "
                    "bert",
                    model.type));
  }
  model.attention_bias = model.output_bias = model.ffn_bias = true;
  model.norm_bias = true;
  model.tied_embeddings = true;
  model.max_positions = facts.RequireInt("sequence_length");
  if (model.type == "bert") {
    model.causal = false;
    model.token_types = 2;
  }
}

Precision PrecisionOf(const Facts& facts) {
  const std::string name = facts.Text("precision", "bf16");
  if (name == "bf16") {
    return Precision::kBf16;
  }
  if (name == "fp16") {
    return Precision::kFp16;
  }
  if (name == "fp8") {
    return Precision::kFp8;
  }
  if (name == "fp32") {
    return Precision::kFp32;
  }
  facts.Fail(fmt::format(
      "precision '{}' is not known here; known: bf16, fp16, fp32", name));
}

Model FromConfig(const Facts& facts) {
  const std::string name = facts.Text("config");
  Model model =
      ReadModel(name.ends_with(".json")
                    ? std::filesystem::path(name)
                    : ExperimentsFolder() / "workloads" / (name + ".json"));
  model.layers = facts.Int("layers", model.layers);
  model.vocab_size = facts.Int("vocab_size", model.vocab_size);
  model.tied_embeddings = facts.Flag("tied_embeddings", model.tied_embeddings);
  model.dropout = facts.Flag("dropout", model.dropout);
  model.name = facts.Text("model", name);
  return model;
}

}  // namespace

Model ModelOf(const Facts& facts) {
  if (facts.Has("config")) {
    return FromConfig(facts);
  }
  Model model;
  DescribeFamily(facts, model);
  model.layers = facts.RequireInt("layers");
  model.hidden_size = facts.RequireInt("hidden_size");
  model.attention_heads = facts.RequireInt("attention_heads");
  model.kv_heads = facts.Int("kv_heads", model.attention_heads);
  model.head_size =
      facts.Int("head_size", model.hidden_size / model.attention_heads);
  if (model.head_size < 1 || model.attention_heads % model.kv_heads != 0) {
    facts.Fail(
        fmt::format("{} attention heads do not go with hidden size {} "
                    "and {} key-value heads",
                    model.attention_heads, model.hidden_size, model.kv_heads));
  }
  constexpr int kUsualFfn = 4;
  model.ffn_size = facts.Int("ffn_size", kUsualFfn * model.hidden_size);
  model.vocab_size = facts.RequireInt("vocab_size");
  model.experts = facts.Int("experts", 0);
  if (model.experts > 0) {
    constexpr int kUsualChoices = 2;
    model.experts_per_token = facts.Int("experts_per_token", kUsualChoices);
  }
  model.gated_ffn = facts.Flag("gated_ffn", model.gated_ffn);
  model.tied_embeddings = facts.Flag("tied_embeddings", model.tied_embeddings);
  model.dropout = facts.Flag("dropout", model.dropout);
  model.name = facts.Text("model", model.type);
  return model;
}

Workload WorkloadOf(const Facts& facts) {
  Workload workload;
  workload.model = ModelOf(facts);
  workload.name = workload.model.name;
  workload.sequence_length = facts.RequireInt("sequence_length");
  workload.precision = PrecisionOf(facts);
  const bool cut = facts.Has("dp") && facts.Has("micro_batch_size") &&
                   facts.Has("microbatches");
  workload.batch_size = cut ? facts.RequireInt("dp") *
                                  facts.RequireInt("micro_batch_size") *
                                  facts.RequireInt("microbatches")
                            : facts.RequireInt("global_batch_size");
  return workload;
}

}  // namespace trials
