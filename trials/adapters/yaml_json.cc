#include "trials/adapters/yaml_json.h"

#include <cstdlib>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/adapters/config_tree.h"

namespace trials {
namespace {

using common::Json;

Json ScalarOf(const ConfigNode& node) {
  static const common::Pattern integer(
      R"(^[-+]?(0[xX][0-9a-fA-F]+|0o?[0-7]+|[0-9]+)$)");
  static const common::Pattern number(
      R"(^[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]+)?$)");
  if (!node.plain) {
    return node.text;
  }
  if (node.IsNull()) {
    return nullptr;
  }
  const std::string word = common::Lower(node.text);
  if (word == "true" || word == "yes" || word == "on") {
    return true;
  }
  if (word == "false" || word == "no" || word == "off") {
    return false;
  }
  if (integer.IsIn(word)) {
    std::string digits = word;
    if (const std::size_t o = digits.find('o'); o != digits.npos) {
      digits.erase(o, 1);
    }
    return std::strtoll(digits.c_str(), nullptr, 0);
  }
  return number.IsIn(word) ? Json(std::strtod(word.c_str(), nullptr))
                           : Json(node.text);
}

Json JsonOf(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kScalar) {
    return ScalarOf(node);
  }
  const bool table = node.kind == ConfigNode::Kind::kTable;
  Json json = table ? Json::object() : Json::array();
  for (const ConfigNode& child : node.children) {
    (table ? json[child.name] : json.emplace_back()) = JsonOf(child);
  }
  return json;
}

// A text without quotes where no reader takes it for something else.
std::string ScalarText(const Json& json) {
  static const common::Pattern plain(R"(^[A-Za-z/][-A-Za-z0-9_./]*$)");
  static const common::Pattern word(
      "(?i)^(y|n|yes|no|on|off|true|false|null)$");
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  return plain.IsIn(text) && !word.IsIn(text) ? text : common::ToText(json);
}

// A text of lines that a literal block does not change.
bool IsBlock(const Json& json) {
  static const common::Pattern lines(R"((?s)^[^ \n\r][^\r]*[^\n\r]\n$)");
  return json.is_string() && lines.IsIn(json.get<std::string>());
}

void Append(const Json& json, int indent, std::string& text) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  if (json.is_structured() && !json.empty()) {
    for (const auto& [key, value] : json.items()) {
      text += margin + (json.is_object() ? ScalarText(Json(key)) + ":" : "-");
      const bool nested = value.is_structured() && !value.empty();
      const std::size_t at = text.size();
      text += nested && json.is_object() ? "\n" : " ";
      Append(value, indent + 2, text);
      if (nested && json.is_array()) {  // the first line follows the dash
        text.erase(at, margin.size() + 2);
      }
    }
    return;
  }
  if (!IsBlock(json)) {
    text += ScalarText(json) + "\n";
    return;
  }
  const auto& value = json.get_ref<const std::string&>();
  text += "|\n";
  const std::string_view lines(value.data(), value.size() - 1);
  for (const std::string_view line : common::Split(lines, '\n')) {
    text += line.empty() ? "\n" : fmt::format("{}{}\n", margin, line);
  }
}

}  // namespace

Json JsonOfYaml(const std::string& text) {
  return JsonOf(ParseConfig(ConfigFormat::kYaml, text));
}

std::string YamlOf(const Json& json) {
  std::string text;
  Append(json, 0, text);
  return text;
}

}  // namespace trials
