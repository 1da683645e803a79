// A configuration file as its parser reads it, with the place of every value.

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trials/adapters/config_edit.h"

namespace trials {

// A value of TOML (toml++) or YAML (libyaml, which PyYAML reads with, too).
// Aliases and merge keys of YAML are resolved: what they add has the place of
// its anchor.
struct ConfigNode {
  enum class Kind { kScalar, kList, kTable };
  Kind kind = Kind::kTable;
  std::string text;     // of a scalar: without quotes, escapes and tags
  std::string raw;      // as it is written
  bool plain = false;   // a scalar of YAML without quotes and tag
  bool braces = false;  // an inline table, a table in flow style
  std::string name;     // its key, or its place in a list
  // Bytes of the file: its key, [begin, end) of its value. Of a table of TOML
  // with a header, those of the header.
  std::size_t key_begin = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<ConfigNode> children = {};

  [[nodiscard]] const ConfigNode* Find(const std::string& child) const;
  // What PyYAML reads as None.
  [[nodiscard]] bool IsNull() const;
};

// The root of a text without a byte order mark; a null scalar if there is
// nothing in it.
// Errors: throws std::invalid_argument, with the line, for JSON, text that is
// not of the format, a key that comes twice and several documents.
[[nodiscard]] ConfigNode ParseConfig(ConfigFormat format,
                                     const std::string& text);

}  // namespace trials
