#include "trials/parallel_config.h"

#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "trials/text.h"

namespace trials {
namespace {

// The getter and setter of one member, int or bool.
template <auto Member>
constexpr ConfigField Field(std::string_view name,
                            std::string_view label,
                            FieldScale scale) {
  return {name,
          label,
          scale,
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

constexpr std::array kFields = {
    Field<&PC::dp>("dp", "DP size", kLog2),
    Field<&PC::tp>("tp", "TP size", kLog2),
    Field<&PC::pp>("pp", "PP size", kLog2),
    Field<&PC::dp_bucket_mb>("dp_bucket_mb", "DP bucket size (MB)", kLog2),
    Field<&PC::zero_stage>("zero_stage", "ZeRO stage", kLinear),
    Field<&PC::zero_bucket_mb>(
        "zero_bucket_mb", "ZeRO bucket size (MB)", kLog2),
    Field<&PC::overlap_zero_comm>(
        "overlap_zero_comm", "Overlap ZeRO communication", kFlag),
    Field<&PC::overlap_zero_allgather>(
        "overlap_zero_allgather", "Overlap ZeRO all-gather", kFlag),
    Field<&PC::microbatches>("microbatches", "Microbatches", kLog2),
    Field<&PC::model_chunks>("model_chunks", "Model chunks", kLog2),
    Field<&PC::overlap_p2p>("overlap_p2p", "Overlap P2P", kFlag),
    Field<&PC::grad_checkpoint>(
        "grad_checkpoint", "Gradient checkpointing", kFlag),
    Field<&PC::micro_batch_size>("micro_batch_size", "Microbatch size", kLog2),
    Field<&PC::ep>("ep", "EP size", kLog2),
    Field<&PC::cp>("cp", "CP size", kLog2),
    Field<&PC::sp>("sp", "Sequence parallelism", kFlag),
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

int ParseFieldValue(std::string_view name, std::string_view value) {
  if (value == "true" || value == "True") {
    return 1;
  }
  if (value == "false" || value == "False") {
    return 0;
  }
  int number = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size()) {
    throw std::invalid_argument(fmt::format(
        "'{}' is no value for {}: a whole number, true or false", value, name));
  }
  return number;
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
  for (const std::string_view part : Split(text, ',')) {
    const std::string_view item = Trim(part);
    if (item.empty()) {
      continue;
    }
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw std::invalid_argument(
          fmt::format("'{}' is not of the form field=value", item));
    }
    const std::string_view name = Trim(item.substr(0, equals));
    const ConfigField* field = FindConfigField(name);
    if (field == nullptr) {
      std::vector<std::string> known;
      for (const ConfigField& each : kFields) {
        known.emplace_back(each.name);
      }
      throw std::invalid_argument(
          fmt::format("unknown field '{}'{} (fields: {})",
                      name,
                      DidYouMean(name, known),
                      fmt::join(known, ", ")));
    }
    field->set(config, ParseFieldValue(name, Trim(item.substr(equals + 1))));
  }
  return config;
}

}  // namespace trials
