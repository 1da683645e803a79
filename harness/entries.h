// Helpers for the lists of methods and of backends.

#ifndef HARNESS_ENTRIES_H_
#define HARNESS_ENTRIES_H_

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/toml_table.h"

namespace harness {

// Returns the result of `make`. Adds the place of the table to an error that
// has none.
template <typename Make>
auto WithPlace(const common::TomlTable& table, std::string_view name,
               Make make) {
  try {
    return make();
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw common::InputError(
        fmt::format("{}: [{}]: {}", table.Where(), name, e.what()));
  }
}

// The entry with that name; null if there is none.
template <typename Entry>
const Entry* FindByName(const std::vector<Entry>& entries,
                        std::string_view name) {
  const auto found =
      std::find_if(entries.begin(), entries.end(),
                   [name](const Entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

}  // namespace harness

#endif  // HARNESS_ENTRIES_H_
