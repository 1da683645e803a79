#include "trials/workload.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/json.h"
#include "common/text.h"

namespace trials {
namespace {

using common::Json;

// A config.json: its values, with errors that name the file and the key.
class ConfigFile {
 public:
  explicit ConfigFile(std::filesystem::path path) : path_(std::move(path)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path_, error)) {
      Fail("no such file (a Hugging Face config.json is needed)");
    }
    json_ = common::ReadJson(path_);
    if (!json_.is_object()) {
      Fail("a JSON object is needed, as in a Hugging Face config.json");
    }
  }

  [[noreturn]] void Fail(const std::string& message) const {
    throw common::InputError(fmt::format("{}: {}", path_.string(), message));
  }

  // A key that is absent or null takes its default, as in the library that
  // publishes these files.
  [[nodiscard]] bool Has(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }

  [[nodiscard]] int Size(const char* key) const {
    if (!Has(key)) {
      Fail(fmt::format("the key '{}' is missing: an integer is needed", key));
    }
    const Json& value = json_.at(key);
    if (!value.is_number_integer() || value.get<std::int64_t>() < 1 ||
        value.get<std::int64_t>() > std::numeric_limits<int>::max()) {
      Fail(fmt::format(
          "{} must be an integer from 1, not {}", key, common::ToText(value)));
    }
    return value.get<int>();
  }

  [[nodiscard]] int Size(const char* key, int otherwise) const {
    return Has(key) ? Size(key) : otherwise;
  }

  [[nodiscard]] bool Flag(const char* key, bool otherwise) const {
    if (!Has(key)) {
      return otherwise;
    }
    const Json& value = json_.at(key);
    if (!value.is_boolean()) {
      Fail(fmt::format(
          "{} must be true or false, not {}", key, common::ToText(value)));
    }
    return value.get<bool>();
  }

  [[nodiscard]] std::string Text(const char* key,
                                 const std::string& otherwise) const {
    if (!Has(key)) {
      return otherwise;
    }
    const Json& value = json_.at(key);
    if (!value.is_string()) {
      Fail(fmt::format("{} must be text, not {}", key, common::ToText(value)));
    }
    return value.get<std::string>();
  }

  // The file name config.json is not informative: then the name within, or that
  // of the folder, which is how such files are downloaded.
  [[nodiscard]] std::string Name() const {
    const std::string stem = path_.stem().string();
    if (stem != "config") {
      return stem;
    }
    const std::string folder =
        std::filesystem::absolute(path_).parent_path().filename().string();
    return Text("_name_or_path", folder);
  }

 private:
  std::filesystem::path path_;
  Json json_;
};

// The structure of one model_type, in addition to the sizes that all types
// have.
struct Architecture {
  std::string_view type;
  void (*describe)(const ConfigFile&, Model&);
};

// BertModel with its pooler. The library ties word embeddings by default.
void DescribeBert(const ConfigFile& file, Model& model) {
  model.kv_heads = model.attention_heads;
  model.max_positions = file.Size("max_position_embeddings");
  model.token_types = file.Size("type_vocab_size");
  model.attention_bias = true;
  model.output_bias = true;
  model.ffn_bias = true;
  model.norm_bias = true;
  model.tied_embeddings = file.Flag("tie_word_embeddings", true);
  model.pooler = true;
  model.embedding_norm = true;
  model.final_norm = false;  // every block ends with one
  model.causal = false;
}

void DescribeDecoder(const ConfigFile& file, Model& model) {
  model.kv_heads = file.Size("num_key_value_heads", model.attention_heads);
  model.head_size = file.Size("head_dim", model.head_size);
  model.gated_ffn = true;
  model.tied_embeddings = file.Flag("tie_word_embeddings", false);
}

// Qwen2 has a bias on q, k, v and nowhere else; no key indicates that.
void DescribeQwen2(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.attention_bias = true;
}

// Llama's attention_bias is one switch for q, k, v and the output.
void DescribeLlama(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.attention_bias = file.Flag("attention_bias", false);
  model.output_bias = model.attention_bias;
  model.ffn_bias = file.Flag("mlp_bias", false);
}

// A Llama whose feed-forward layer is a choice of experts.
void DescribeMixtral(const ConfigFile& file, Model& model) {
  DescribeDecoder(file, model);
  model.experts = file.Size("num_local_experts");
  model.experts_per_token = file.Size("num_experts_per_tok");
  if (model.experts_per_token > model.experts) {
    file.Fail(
        fmt::format("num_experts_per_tok {} is more than the {} experts of "
                    "num_local_experts",
                    model.experts_per_token,
                    model.experts));
  }
}

// ViTForImageClassification: square patches and a class token.
void DescribeVit(const ConfigFile& file, Model& model) {
  const int image = file.Size("image_size");
  const int patch = file.Size("patch_size");
  if (image % patch != 0) {
    file.Fail(fmt::format(
        "image_size {} is not a multiple of patch_size {}", image, patch));
  }
  model.kv_heads = model.attention_heads;
  model.patch_size = file.Size("num_channels", 3) * patch * patch;
  model.max_positions = (image / patch) * (image / patch) + 1;
  model.classes = file.Size("num_labels", 1000);
  model.attention_bias = file.Flag("qkv_bias", true);
  model.output_bias = true;
  model.ffn_bias = true;
  model.norm_bias = true;
  model.causal = false;
}

constexpr std::array kArchitectures = {
    Architecture{"bert", DescribeBert},
    Architecture{"qwen2", DescribeQwen2},
    Architecture{"llama", DescribeLlama},
    Architecture{"mixtral", DescribeMixtral},
    Architecture{"vit", DescribeVit},
};

const Architecture& FindArchitecture(const ConfigFile& file) {
  const std::string type = file.Text("model_type", "");
  std::vector<std::string> known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.type == type) {
      return architecture;
    }
    known.emplace_back(architecture.type);
  }
  if (type.empty()) {
    file.Fail(fmt::format("the key 'model_type' is missing: one of {}",
                          fmt::join(known, ", ")));
  }
  file.Fail(fmt::format("unknown model_type '{}'{}; known: {}",
                        type,
                        common::DidYouMean(type, known),
                        fmt::join(known, ", ")));
}

void CheckHeads(const ConfigFile& file, const Model& model) {
  if (!file.Has("head_dim") && model.hidden_size % model.attention_heads != 0) {
    file.Fail(fmt::format(
        "hidden_size {} is not a multiple of num_attention_heads {}",
        model.hidden_size,
        model.attention_heads));
  }
  if (model.attention_heads % model.kv_heads != 0) {
    file.Fail(fmt::format(
        "num_attention_heads {} is not a multiple of num_key_value_heads {}",
        model.attention_heads,
        model.kv_heads));
  }
}

// Parameters of a dense layer and of a norm.
std::int64_t Dense(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return inputs * outputs + (bias ? outputs : 0);
}

std::int64_t Norm(const Model& model) {
  return static_cast<std::int64_t>(model.hidden_size) *
         (model.norm_bias ? 2 : 1);
}

Precision ReadPrecision(const common::TomlTable& table) {
  const std::string name = table.GetString("precision", "bf16");
  const std::vector<std::string> known = {"fp32", "fp16", "bf16", "fp8"};
  constexpr std::array kPrecisions = {
      Precision::kFp32, Precision::kFp16, Precision::kBf16, Precision::kFp8};
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) {
      return kPrecisions.at(i);
    }
  }
  table.Fail("precision",
             fmt::format("unknown precision '{}'{}; known: {}",
                         name,
                         common::DidYouMean(name, known),
                         fmt::join(known, ", ")));
}

}  // namespace

Model ReadModel(const std::filesystem::path& config_json) {
  const ConfigFile file(config_json);
  const Architecture& architecture = FindArchitecture(file);
  Model model;
  model.name = file.Name();
  model.type = architecture.type;
  model.layers = file.Size("num_hidden_layers");
  model.hidden_size = file.Size("hidden_size");
  model.attention_heads = file.Size("num_attention_heads");
  model.head_size = model.hidden_size / model.attention_heads;
  model.ffn_size = file.Size("intermediate_size");
  if (architecture.type != "vit") {
    model.vocab_size = file.Size("vocab_size");
  }
  architecture.describe(file, model);
  CheckHeads(file, model);
  return model;
}

std::int64_t BlockParameters(const Model& model) {
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t query =
      std::int64_t{model.attention_heads} * model.head_size;
  const std::int64_t key = std::int64_t{model.kv_heads} * model.head_size;
  const std::int64_t attention = Dense(hidden, query, model.attention_bias) +
                                 2 * Dense(hidden, key, model.attention_bias) +
                                 Dense(query, hidden, model.output_bias);
  const std::int64_t router =
      model.experts == 0 ? 0 : Dense(hidden, model.experts, /*bias=*/false);
  return attention + router +
         std::max(1, model.experts) * ExpertParameters(model) + 2 * Norm(model);
}

std::int64_t ExpertParameters(const Model& model) {
  return (model.gated_ffn ? 2 : 1) *
             Dense(model.hidden_size, model.ffn_size, model.ffn_bias) +
         Dense(model.ffn_size, model.hidden_size, model.ffn_bias);
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
         (model.classes > 0 ? Dense(hidden, model.classes, /*bias=*/true) : 0) +
         (model.tied_embeddings
              ? 0
              : Dense(hidden, model.vocab_size, /*bias=*/false));
}

std::int64_t ParameterCount(const Model& model) {
  return EmbeddingParameters(model) + model.layers * BlockParameters(model) +
         HeadParameters(model);
}

Workload ReadWorkload(const common::TomlTable& table) {
  Workload workload;
  const std::string path = table.RequireString("model");
  try {
    workload.model = ReadModel(table.Folder() / path);
  } catch (const common::InputError& e) {
    table.Fail("model", fmt::format("model \"{}\": {}", path, e.what()));
  }
  workload.name = workload.model.name;
  workload.batch_size = table.RequireIntIn("batch_size", 1);
  const int positions = workload.model.max_positions;
  const bool images = workload.model.patch_size > 0;
  workload.sequence_length = images && !table.Has("sequence_length")
                                 ? positions
                                 : table.RequireIntIn("sequence_length", 1);
  workload.precision = ReadPrecision(table);
  if (images && workload.sequence_length != positions) {
    table.Fail("sequence_length",
               fmt::format("sequence_length {}: an image is {} tokens for {} "
                           "(its patches and the class token); leave the key "
                           "out",
                           workload.sequence_length,
                           positions,
                           workload.model.name));
  }
  if (positions > 0 && workload.sequence_length > positions) {
    table.Fail("sequence_length",
               fmt::format("sequence_length {} is more than the {} positions "
                           "that {} has learned; use at most {}",
                           workload.sequence_length,
                           positions,
                           workload.model.name,
                           positions));
  }
  return workload;
}

}  // namespace trials
