// What the log lines of a training framework look like.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/pattern.h"
#include "common/toml_table.h"

namespace trials {

// The table [log] of an adapter or of [backend]. Each pattern is a regular
// expression (RE2) with the number in its first group. Keys: docs/adapters.md.
struct LogPatterns {
  // What a number is; times, rates and sizes have a factor to SI units.
  enum class Quantity {
    kStepTime,     // s
    kSteps,        // steps/s
    kSamples,      // sequences/s of all ranks
    kTokens,       // tokens/s of all ranks
    kTokensOfGpu,  // tokens/s, divided by the number of GPUs
    kMemory,       // bytes
  };
  struct Pattern {
    Quantity quantity;
    double factor;
    common::Pattern expression;
    bool is_mean_of_run = false;  // counts only where there is nothing else
  };
  // What "1,050" is.
  enum class Comma { kUnknown, kThousands, kDecimal };
  // The pattern that first finds a step time holds for the whole log.
  std::vector<Pattern> patterns;
  Comma comma = Comma::kUnknown;
  // The number of the step; a line whose number is not above that of the line
  // before is of another rank, and its times do not count. Without a number,
  // lines that arrive within a fraction of a step are one step.
  std::optional<common::Pattern> step;
  // A line that ends a step, for frameworks that print no time: the time since
  // the line before is that of the step.
  std::optional<common::Pattern> ends_step;
  // A bar of tqdm over steps: count, total, elapsed time, rate, unit.
  std::optional<common::Pattern> progress_bar;
  std::vector<std::string> out_of_memory;
};

constexpr std::array<std::string_view, 3> NamesOf(LogPatterns::Comma /*type*/) {
  return {"unknown", "thousands", "decimal"};
}

// Errors: throws InputError with the place of an unknown key and of an invalid
// expression.
[[nodiscard]] LogPatterns ReadLogPatterns(const common::TomlTable& table);

// Says which patterns found no step in a log, and its most similar lines.
[[nodiscard]] std::string WhatWasTried(const LogPatterns& patterns,
                                       std::string_view log);

}  // namespace trials
