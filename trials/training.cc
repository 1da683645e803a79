#include "trials/training.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"

namespace trials {
namespace {

// Sets what the key lists of a type's names, and no others.
template <typename Type, std::size_t size>
void ReadSet(const common::TomlTable& table, const std::string& key,
             std::array<bool, size>& set) {
  if (!table.Has(key)) {
    return;
  }
  const auto names = NamesOf(Type{});
  const std::vector<std::string> listed = table.GetSomeOf(
      key, key, std::vector<std::string>(names.begin(), names.end()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    set[i] = common::Contains(listed, names[i]);
  }
}

template <typename Type = Weights, std::size_t size>
std::vector<std::string_view> Named(const std::array<bool, size>& set) {
  std::vector<std::string_view> named;
  for (std::size_t i = 0; i < size; ++i) {
    if (set[i]) {
      named.push_back(NamesOf(Type{})[i]);
    }
  }
  return named;
}

void CheckTraining(const common::TomlTable& table, const Training& training) {
  const bool adapters = training.lora_rank > 0;
  const std::size_t targets = Named(training.targets).size();
  const std::size_t frozen = Named(training.frozen).size();
  const double bits = training.frozen_bits;
  struct Problem {
    bool holds;
    const char* key;
    const char* message;
  };
  const std::array<Problem, 6> problems = {{
      {adapters && (targets == 0 || training.targets[2] || training.targets[3]),
       "lora_targets", "lora_targets: name attention, ffn or both"},
      {!adapters && table.Has("lora_targets"), "lora_targets",
       "lora_targets needs lora_rank"},
      {adapters && frozen > 0, "freeze",
       "freeze goes with full training; LoRA freezes all"},
      {!adapters && frozen == training.frozen.size(), "freeze",
       "freeze: nothing is left to train"},
      {bits != 4.0 && bits != 8.0 && bits != 16.0, "frozen_bits",
       "frozen_bits must be 4, 8 or 16"},
      {bits < 16.0 && !adapters, "frozen_bits",
       "frozen_bits below 16 needs adapters: give lora_rank"},
  }};
  for (const auto& [holds, key, message] : problems) {
    if (holds) {
      table.Fail(key, message);
    }
  }
}

}  // namespace

Trained Training::Of(Weights weights) const {
  const auto i = static_cast<std::size_t>(weights);
  if (lora_rank > 0) {
    return targets[i] ? Trained::kAdapter : Trained::kNothing;
  }
  return frozen[i] ? Trained::kNothing : Trained::kWeights;
}

double Training::FrozenBytes(double element_bytes) const {
  constexpr double kBitsOfByte = 8.0;
  constexpr double kWeightsOfScale = 64.0;
  constexpr double kScaleBits = 8.0;  // itself quantized
  const double scale_bits =
      frozen_bits < kBitsOfByte ? kScaleBits / kWeightsOfScale : 0.0;
  return std::min(element_bytes, (frozen_bits + scale_bits) / kBitsOfByte);
}

bool Training::IsUsual() const {
  Training usual;
  usual.loss_chunks = loss_chunks;
  usual.packed_tokens = packed_tokens;
  usual.targets = targets;
  usual.upcast = upcast;
  return *this == usual;
}

void ReadTraining(const common::TomlTable& table, Training& training) {
  constexpr int kMostRank = 4096;
  constexpr int kMostChunks = 1024;
  training.lora_rank =
      table.GetIntIn("lora_rank", training.lora_rank, 0, kMostRank);
  ReadSet<Weights>(table, "lora_targets", training.targets);
  ReadSet<Weights>(table, "freeze", training.frozen);
  ReadSet<Offloaded>(table, "offload", training.offload);
  training.offload[0] |= training.offload[1];
  training.upcast = table.GetBool("upcast", training.upcast);
  training.fp32_gradients =
      table.GetBool("fp32_gradients", training.fp32_gradients);
  training.frozen_bits = table.GetIntIn(
      "frozen_bits", static_cast<int>(training.frozen_bits), 4, 16);
  training.reference_model =
      table.GetBool("reference_model", training.reference_model);
  training.loss_chunks =
      table.GetIntIn("loss_chunks", training.loss_chunks, 1, kMostChunks);
  training.packed_tokens =
      table.GetIntIn("packed_tokens", training.packed_tokens, 0);
  if (table.Has("optimizer")) {
    const std::string name =
        table.RequireOneOf("optimizer", "optimizer",
                           common::NamesIn(kOptimizers, &OptimizerKind::name));
    const auto* const kind =
        std::ranges::find(kOptimizers, name, &OptimizerKind::name);
    training.moment_bytes = kind->moment_bytes;
    training.paged = kind->paged;
  }
  CheckTraining(table, training);
}

std::vector<std::pair<std::string, std::string>> TrainingKeys(
    const std::vector<std::string>& settings) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      throw common::InputError(fmt::format(
          "--training {}: must be KEY=VALUE, as in lora_rank=16", setting));
    }
    const std::string key = setting.substr(0, equals);
    const std::string value = setting.substr(equals + 1);
    const bool lists =
        key == "lora_targets" || key == "freeze" || key == "offload";
    const bool text = value != "true" && value != "false" &&
                      std::isnan(common::NumberOrNan(value));
    const std::string quoted =
        fmt::format("\"{}\"", fmt::join(common::Split(value, '+'), "\", \""));
    keys.emplace_back(key, lists  ? fmt::format("[{}]", quoted)
                           : text ? quoted
                                  : value);
  }
  return keys;
}

common::TomlTable TrainingTable(const std::vector<std::string>& settings) {
  std::string text;
  for (const auto& [key, value] : TrainingKeys(settings)) {
    text += fmt::format("{} = {}\n", key, value);
  }
  const auto table = common::TomlTable::ParseString(text, "--training");
  Training read;
  ReadTraining(table, read);
  table.RejectUnknownKeys();
  return table;
}

std::string ToString(const Training& training) {
  std::vector<std::string> parts;
  if (training.lora_rank > 0) {
    parts.push_back(fmt::format("LoRA of rank {} on {}", training.lora_rank,
                                fmt::join(Named(training.targets), ", ")));
  } else if (const auto frozen = Named(training.frozen); !frozen.empty()) {
    parts.push_back(fmt::format("frozen {}", fmt::join(frozen, ", ")));
  }
  if (training.frozen_bits < 16.0) {
    parts.push_back(fmt::format("frozen weights in {} bits{}",
                                training.frozen_bits,
                                training.upcast ? ", the rest in 32" : ""));
  }
  if (training.reference_model) {
    parts.emplace_back("a reference model");
  }
  if (training.moment_bytes != kOptimizers.front().moment_bytes) {
    parts.push_back(fmt::format("{} bytes of moments per parameter",
                                training.moment_bytes));
  }
  if (training.paged) {
    parts.emplace_back("paged moments");
  }
  if (training.fp32_gradients) {
    parts.emplace_back("gradients summed in fp32");
  }
  if (training.Offloads(Offloaded::kOptimizer)) {
    parts.push_back(
        fmt::format("{} on the host",
                    fmt::join(Named<Offloaded>(training.offload), " and ")));
  }
  if (training.loss_chunks > 1) {
    parts.push_back(fmt::format("loss in {} chunks", training.loss_chunks));
  }
  if (training.packed_tokens > 0) {
    parts.push_back(
        fmt::format("documents of {} tokens", training.packed_tokens));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace trials
