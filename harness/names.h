// Names that are used as folder names.

#pragma once

#include <string>
#include <string_view>

#include "common/toml_table.h"

namespace harness {

// A valid folder name: 1 to 64 of a-z, A-Z, 0-9, '.', '_', '-' and spaces, the
// first a letter or digit, the last no space, and not the name of a file that
// oppa writes there.
[[nodiscard]] bool IsSafeName(std::string_view name);

// Errors: throws InputError at the table's key unless IsSafeName(name); the
// message calls the name that of a `what`: "method", "problem".
void CheckName(const common::TomlTable& table, std::string_view key,
               std::string_view what, const std::string& name);

// Converts a value to a part of a name: the stem of a path, in lower case, with
// '-' for every unsafe character.
[[nodiscard]] std::string NamePart(const std::string& value);

}  // namespace harness
