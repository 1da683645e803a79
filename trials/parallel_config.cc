#include "trials/parallel_config.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

// The getter and setter of one member, int or bool.
template <auto Member>
constexpr ConfigField Field(std::string_view name,
                            std::string_view label,
                            FieldScale scale,
                            int minimum,
                            int maximum) {
  return {name,
          label,
          scale,
          minimum,
          maximum,
          [](const ParallelConfig& config) {
            return static_cast<int>(config.*Member);
          },
          [](ParallelConfig& config, int value) {
            using Value = std::remove_reference_t<decltype(config.*Member)>;
            if constexpr (std::is_same_v<Value, bool>) {
              config.*Member = value != 0;
            } else {
              config.*Member = value;
            }
          }};
}

using PC = ParallelConfig;
constexpr auto kLog2 = FieldScale::kLog2;
constexpr auto kLinear = FieldScale::kLinear;
constexpr auto kFlag = FieldScale::kFlag;
constexpr auto kSwitch = FieldScale::kSwitch;

constexpr int kNoLimit = std::numeric_limits<int>::max();

constexpr std::array kFields = {
    Field<&PC::dp>("dp", "DP size", kLog2, 1, kNoLimit),
    Field<&PC::tp>("tp", "TP size", kLog2, 1, kNoLimit),
    Field<&PC::pp>("pp", "PP size", kLog2, 1, kNoLimit),
    Field<&PC::dp_bucket_mb>(
        "dp_bucket_mb", "DP bucket size (MB)", kLog2, 1, kNoLimit),
    Field<&PC::zero_stage>("zero_stage", "ZeRO stage", kLinear, 0, 3),
    Field<&PC::zero_bucket_mb>(
        "zero_bucket_mb", "ZeRO bucket size (MB)", kLog2, 1, kNoLimit),
    Field<&PC::overlap_zero_comm>(
        "overlap_zero_comm", "Overlap ZeRO communication", kFlag, 0, 1),
    Field<&PC::overlap_zero_allgather>(
        "overlap_zero_allgather", "Overlap ZeRO all-gather", kFlag, 0, 1),
    Field<&PC::microbatches>(
        "microbatches", "Microbatches", kLog2, 1, kNoLimit),
    Field<&PC::model_chunks>(
        "model_chunks", "Model chunks", kLog2, 1, kNoLimit),
    Field<&PC::overlap_p2p>("overlap_p2p", "Overlap P2P", kFlag, 0, 1),
    Field<&PC::grad_checkpoint>(
        "grad_checkpoint", "Gradient checkpointing", kSwitch, 0, 2),
    Field<&PC::micro_batch_size>(
        "micro_batch_size", "Microbatch size", kLog2, 0, kNoLimit),
    Field<&PC::ep>("ep", "EP size", kLog2, 1, kNoLimit),
    Field<&PC::cp>("cp", "CP size", kLog2, 1, kNoLimit),
    Field<&PC::sp>("sp", "Sequence parallelism", kFlag, 0, 1),
};

// Other spellings that tables, papers and people use.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18>
    kAliases = {{
        {"mb", "microbatches"},
        {"num_microbatches", "microbatches"},
        {"mc", "model_chunks"},
        {"num_model_chunks", "model_chunks"},
        {"chunks", "model_chunks"},
        {"mbs", "micro_batch_size"},
        {"dp_bucket", "dp_bucket_mb"},
        {"dp_bucket_size", "dp_bucket_mb"},
        {"zero", "zero_stage"},
        {"zero_bucket", "zero_bucket_mb"},
        {"zero_bucket_size", "zero_bucket_mb"},
        {"overlap_zero_communication", "overlap_zero_comm"},
        {"overlap_communication", "overlap_zero_comm"},
        {"overlap_allgather", "overlap_zero_allgather"},
        {"gradient_checkpointing", "grad_checkpoint"},
        {"grad_checkpointing", "grad_checkpoint"},
        {"checkpointing", "grad_checkpoint"},
        {"sequence_parallel", "sp"},
    }};

// The range of a field in words.
std::string Range(const ConfigField& field) {
  if (field.scale == FieldScale::kFlag) {
    return "true (1) or false (0)";
  }
  if (field.scale == FieldScale::kSwitch) {
    return fmt::format("false (0), true (1) or up to {}", field.maximum);
  }
  return field.maximum == kNoLimit
             ? fmt::format("a whole number from {}", field.minimum)
             : fmt::format("{} to {}", field.minimum, field.maximum);
}

[[noreturn]] void BadValue(const ConfigField& field, std::string_view value) {
  throw std::invalid_argument(fmt::format(
      "'{}' is no value for {}: {}", value, field.name, Range(field)));
}

}  // namespace

std::span<const ConfigField> ConfigFields() { return kFields; }

const ConfigField* FindConfigField(std::string_view name) {
  for (const auto& [alias, canonical] : kAliases) {
    if (alias == name) {
      name = canonical;
      break;
    }
  }
  for (const ConfigField& field : kFields) {
    if (field.name == name) {
      return &field;
    }
  }
  return nullptr;
}

void SetField(ParallelConfig& config,
              const ConfigField& field,
              std::int64_t value) {
  if (value < field.minimum || value > field.maximum) {
    BadValue(field, std::to_string(value));
  }
  field.set(config, static_cast<int>(value));
}

void SetField(ParallelConfig& config,
              const ConfigField& field,
              std::string_view text) {
  const bool flag =
      field.scale == FieldScale::kFlag || field.scale == FieldScale::kSwitch;
  if (flag && (text == "true" || text == "True")) {
    return field.set(config, 1);
  }
  if (flag && (text == "false" || text == "False")) {
    return field.set(config, 0);
  }
  // Whole numbers may be written as 4.0: so do programs whose columns have
  // empty cells.
  double value = 0.0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() ||
      std::abs(value) > kNoLimit || value != std::trunc(value)) {
    BadValue(field, text);
  }
  SetField(config, field, static_cast<std::int64_t>(value));
}

std::string UnknownField(std::string_view name) {
  std::vector<std::string> known;
  known.reserve(kFields.size());
  for (const ConfigField& field : kFields) {
    known.emplace_back(field.name);
  }
  return fmt::format("unknown field '{}'{}; fields: {}",
                     name,
                     common::DidYouMean(name, known),
                     fmt::join(known, ", "));
}

std::string ToString(const ParallelConfig& config) {
  const ParallelConfig defaults;
  std::string text;
  for (const ConfigField& field : kFields) {
    const int value = field.get(config);
    const bool size =
        field.name == "dp" || field.name == "tp" || field.name == "pp";
    if (!size && value == field.get(defaults)) {
      continue;
    }
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", field.name, value);
  }
  return text;
}

ParallelConfig ParseParallelConfig(std::string_view text) {
  ParallelConfig config;
  for (const std::string_view part : common::Split(text, ',')) {
    const std::string_view item = common::Trim(part);
    if (item.empty()) {
      continue;
    }
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw std::invalid_argument(
          fmt::format("'{}' is not of the form field=value", item));
    }
    const std::string_view name = common::Trim(item.substr(0, equals));
    const ConfigField* field = FindConfigField(name);
    if (field == nullptr) {
      throw std::invalid_argument(UnknownField(name));
    }
    SetField(config, *field, common::Trim(item.substr(equals + 1)));
  }
  return config;
}

}  // namespace trials
