#include "trials/tables/facts.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "trials/knobs.h"

namespace trials {
namespace {

using Alias = std::pair<std::string_view, std::string_view>;

// Other names in tables and in the files of Hugging Face.
constexpr std::array kAliases = {
    Alias{"num_layers", "layers"},
    Alias{"num_hidden_layers", "layers"},
    Alias{"n_layers", "layers"},
    Alias{"hidden", "hidden_size"},
    Alias{"d_model", "hidden_size"},
    Alias{"heads", "attention_heads"},
    Alias{"num_attention_heads", "attention_heads"},
    Alias{"n_heads", "attention_heads"},
    Alias{"num_key_value_heads", "kv_heads"},
    Alias{"num_kv_heads", "kv_heads"},
    Alias{"ffn", "ffn_size"},
    Alias{"ffn_hidden_size", "ffn_size"},
    Alias{"intermediate_size", "ffn_size"},
    Alias{"vocab", "vocab_size"},
    Alias{"vocabulary_size", "vocab_size"},
    Alias{"seq", "sequence_length"},
    Alias{"seq_len", "sequence_length"},
    Alias{"seq_length", "sequence_length"},
    Alias{"gbs", "global_batch_size"},
    Alias{"batch_size", "global_batch_size"},
    Alias{"global_batch", "global_batch_size"},
    Alias{"mbs", "micro_batch_size"},
    Alias{"tie_word_embeddings", "tied_embeddings"},
    Alias{"num_gpus", "gpus"},
};

// The number that a text is; nothing for other text, NaN and infinity.
std::optional<double> Finite(const std::string& text) {
  const double value = common::NumberOrNan(text);
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string FactName(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.first == name) {
      return std::string(alias.second);
    }
  }
  const Knob* knob = BuiltInKnobs().Find(name);
  return knob == nullptr ? std::string(name) : knob->name;
}

double TableRow::Number(std::string_view column) const {
  try {
    return common::ParseDouble(table.Cell(csv, column));
  } catch (const std::invalid_argument& e) {
    table.Fail(csv.line, fmt::format("{}: {}", column, e.what()));
  }
}

Facts::Facts(const TableRow& row)
    : place_(fmt::format("{}:{}", row.table.path(), row.csv.line)) {}

void Facts::Add(std::string_view name, std::string_view value) {
  if (!value.empty()) {
    facts_.emplace(FactName(name), value);
  }
}

void Facts::Add(const TableRow& row) {
  std::map<std::string, std::size_t> columns;  // of this row, by name
  for (std::size_t i = 0; i < row.csv.cells.size(); ++i) {
    const std::string& column = row.table.header()[i];
    if (row.csv.cells[i].empty()) {
      continue;
    }
    const auto [at, is_new] = columns.try_emplace(FactName(column), i);
    if (!is_new && row.csv.cells[i] != row.csv.cells[at->second]) {
      Fail(fmt::format("{} is {} and {} is {}, which are the same field",
                       row.table.header()[at->second],
                       row.csv.cells[at->second], column, row.csv.cells[i]));
    }
    Add(column, row.csv.cells[i]);
  }
}

void Facts::Add(const TableRow& row,
                std::initializer_list<std::string_view> columns) {
  for (const std::string_view column : columns) {
    Add(column, row.Cell(column));
  }
}

void Facts::Add(const common::TomlTable& table) {
  for (const std::string& key : table.Keys()) {
    Add(key, table.RequireText(key));
  }
}

void Facts::Replace(std::string_view name, std::string_view value) {
  facts_.insert_or_assign(FactName(name), std::string(value));
}

const std::string* Facts::Find(std::string_view name) const {
  if (!asked_->contains(name)) {
    asked_->emplace(name);
  }
  const auto found = facts_.find(name);
  return found == facts_.end() ? nullptr : &found->second;
}

bool Facts::Has(std::string_view name) const { return Find(name) != nullptr; }

std::string Facts::Text(std::string_view name,
                        std::string_view otherwise) const {
  const std::string* const found = Find(name);
  return found == nullptr ? std::string(otherwise) : *found;
}

std::string Facts::RequireText(std::string_view name) const {
  const std::string* const found = Find(name);
  if (found == nullptr) {
    const std::string scenario = Text("scenario");
    Fail(fmt::format(
        "'{}' is not known{}; add a column '{}' to the table or to a file of "
        "scenarios (--scenarios S.csv)",
        name,
        scenario.empty() ? "" : fmt::format(" of scenario '{}'", scenario),
        name));
  }
  return *found;
}

double Facts::Number(std::string_view name) const {
  if (!Has(name)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::string text = Text(name);
  const std::optional<double> value = Finite(text);
  if (!value || *value <= 0.0) {
    Fail(fmt::format("{} must be a number above 0, not '{}'", name, text));
  }
  return *value;
}

int Facts::RequireInt(std::string_view name) const {
  (void)RequireText(name);
  const double value = Number(name);
  if (value != std::trunc(value) || value > std::numeric_limits<int>::max()) {
    Fail(fmt::format("{} must be an integer, not {}", name, value));
  }
  return static_cast<int>(value);
}

int Facts::Int(std::string_view name, int otherwise) const {
  return Has(name) ? RequireInt(name) : otherwise;
}

double Facts::NonNegative(std::string_view name) const {
  const std::string text = RequireText(name);
  const std::optional<double> value = Finite(text);
  if (!value || *value < 0.0) {
    Fail(fmt::format("{} must be a number, 0 or more, not '{}'", name, text));
  }
  return *value;
}

bool Facts::Flag(std::string_view name, bool otherwise) const {
  const std::string text = Text(name, otherwise ? "1" : "0");
  if (text == "1" || text == "true" || text == "True") {
    return true;
  }
  if (text == "0" || text == "false" || text == "False") {
    return false;
  }
  Fail(fmt::format("{} must be true or false, not '{}'", name, text));
}

void Facts::Fail(const std::string& message) const {
  throw common::InputError(fmt::format("{}: {}", place_, message));
}

}  // namespace trials
