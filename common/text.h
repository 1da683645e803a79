// Small helpers for text that comes from people: manifests, tables, flags.

#ifndef COMMON_TEXT_H_
#define COMMON_TEXT_H_

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace common {

// Input that cannot be used. The message names the place (file:line:column
// where there is one), the value, the rule and the remedy; `main` prints it
// as it is and exits with 2.
class InputError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

[[nodiscard]] std::string_view Trim(std::string_view text);
[[nodiscard]] std::vector<std::string_view> Split(std::string_view text,
                                                  char separator);

// The number of single-character insertions, deletions, substitutions and
// swaps of neighbours that turn `a` into `b`.
[[nodiscard]] int EditDistance(std::string_view a, std::string_view b);

// " (did you mean 'oppa'?)" for the nearest known name, or "" when none is
// near enough to be helpful.
[[nodiscard]] std::string DidYouMean(std::string_view name,
                                     std::span<const std::string> known);

// The shortest text that reads back as the same double ("" for NaN): what
// records hold, so that equal values are equal bytes.
[[nodiscard]] std::string ExactText(double value);

// The inverse of ExactText: a number, or NaN for "".
// Errors: throws std::invalid_argument for anything else.
[[nodiscard]] double ParseDouble(std::string_view text);

// Mixes parts of a run's identity into one seed (64-bit FNV-1a of the text,
// then splitmix64), the same on every machine.
[[nodiscard]] std::uint64_t DeriveSeed(std::string_view text,
                                       std::uint64_t index = 0);

// The check value at the end of every row of a record: 32-bit FNV-1a of the
// text before it. Any change of a single byte changes it, because each of its
// steps is a bijection.
[[nodiscard]] std::uint32_t RowCheck(std::string_view row);

}  // namespace common

#endif  // COMMON_TEXT_H_
