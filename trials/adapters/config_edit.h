// Changes single keys of a configuration file and leaves the rest as it is.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trials {

enum class ConfigFormat { kJson, kToml, kYaml };
constexpr std::array<std::string_view, 3> NamesOf(ConfigFormat /*type*/) {
  return {"json", "toml", "yaml"};
}

// A scalar as a configuration file or a command line contains it: "4", "true",
// "full".
struct ConfigValue {
  enum class Type { kNumber, kBoolean, kString };
  Type type = Type::kString;
  std::string text;  // without quotes

  friend bool operator==(const ConfigValue&, const ConfigValue&) = default;
};

// The functions below take the text of a file and the path of a key,
// "parallelism.tensor_parallel_degree". In TOML and YAML only the value, or the
// line that is added or removed, changes: comments, order and spacing stay.
// JSON may have comments and commas before a bracket, as DeepSpeed reads it
// (Hjson), and is printed again with two spaces of indentation. A byte order
// mark is dropped. Errors: throws std::invalid_argument, with the line, for a
// text that is not of the format, for a key whose value is a list or table, for
// a parent that is not a table, and where the parser (toml++, libyaml) does not
// read the new text as the old one with that one change.

// The scalar's text without quotes; nothing if the key is missing.
[[nodiscard]] std::optional<std::string> GetConfigKey(ConfigFormat format,
                                                      const std::string& text,
                                                      std::string_view path);

// All keys of a text with their values, in its order, lists as they are
// written. Errors: as GetConfigKey.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> ConfigKeys(
    ConfigFormat format, const std::string& text);

// The text with that value. A missing key is added to its table, and a missing
// table to the end.
[[nodiscard]] std::string SetConfigKey(ConfigFormat format,
                                       const std::string& text,
                                       std::string_view path,
                                       const ConfigValue& value);

// The text without the key.
[[nodiscard]] std::string RemoveConfigKey(ConfigFormat format,
                                          const std::string& text,
                                          std::string_view path);

}  // namespace trials
