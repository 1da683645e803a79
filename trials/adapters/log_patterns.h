// What the log lines of a training framework look like.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/pattern.h"
#include "common/toml_table.h"

namespace trials {

// The table [log] of an adapter or of [backend]. Each pattern is a regular
// expression (RE2) with the number in its first group; "7,020" and
// "1.22K" are numbers, too. Keys: docs/adapters.md.
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
  };
  std::vector<Pattern> patterns;
  // The number of the step; a line whose number is not above that of the line
  // before is of another rank, and its times do not count.
  std::optional<common::Pattern> step;
  // A line that ends a step, for frameworks that print no time: the time since
  // the line before is that of the step.
  std::optional<common::Pattern> ends_step;
  std::vector<std::string> out_of_memory;
};

// Errors: throws InputError with the place of an unknown key and of an invalid
// expression.
[[nodiscard]] LogPatterns ReadLogPatterns(const common::TomlTable& table);

}  // namespace trials
