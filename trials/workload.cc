#include "trials/workload.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"

namespace trials {
namespace {

// value / factor, at least `least` and a multiple of it; not above value.
int Divide(int value, int factor, int least) {
  const int small = std::max(value / factor / least, 1) * least;
  return std::min(value, small);
}

}  // namespace

Precision ParsePrecision(std::string_view name) {
  const auto names = NamesOf(Precision{});
  common::RequireKnown(
      name, std::vector<std::string>(names.begin(), names.end()), "precision");
  return static_cast<Precision>(std::ranges::find(names, name) - names.begin());
}

std::string NotValidated(const Workload& workload) {
  const std::string parts = NotValidated(workload.model);
  return workload.training.IsUsual()
             ? parts
             : fmt::format("{}{}{}", parts, parts.empty() ? "" : ", ",
                           ToString(workload.training));
}

void ReadTraining(const common::TomlTable& table, Workload& workload) {
  ReadTraining(table, workload.training);
  if (table.GetBool("upcast", false) && workload.training.frozen_bits >= 16.0) {
    table.Fail(
        "upcast",
        "upcast makes fp32 of what is not quantized: give frozen_bits=4 or 8");
  }
  if (workload.training.packed_tokens > workload.sequence_length) {
    table.Fail(
        "packed_tokens",
        fmt::format("packed_tokens {}: a document is longer than the {} "
                    "tokens of a sequence",
                    workload.training.packed_tokens, workload.sequence_length));
  }
}

Workload ReadWorkload(const common::TomlTable& table) {
  Workload workload;
  const std::string path = table.RequireString("model");
  try {
    workload.model =
        ReadModel(table.Folder() / path,
                  {.as = table.GetString("as", ""),
                   .parameters = table.GetString("parameters", "")});
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
  workload.precision = table.At("precision", [&table] {
    return ParsePrecision(table.GetString("precision", "bf16"));
  });
  ReadTraining(table, workload);
  if (images && workload.sequence_length != positions) {
    table.Fail(
        "sequence_length",
        fmt::format("sequence_length {}: an image is {} tokens for {} "
                    "(its patches and the class token); leave the key "
                    "out",
                    workload.sequence_length, positions, workload.model.name));
  }
  if (positions > 0 && workload.sequence_length > positions) {
    table.Fail("sequence_length",
               fmt::format("sequence_length {} is more than the {} positions "
                           "that {} has learned; use at most {}",
                           workload.sequence_length, positions,
                           workload.model.name, positions));
  }
  return workload;
}

Workload Scaled(Workload workload, int factor) {
  if (factor <= 1) {
    return workload;
  }
  constexpr int kHead = 8;      // even, for rotary positions
  constexpr int kColumns = 64;  // of feed-forward layers and vocabularies
  constexpr int kVocabulary = 512;
  constexpr int kTokens = 32;  // cp * sp divides it
  Model& m = workload.model;
  const bool heads_fill_hidden =
      m.hidden_size == m.attention_heads * m.head_size;
  m.head_size = Divide(m.head_size, factor, kHead);
  m.hidden_size = heads_fill_hidden ? m.attention_heads * m.head_size
                                    : Divide(m.hidden_size, factor, kColumns);
  m.ffn_size = Divide(m.ffn_size, factor, kColumns);
  m.vocab_size = Divide(m.vocab_size, factor, kVocabulary);
  m.patch_size = Divide(m.patch_size, factor, kHead);
  if (m.patch_size > 0) {
    workload.sequence_length = std::max(workload.sequence_length / factor, 2);
    m.max_positions = workload.sequence_length;
  } else {
    workload.sequence_length =
        Divide(workload.sequence_length, factor, kTokens);
    m.max_positions = m.max_positions == 0 ? 0
                                           : std::max(m.max_positions / factor,
                                                      workload.sequence_length);
  }
  return workload;
}

}  // namespace trials
