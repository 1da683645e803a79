#include "trials/adapters/log_patterns.h"

#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"

namespace trials {
namespace {

using Quantity = LogPatterns::Quantity;

// The keys of [log] that hold a pattern for a number.
struct Key {
  std::string_view name;
  Quantity quantity;
  double factor;
};
constexpr std::array<Key, 12> kKeys = {{
    {"step_time_s", Quantity::kStepTime, 1.0},
    {"step_time_ms", Quantity::kStepTime, 1e-3},
    {"steps_per_s", Quantity::kSteps, 1.0},
    {"samples_per_s", Quantity::kSamples, 1.0},
    {"tokens_per_s", Quantity::kTokens, 1.0},
    {"tokens_per_s_per_gpu", Quantity::kTokensOfGpu, 1.0},
    {"memory_bytes", Quantity::kMemory, 1.0},
    {"memory_mib", Quantity::kMemory, common::kMebi},
    {"memory_gib", Quantity::kMemory, common::kGibi},
    {"memory_mb", Quantity::kMemory, 1e6},
    {"memory_gb", Quantity::kMemory, 1e9},
    {"memory_kib", Quantity::kMemory, 1024.0},
}};

common::Pattern ReadExpression(const common::TomlTable& table,
                               std::string_view key) {
  const std::string text = table.RequireString(key);
  std::optional<common::Pattern> expression;
  try {
    expression.emplace(text);
  } catch (const std::invalid_argument& e) {
    table.Fail(key, fmt::format("'{}' is not a regular expression: {}", text,
                                e.what()));
  }
  if (expression->groups() == 0 && key != "ends_step") {
    table.Fail(
        key,
        fmt::format("'{}' has no group: put the number in parentheses", text));
  }
  return *std::move(expression);
}

}  // namespace

LogPatterns ReadLogPatterns(const common::TomlTable& table) {
  LogPatterns patterns;
  for (const Key& key : kKeys) {
    if (table.Has(key.name)) {
      patterns.patterns.push_back(
          {key.quantity, key.factor, ReadExpression(table, key.name)});
    }
  }
  if (table.Has("step")) {
    patterns.step = ReadExpression(table, "step");
  }
  if (table.Has("ends_step")) {
    patterns.ends_step = ReadExpression(table, "ends_step");
  }
  patterns.out_of_memory = table.GetStrings("out_of_memory");
  table.RejectUnknownKeys();
  return patterns;
}

}  // namespace trials
