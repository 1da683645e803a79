// Reads the shape of a model from a Hugging Face config.json, by the table
// experiments/models/types.toml.

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "trials/config_expression.h"
#include "trials/config_file.h"
#include "trials/data_folder.h"
#include "trials/model.h"

namespace trials {
namespace {

using common::TomlTable;

// Keys of a type besides the fields of Model. docs/models.md.
constexpr auto kOtherKeys =
    std::to_array<std::string_view>({"like", "text", "ignored", "special",
                                     "refused", "kinds", "towers", "where"});

// Fails if the parameters of a model are more than 1% off the number that
// `source` says.
void CheckNumber(const Model& model, double known, const std::string& source,
                 const std::vector<std::string>& unread) {
  constexpr double kMostError = 0.01;
  const auto count = static_cast<double>(ParameterCount(model));
  // Files may hold the modules of further tokens: a block, a product of two
  // hidden states with one, and perhaps their own tables.
  const double table = 1.0 * model.vocab_size * model.hidden_size;
  const double more =
      model.mtp_layers *
      (static_cast<double>(BlockParameters(model)) + 2.0 * table +
       2.0 * model.hidden_size * model.hidden_size);
  if (known >= (1.0 - kMostError) * count &&
      known <= (1.0 + kMostError) * (count + more)) {
    return;
  }
  const double other = count + (model.tied_embeddings ? table : -table);
  throw common::InputError(fmt::format(
      "read as {}, {} has {:.4g} billion parameters, but {} says {:.4g} "
      "billion{}{}{}",
      model.type, model.name, count * 1e-9, source, known * 1e-9,
      std::abs(other / known - 1.0) < kMostError
          ? fmt::format(": the embeddings may be {}",
                        model.tied_embeddings ? "two tables" : "tied")
          : "",
      unread.empty() ? "" : "; keys that were not read: ",
      fmt::join(unread, ", ")));
}

// A type and those that it is like, the nearest first.
using TypeRows = std::vector<TomlTable>;

class ModelReader {
 public:
  ModelReader(const ConfigFile& file, const ModelOptions& options)
      : file_(file),
        options_(options),
        path_(ExperimentsFolder() / "models/types.toml"),
        types_(TomlTable::ParseFile(path_)),
        known_(types_.Keys()) {
    // Parts that types have in common.
    std::erase_if(known_, [](const auto& name) { return name[0] == '_'; });
  }

  Model Read() {
    Model model;
    model.name = file_.Name();
    model.type = FindType(model);
    TypeRows rows = RowsOf(types_.RequireTable(model.type));
    if (const std::string text = First(rows, "text"); !text.empty()) {
      const std::string own = file_.Text("model_type", "");
      const bool known = common::Contains(known_, own) && own != model.type;
      const TypeRows of_text = RowsOf(types_.RequireTable(known ? own : text));
      rows.insert(rows.end(), of_text.begin(), of_text.end());
    }
    if (const auto refused = Holding(rows, "refused", model);
        !refused.empty()) {
      file_.Fail(refused.front());
    }
    SetFields(rows, model);
    if (const std::string problem = SizeProblem(model); !problem.empty()) {
      file_.Fail(problem);
    }
    AddKinds(rows, model);
    AddTowers(rows, model);
    model.special = Holding(rows, "special", model);
    CheckHead(model);
    CheckKeys(rows, model);
    NoteQuantized(model);
    CheckIndex(model);
    CheckParameters(model, options_.parameters);
    return model;
  }

 private:
  // A decoder whose head is not the vocabulary's, or that has none; half of an
  // encoder with a decoder.
  void CheckHead(Model& model) const {
    const common::Json* const listed = file_.Find("root.architectures");
    if (listed == nullptr || !listed->is_array() || listed->empty() ||
        !options_.as.empty()) {
      return;
    }
    const std::string name = listed->front().is_string()
                                 ? listed->front().get<std::string>()
                                 : common::ToText(listed->front());
    const std::size_t head =
        std::min({name.rfind("For"), name.rfind("LMHead"), name.rfind("WithLM"),
                  name.rfind("EncoderModel"), name.rfind("RewardModel"),
                  name.ends_with("Model") ? name.rfind("Model") : name.size()});
    const bool whole = common::Contains(
        std::vector<std::string_view>{
            model.cross_attention ? "?" : "ForCausalLM",
            model.towers.empty() ? "?" : "Model", "ForConditionalGeneration",
            "ForMaskedLM", "ForPreTraining", "ForImageClassification",
            "LMHeadModel", "WithLMHeadModel"},
        std::string_view(name).substr(head));
    if (!whole && (!model.causal || model.vocab_size == 0)) {
      Note(fmt::format("architectures says {}, whose head may have other "
                       "parameters than the one that is counted",
                       name),
           model);
    } else if (!whole) {
      file_.Fail(fmt::format(
          "architectures says \"{}\", which is not the whole model with a head "
          "of the vocabulary: it is not simulated; `--as {}` reads it as "
          "that model",
          name, model.type));
    }
    NoteClass(name, name.substr(0, head), model);
  }

  // A class that is not that of the type.
  void NoteClass(const std::string& name, const std::string& start,
                 Model& model) const {
    // Words of a name in any order: "hunyuan_v1_dense",
    // HunYuanDenseV1ForCausalLM.
    const auto letters = [](std::string text) {
      std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
      return common::Lower(text);
    };
    const std::string own = letters(start);
    const auto is_own = [&own](const std::string& type) {
      return type.starts_with(own) || std::ranges::is_permutation(own, type);
    };
    if (!is_own(letters(model.type)) &&
        !is_own(
            letters(types_.RequireTable(model.type).GetString("like", "")))) {
      Note(fmt::format("architectures says {}: read as {}, from whose blocks "
                       "its own may differ",
                       name, model.type),
           model);
    }
  }

  // Weights in few bits are those that adapters are trained on; fp8 is a format
  // of training, too.
  void NoteQuantized(Model& model) const {
    const common::Json* const quantized =
        file_.Find("root.quantization_config");
    const std::string method =
        quantized != nullptr && quantized->is_object()
            ? common::Lower(quantized->value("quant_method", "few bits"))
            : "";
    if (!method.empty() && method != "fp8" && method != "mxfp4") {
      Note(fmt::format("the weights of the file are quantized ({}), and those "
                       "of this plan are not, unless --training has "
                       "frozen_bits, as in lora_rank=16,frozen_bits=4",
                       method),
           model);
    }
  }

  static void Note(const std::string& text, Model& model) {
    model.note += (model.note.empty() ? "" : "; ") + text;
  }

  // The type by which the file is read: --as, its model_type, or that of its
  // architecture.
  std::string FindType(Model& model) const {
    const std::string type = file_.Text("root.model_type", "");
    if (!options_.as.empty()) {
      common::RequireKnown(options_.as, known_, "type of --as");
      if (options_.as != type) {
        Note(fmt::format("model_type '{}' is read as {}, as --as says", type,
                         options_.as),
             model);
      }
      return options_.as;
    }
    if (common::Contains(known_, type)) {
      return type;
    }
    const common::Json* const listed = file_.Find("root.architectures");
    for (const auto& each : listed != nullptr ? *listed : common::Json()) {
      std::string start = common::Lower(common::ToText(each));
      start = start.substr(1, start.find("for") - 1);  // after the quote
      const auto same = std::ranges::find_if(known_, [&](std::string name) {
        std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
        return name == start;
      });
      if (same != known_.end()) {
        Note(fmt::format("model_type '{}' is read as {}, the type of its "
                         "architecture {}",
                         type, *same, common::ToText(each)),
             model);
        return *same;
      }
    }
    if (type.empty()) {
      file_.Fail("the key 'model_type' is missing");
    }
    file_.Fail(fmt::format(
        "unknown model_type '{}'{}; `--as llama` reads it as that type where "
        "its blocks are the same, and `--parameters N` checks the count; "
        "known: {}",
        type, common::DidYouMean(type, known_), fmt::join(known_, ", ")));
  }

  [[nodiscard]] TypeRows RowsOf(const TomlTable& row) const {
    TypeRows rows = {row};
    for (std::string like = row.GetString("like", ""); !like.empty();
         like = rows.back().GetString("like", "")) {
      rows.push_back(types_.RequireTable(like));
    }
    return rows;
  }

  static std::string First(const TypeRows& rows, std::string_view key) {
    const auto row = std::ranges::find_if(
        rows, [&](const TomlTable& each) { return each.Has(key); });
    return row == rows.end() ? "" : row->RequireText(key);
  }

  void SetFields(const TypeRows& rows, Model& model) const {
    for (const TomlTable& row : rows) {
      for (const std::string& key : row.Keys()) {
        bool known = common::Contains(kOtherKeys, key);
        VisitFields(model, [&](const char* name, const auto& /*value*/) {
          known = known || key == name;
        });
        if (!known) {
          row.Fail(key, fmt::format("'{}' is no field of a model", key));
        }
      }
    }
    VisitFields(model, [&](const char* name, auto& field) {
      if (const std::string text = First(rows, name); !text.empty()) {
        Set(name, text, model, field);
      }
    });
  }

  template <typename T>
  void Set(const char* name, const std::string& text, const Model& model,
           T& field) const {
    std::string missing;
    const std::optional<double> value =
        ConfigExpression{file_, model}.Value(text, &missing);
    if (!value) {
      file_.Fail(
          fmt::format("the key '{}' is missing: {} is needed", missing, name));
    }
    if constexpr (std::is_same_v<T, bool>) {
      field = *value != 0.0;
    } else {
      const bool least = *value >= 0.0 || std::is_same_v<T, std::int64_t>;
      const bool fits =
          std::is_floating_point_v<T> ||
          (*value == std::trunc(*value) &&
           *value <= static_cast<double>(std::numeric_limits<T>::max()));
      if (!least || !fits) {
        file_.Fail(fmt::format(
            "{} = {} is {}: it must be {} from 0", name, text, *value,
            std::is_floating_point_v<T> ? "a number" : "an integer"));
      }
      field = static_cast<T>(*value);
    }
  }

  [[nodiscard]] bool Holds(const std::string& text, const Model& model,
                           int block = -1) const {
    return ConfigExpression{file_, model, block}.Value(text).value_or(0.0) !=
           0.0;
  }

  // The sentences of a table whose conditions hold. The nearest type decides.
  [[nodiscard]] std::vector<std::string> Holding(const TypeRows& rows,
                                                 std::string_view key,
                                                 const Model& model) const {
    std::vector<std::string> seen;
    std::vector<std::string> holding;
    for (const TomlTable& row : rows) {
      const TomlTable table = row.GetTable(key);
      for (const std::string& sentence : table.Keys()) {
        if (!common::Contains(seen, sentence) &&
            Holds(table.RequireText(sentence), model)) {
          holding.push_back(sentence);
        }
        seen.push_back(sentence);
      }
    }
    return holding;
  }

  [[nodiscard]] static std::vector<TomlTable> Tables(const TypeRows& rows,
                                                     std::string_view key) {
    const auto row = std::ranges::find_if(
        rows, [&](const TomlTable& each) { return each.Has(key); });
    return row == rows.end() ? std::vector<TomlTable>() : row->GetTables(key);
  }

  // A block is of the first kind whose condition it meets.
  void AddKinds(const TypeRows& rows, Model& model) const {
    const std::vector<TomlTable> tables = Tables(rows, "kinds");
    std::vector<int> layers(tables.size());
    for (int block = 0; block < model.layers; ++block) {
      const auto kind = std::ranges::find_if(tables, [&](const auto& table) {
        return Holds(table.RequireText("where"), model, block);
      });
      if (kind != tables.end()) {
        ++layers[static_cast<std::size_t>(kind - tables.begin())];
      }
    }
    const Model own = model;
    for (std::size_t k = 0; k < tables.size(); ++k) {
      if (layers[k] > 0) {
        Model kind = own;
        SetFields(RowsOf(tables[k]), kind);
        kind.layers = layers[k];
        kind.dense_layers = 0;
        if (kind.layers == own.layers) {  // there is one kind
          kind.kinds.clear();
          model = kind;
          return;
        }
        model.kinds.push_back(kind);
      }
    }
    PutExpertsFirst(model);
  }

  // Constraints and rules read `experts` of the model itself.
  static void PutExpertsFirst(Model& model) {
    const auto found = std::ranges::find_if(
        model.kinds, [](const Model& kind) { return kind.experts > 0; });
    if (model.experts > 0 || found == model.kinds.end()) {
      return;
    }
    Model others = model;
    others.kinds.clear();
    others.layers = OwnLayers(model);
    Model own = *found;
    own.layers = model.layers;
    model.kinds.erase(found);
    model.kinds.push_back(others);
    own.kinds = model.kinds;
    model = own;
  }

  void AddTowers(const TypeRows& rows, Model& model) const {
    for (const TomlTable& table : Tables(rows, "towers")) {
      Model tower;
      tower.causal = tower.dropout = false;
      SetFields(RowsOf(table), tower);
      if (tower.layers > 0) {
        model.towers.push_back(tower);
      }
    }
    if (!model.towers.empty()) {
      Model text = model;
      text.towers.clear();
      constexpr double kMillion = 1e6;
      Note(fmt::format(
               "{:.3g} million of its parameters are in towers of images, "
               "audio or an encoder, computed before the first block",
               static_cast<double>(ParameterCount(model) -
                                   ParameterCount(text)) /
                   kMillion),
           model);
    }
    if (model.mtp_layers > 0) {
      Note("modules that predict further tokens (MTP) are left out", model);
    }
  }

  // The words in the values of types, which name all keys that are known.
  static void AddWords(const TypeRows& rows, std::set<std::string>& words) {
    for (const TomlTable& row : rows) {
      for (const TomlTable::Leaf& leaf : row.Leaves()) {
        std::string text = fmt::format("{}", fmt::join(leaf.values, " "));
        std::ranges::replace_if(
            text,
            [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; },
            ' ');
        for (const std::string_view word : common::Split(text, ' ')) {
          words.emplace(word);
        }
      }
    }
  }

  // The first element of a list, or letter of a text, that is none of the
  // words; "" if all are.
  static std::string OtherWord(const common::Json& value,
                               const std::set<std::string>& words) {
    std::vector<std::string> elements;
    if (value.is_string()) {
      for (const char letter : value.get<std::string>()) {
        elements.emplace_back(1, letter);
      }
    } else if (value.is_array() && !value.empty() && value[0].is_string()) {
      elements = value.get<std::vector<std::string>>();
    }
    const auto other = std::ranges::find_if(
        elements, [&words](const auto& each) { return !words.contains(each); });
    return other == elements.end() ? "" : *other;
  }

  // Fails at a key of a structure that the type does not know, and at a kind of
  // block; other unknown keys are special.
  void CheckKeys(const TypeRows& rows, Model& model) const {
    const TomlTable keys = types_.RequireTable("_keys");
    const std::vector<std::string> plain = keys.GetStrings("plain");
    std::set<std::string> known(plain.begin(), plain.end());
    AddWords(rows, known);
    for (const char* key : {"kinds", "towers"}) {
      for (const TomlTable& table : Tables(rows, key)) {
        AddWords(RowsOf(table), known);
      }
    }
    const auto fail = [&](const std::string& key, const std::string& what) {
      file_.Fail(fmt::format(
          "the key '{}' says {}, which the type {} does not have: it is not "
          "simulated; `--as TYPE` reads the file as another type",
          key, what, model.type));
    };
    const auto has = [&keys](const char* list, const std::string& name) {
      return std::ranges::any_of(keys.GetStrings(list),
                                 [&name](const std::string& part) {
                                   return name.find(part) != std::string::npos;
                                 });
    };
    for (const char* key :
         {"layer_types", "layers_block_type", "mlp_layer_types",
          "attention_layers", "hybrid_override_pattern"}) {
      const common::Json* const value = file_.Find(key);
      const std::string other =
          value == nullptr ? "" : OtherWord(*value, known);
      if (!other.empty()) {
        fail(key, fmt::format("'{}'", other));
      }
    }
    std::vector<std::string> unknown;
    for (const std::string& key : file_.UnreadKeys()) {
      const std::string name = common::Lower(key);
      if (known.contains(key)) {
        continue;
      }
      if (has("structure", name) || file_.HasBlocks(key)) {
        if (!file_.IsSwitchedOff(key)) {
          fail(key, "a structure");
        }
      } else if (!has("usual", name)) {
        unknown.push_back(key);
      }
    }
    if (!unknown.empty()) {
      const std::string text =
          fmt::format("{} of its config.json, of which nothing is known",
                      fmt::join(unknown, ", "));
      model.special.push_back(text);
      Note(text + ": if that changes the cost, the answer is wrong", model);
    }
  }

  // Of unquantized weights whose type the file says; else 0.
  [[nodiscard]] double WeightsPerByte() const {
    const common::Json* type = nullptr;
    for (const char* key :
         {"root.torch_dtype", "root.dtype", "torch_dtype", "dtype"}) {
      type = type == nullptr ? file_.Find(key) : type;
    }
    if (type == nullptr || file_.Find("root.quantization_config") != nullptr) {
      return 0.0;
    }
    return *type == "float32"                          ? 0.25
           : *type == "bfloat16" || *type == "float16" ? 0.5
                                                       : 0.0;
  }

  // The parameters of the weights beside the file.
  void CheckIndex(const Model& model) const {
    const std::filesystem::path index =
        file_.path().parent_path() / "model.safetensors.index.json";
    if (!options_.parameters.empty() || !common::IsFile(index)) {
      return;
    }
    constexpr std::size_t kMostBytes = 64U << 20U;  // 100,000 tensors: 10 MB
    const common::Json metadata =
        common::ParseObject(common::ReadFile(index, kMostBytes), index.string())
            .value("metadata", common::Json());
    const auto number = [&metadata](const char* key) {
      const auto found = metadata.find(key);
      return found != metadata.end() && found->is_number()
                 ? found->get<double>()
                 : 0.0;
    };
    const double stored = number("total_size") * WeightsPerByte();
    const double known =
        number("total_parameters") > 0.0 ? number("total_parameters") : stored;
    if (known > 0.0) {
      CheckNumber(model, known, index.string() + " (--parameters replaces it)",
                  file_.UnreadKeys());
    }
  }

  const ConfigFile& file_;
  const ModelOptions& options_;
  std::filesystem::path path_;
  TomlTable types_;
  std::vector<std::string> known_;
};

}  // namespace

void CheckParameters(const Model& model, const std::string& parameters) {
  if (parameters.empty()) {
    return;
  }
  constexpr std::string_view kUnits = "kmbt";
  constexpr double kStep = 1000.0;
  std::string digits = common::Lower(parameters);
  const std::size_t unit = kUnits.find(digits.back());
  if (unit != kUnits.npos) {
    digits.pop_back();
  }
  const double number =
      common::NumberOrNan(digits) *
      (unit == kUnits.npos ? 1.0
                           : std::pow(kStep, static_cast<double>(unit) + 1.0));
  if (!(number > 0.0)) {
    throw common::InputError(
        fmt::format("--parameters {}: a number such as 7.7e9 or 7.7b is needed",
                    parameters));
  }
  CheckNumber(model, number, "--parameters", {});
}

Model ReadModel(const std::filesystem::path& config_json,
                const ModelOptions& options) {
  const ConfigFile file(config_json);
  return ModelReader(file, options).Read();
}

}  // namespace trials
