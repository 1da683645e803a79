// What the log lines of a training framework look like.

#pragma once

#include <array>
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
    bool is_allocated = false;  // memory that PyTorch's allocator has given out
  };
  // Any of them.
  using Expressions = std::vector<common::Pattern>;
  // What "1,050" is.
  enum class Comma { kUnsettled, kThousands, kDecimal };
  // The pattern that first finds a step time holds for the whole log.
  std::vector<Pattern> patterns;
  Comma comma = Comma::kUnsettled;
  // The number of the step (step_lines.h).
  Expressions step;
  // Where a number, "{}" in the line, is no time of a step, and lines of steps
  // on other data.
  Expressions no_step_time, other_step;
  // Lines that may be of a microbatch, of which a step has several, or whose
  // two numbers count microbatches and steps.
  Expressions microbatch;
  // A line that ends a step, for frameworks that print no time: the time since
  // the line before is that of the step.
  Expressions ends_step;
  // A bar of tqdm over steps: count, total, elapsed time, rate, unit.
  Expressions progress_bar;
  // The loss of a step; a match without the number is of other data. Lines that
  // say that it is not finite, and lines of steps that were not applied.
  Expressions loss, not_finite, skipped;
  // What a log says of its job: sequences of a step, tokens of a sequence, and
  // ranks.
  Expressions batch_size, sequence_length, gpus;
  std::vector<std::string> out_of_memory;
};

constexpr std::array<std::string_view, 3> NamesOf(LogPatterns::Comma /*type*/) {
  return {"unknown", "thousands", "decimal"};
}

// The match of the first expression that has one; empty without any.
[[nodiscard]] std::vector<std::string_view> Find(
    const LogPatterns::Expressions& expressions, std::string_view text);

// The line without what may precede a bar: the rank, the container, the time.
[[nodiscard]] std::string_view WithoutBarHead(std::string_view line);

// What the log of any program looks like: experiments/adapters/log/usual.toml.
[[nodiscard]] const LogPatterns& UsualLogPatterns();

// Where the table says nothing of the loss and of memory, the usual patterns.
// Errors: throws InputError with the place of an unknown key and of an invalid
// expression.
[[nodiscard]] LogPatterns ReadLogPatterns(const common::TomlTable& table);

// Says which patterns found no step in a log, and its most similar lines.
[[nodiscard]] std::string WhatWasTried(const LogPatterns& patterns,
                                       std::string_view log);

}  // namespace trials
