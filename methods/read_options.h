// Options of methods from manifests: typed, bounded, with a clear error.

#ifndef METHODS_READ_OPTIONS_H_
#define METHODS_READ_OPTIONS_H_

#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/toml_table.h"

namespace methods {

// The whole number at `key`, `otherwise` if it is not there.
// Errors: throws InputError with the place unless it is >= least.
inline int ReadInt(const common::TomlTable& table,
                   std::string_view key,
                   int otherwise,
                   int least) {
  const auto value = table.GetInt(key, otherwise);
  if (value < least || value > 1'000'000'000) {
    table.Fail(key,
               fmt::format("{} = {}: must be at least {}", key, value, least));
  }
  return static_cast<int>(value);
}

// The number at `key`, `otherwise` if it is not there.
// Errors: throws InputError with the place unless it is >= least.
inline double ReadDouble(const common::TomlTable& table,
                         std::string_view key,
                         double otherwise,
                         double least) {
  const double value = table.GetDouble(key, otherwise);
  if (!(value >= least)) {
    table.Fail(key,
               fmt::format("{} = {}: must be at least {}", key, value, least));
  }
  return value;
}

}  // namespace methods

#endif  // METHODS_READ_OPTIONS_H_
