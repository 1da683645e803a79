// Small helpers for text that users write: manifests, tables, flags.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace common {

[[nodiscard]] std::string_view Trim(std::string_view text);
// Without the byte order mark of UTF-8 that some editors write first.
[[nodiscard]] std::string_view WithoutByteOrderMark(std::string_view text);
[[nodiscard]] std::vector<std::string_view> Split(std::string_view text,
                                                  char separator);

// Text for a terminal: control characters except newlines and tabs are '?'.
[[nodiscard]] std::string Printable(std::string_view text);

// Without the middle of a message that repeats a very long value.
[[nodiscard]] std::string Shortened(std::string message);

// Parsers recurse once per level; text that people write has a few levels.
inline constexpr int kDeepestNesting = 100;

// Whether brackets and braces outside of quotes are nested deeper than that.
[[nodiscard]] bool IsTooDeep(std::string_view text);

// The number of single-character insertions, deletions, substitutions and swaps
// of neighbors that turn `a` into `b`.
[[nodiscard]] int EditDistance(std::string_view a, std::string_view b);

// " (did you mean 'oppa'?)" for the nearest known name, or "" when none is
// near enough to be helpful.
[[nodiscard]] std::string DidYouMean(std::string_view name,
                                     std::span<const std::string> known);

// "unknown method 'opa' (did you mean 'oppa'?); known: oppa, random".
[[nodiscard]] std::string UnknownName(std::string_view what,
                                      std::string_view name,
                                      std::span<const std::string> known);

// What `name` returns for each thing, or the member that it points to.
template <typename Things, typename NameOf>
[[nodiscard]] std::vector<std::string> NamesIn(const Things& things,
                                               const NameOf& name) {
  std::vector<std::string> names;
  for (const auto& thing : things) {
    names.emplace_back(std::invoke(name, thing));
  }
  return names;
}

// Errors: throws InputError (UnknownName) for a name that is not known.
void RequireKnown(std::string_view name, std::span<const std::string> known,
                  std::string_view what);
void RequireKnown(std::span<const std::string> names,
                  std::span<const std::string> known, std::string_view what);

// The shortest text that reads back as the same double ("" for NaN): what
// records hold, so that equal values are equal bytes.
[[nodiscard]] std::string ExactText(double value);

// The inverse of ExactText: a number, or NaN for "".
// Errors: throws std::invalid_argument for anything else.
[[nodiscard]] double ParseDouble(std::string_view text);

// The number of a text; NaN also for text that is none.
[[nodiscard]] double NumberOrNan(std::string_view text);

// The integer that the whole text is; nothing for other text, and for an
// integer outside of [low, high].
[[nodiscard]] std::optional<std::int64_t> ParseInt64(
    std::string_view text,
    std::int64_t low = std::numeric_limits<std::int64_t>::min(),
    std::int64_t high = std::numeric_limits<std::int64_t>::max());
[[nodiscard]] std::optional<int> ParseInt(
    std::string_view text, int low = std::numeric_limits<int>::min(),
    int high = std::numeric_limits<int>::max());

// "27,797"; "0.0412" with three digits below 100.
[[nodiscard]] std::string Thousands(double value);

// With lower-case letters (ASCII).
[[nodiscard]] std::string Lower(std::string_view text);

}  // namespace common
