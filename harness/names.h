// Names that become folders.

#ifndef HARNESS_NAMES_H_
#define HARNESS_NAMES_H_

#include <string>
#include <string_view>

#include "common/error.h"
#include "common/toml_table.h"

namespace harness {

// A valid folder name: 1 to 64 of a-z, 0-9, '.', '_' and '-', the first a
// letter or digit, and not the name of a file that oppa writes there.
[[nodiscard]] bool IsSafeName(std::string_view name);

// Errors: throws InputError at the table's key unless IsSafeName(name), with
// the name as that of a `what`: "method", "problem".
void CheckName(const common::TomlTable& table,
               std::string_view key,
               std::string_view what,
               const std::string& name);

// A value as a part of a name: a path's stem, small letters, '-' for every
// character that is not safe.
[[nodiscard]] std::string NamePart(const std::string& value);

}  // namespace harness

#endif  // HARNESS_NAMES_H_
