#include "trials/adapters/config_edit.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/json.h"
#include "common/text.h"

namespace trials {
namespace {

using common::Json;
using Names = std::vector<std::string>;

Names KeysOf(std::string_view path) {
  Names names;
  for (const std::string_view name : common::Split(path, '.')) {
    names.emplace_back(name);
  }
  return names;
}

// --- JSON -----------------------------------------------------------------

Json ParseObject(const std::string& text) {
  Json json = common::ParseJson(
      common::Trim(text).empty() ? "{}" : std::string_view(text), "file");
  if (!json.is_object()) {
    throw std::invalid_argument("the file is not a JSON object");
  }
  return json;
}

// The object that holds the key, made where it is missing if `make`; nullptr if
// it does not exist.
Json* ParentOf(Json& json, const Names& names, bool make) {
  Json* at = &json;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    if (!at->contains(names[i])) {
      if (!make) {
        return nullptr;
      }
      (*at)[names[i]] = Json::object();
    }
    at = &(*at)[names[i]];
    if (!at->is_object()) {
      throw std::invalid_argument(
          fmt::format("'{}' is not an object", names[i]));
    }
  }
  return at;
}

Json ToJsonScalar(const ConfigValue& value) {
  return value.type == ConfigValue::Type::kString ? Json(value.text)
                                                  : Json::parse(value.text);
}

// --- TOML and YAML --------------------------------------------------------

// Where a key is, or where it can be added, in the lines of a text.
struct Place {
  std::optional<std::size_t> line;  // of the key
  std::size_t insert = 0;           // the line before which to add it
  std::string indent;               // of an added line
  Names missing;                    // tables to be added with it
};

Names LinesOf(const std::string& text) {
  Names lines;
  for (const std::string_view line : common::Split(text, '\n')) {
    lines.emplace_back(line);
  }
  if (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  return lines;
}

std::string Join(const Names& lines) {
  return fmt::format("{}{}", fmt::join(lines, "\n"), lines.empty() ? "" : "\n");
}

std::string_view WithoutQuotes(std::string_view text) {
  const bool quoted = text.size() >= 2 &&
                      (text.front() == '"' || text.front() == '\'') &&
                      text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

// The begin and the end of the value in "key = value  # comment".
struct LineSpan {
  std::size_t begin;
  std::size_t end;
};
LineSpan ValueSpan(const std::string& line, char separator) {
  const std::size_t sign = line.find(separator);
  const std::size_t begin =
      std::min(line.find_first_not_of(" \t", std::min(sign + 1, line.size())),
               line.size());
  const char first = line[begin];  // '\0' where the value is empty
  const bool is_block =            // of several lines, an alias, or with a tag
      separator == ':' ? std::string_view(">|&*!").find(first) != line.npos
                       : line.compare(begin, 3, "\"\"\"") == 0 ||
                             line.compare(begin, 3, "'''") == 0;
  if (first == '[' || first == '{' || is_block) {
    throw std::invalid_argument(
        fmt::format("the value of '{}' is not a single number, word or boolean",
                    common::Trim(line.substr(0, sign))));
  }
  if (first == '"' || first == '\'') {
    const std::size_t close = line.find(first, begin + 1);
    if (close == std::string::npos) {
      throw std::invalid_argument(
          fmt::format("'{}' has no closing quote", line));
    }
    return {begin, close + 1};
  }
  const std::size_t comment =
      std::min(separator == ':' && first != '#' ? line.find(" #", begin)
                                                : line.find('#', begin),
               line.size());
  const std::size_t last = line.find_last_not_of(" \t\r", comment - 1);
  return {begin, std::max(begin, last + 1)};
}

std::string_view KeyOf(std::string_view line, char separator) {
  const std::size_t sign = line.find(separator);
  return sign == std::string_view::npos
             ? std::string_view()
             : WithoutQuotes(common::Trim(line.substr(0, sign)));
}

bool IsBlank(std::string_view line) {
  const std::string_view text = common::Trim(line);
  return text.empty() || text.front() == '#';
}

// "[a.b]" -> "a.b" in a line that begins with '['; nothing for "[[a.b]]" or a
// line that is not closed.
std::optional<std::string> TableHeader(std::string_view line) {
  std::string_view text = common::Trim(line.substr(0, line.find('#')));
  if (text.back() != ']' || text.starts_with("[[")) {
    return std::nullopt;
  }
  return std::string(common::Trim(text.substr(1, text.size() - 2)));
}

// Whether each line of TOML begins within a string of several lines.
std::vector<bool> InStrings(const Names& lines) {
  std::vector<bool> in_string;
  std::string_view open;  // the quotes of the string
  for (const std::string_view line : lines) {
    in_string.push_back(!open.empty());
    std::size_t at = open.empty() && IsBlank(line) ? line.npos : 0;
    while (at != line.npos) {
      constexpr std::string_view kTriple[] = {"\"\"\"", "'''"};
      const std::size_t first =
          std::min(line.find(kTriple[0], at), line.find(kTriple[1], at));
      const std::size_t next = open.empty() ? first : line.find(open, at);
      at = next == line.npos ? next : next + 3;
      if (next != line.npos) {
        open = open.empty() ? line.substr(next, 3) : std::string_view();
      }
    }
  }
  return in_string;
}

Place FindInToml(const Names& lines, const Names& names) {
  const std::string table =
      fmt::format("{}", fmt::join(names.begin(), names.end() - 1, "."));
  Place place;
  bool inside = table.empty();
  bool found = inside;
  const std::vector<bool> in_string = InStrings(lines);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (in_string[i]) {
      place.insert = inside ? i + 1 : place.insert;
    } else if (common::Trim(lines[i]).starts_with('[')) {
      inside = TableHeader(lines[i]) == table;
      found = found || inside;
      place.insert = inside ? i + 1 : place.insert;
    } else if (inside && KeyOf(lines[i], '=') == names.back() &&
               !IsBlank(lines[i])) {
      place.line = i;
      return place;
    } else if (inside && !IsBlank(lines[i])) {
      place.insert = i + 1;
    }
  }
  if (!found) {
    place.insert = lines.size();
    place.missing = {table};
  }
  return place;
}

std::size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

Place FindInYaml(const Names& lines, const Names& names) {
  Place place;
  std::size_t begin = 0;
  std::size_t end = lines.size();
  for (std::size_t level = 0; level < names.size(); ++level) {
    // The children of a mapping have the indentation of its first one.
    std::optional<std::size_t> indent;
    std::optional<std::size_t> key;
    std::size_t last = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (IsBlank(lines[i]) || lines[i].starts_with("---")) {
        continue;
      }
      indent = indent.value_or(IndentOf(lines[i]));
      last = i + 1;
      if (IndentOf(lines[i]) == *indent &&
          KeyOf(lines[i], ':') == names[level]) {
        key = i;
      }
    }
    place.indent = std::string(
        indent.value_or(place.indent.size() + (level == 0 ? 0 : 2)), ' ');
    if (!key) {
      place.insert = last;
      place.missing.assign(names.begin() + static_cast<std::ptrdiff_t>(level),
                           names.end() - 1);
      return place;
    }
    if (level + 1 == names.size()) {
      place.line = key;
      return place;
    }
    if (const LineSpan span = ValueSpan(lines[*key], ':');
        span.end > span.begin) {
      throw std::invalid_argument(
          fmt::format("'{}' is not a mapping in block style", names[level]));
    }
    begin = *key + 1;
    end = begin;
    while (end < lines.size() &&
           (IsBlank(lines[end]) || IndentOf(lines[end]) > *indent)) {
      ++end;
    }
  }
  return place;
}

// Refuses a value that the next line continues.
void RequireOneLine(ConfigFormat format, const Names& lines, std::size_t line) {
  const auto next =
      std::find_if_not(lines.begin() + static_cast<std::ptrdiff_t>(line) + 1,
                       lines.end(), IsBlank);
  if (format == ConfigFormat::kYaml && next != lines.end() &&
      IndentOf(*next) > IndentOf(lines[line])) {
    throw std::invalid_argument(
        fmt::format("'{}' has several lines", lines[line]));
  }
}

char Separator(ConfigFormat format) {
  return format == ConfigFormat::kToml ? '=' : ':';
}

// Errors: throws std::invalid_argument if the value has several lines.
Place Find(ConfigFormat format, const Names& lines, const Names& names) {
  Place place = format == ConfigFormat::kToml ? FindInToml(lines, names)
                                              : FindInYaml(lines, names);
  if (place.line) {
    RequireOneLine(format, lines, *place.line);
  }
  return place;
}

std::string Scalar(ConfigFormat format, const ConfigValue& value) {
  const bool text = value.type == ConfigValue::Type::kString;
  if (text && format == ConfigFormat::kToml) {
    return fmt::format("\"{}\"", value.text);
  }
  // YAML 1.1 reads these words as false and true.
  static const std::set<std::string> words = {"no", "yes", "off", "on"};
  return text && words.contains(common::Lower(value.text))
             ? fmt::format("'{}'", value.text)
             : value.text;
}

// The lines that add a key with its missing tables.
Names NewLines(ConfigFormat format, const Place& place, const std::string& name,
               const std::string& scalar) {
  const bool is_toml = format == ConfigFormat::kToml;
  Names lines;
  std::string indent = place.indent;
  for (const std::string& table : place.missing) {
    if (is_toml) {
      lines.insert(lines.end(), {"", fmt::format("[{}]", table)});
    } else {
      lines.push_back(fmt::format("{}{}:", indent, table));
      indent += "  ";
    }
  }
  lines.push_back(is_toml ? fmt::format("{} = {}", name, scalar)
                          : fmt::format("{}{}: {}", indent, name, scalar));
  return lines;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ConfigKeys(
    ConfigFormat format, const std::string& text) {
  std::vector<std::pair<std::string, std::string>> keys;
  const auto add = [&keys](const auto& self, const Json& value,
                           const std::string& path) -> void {
    if (!value.is_object()) {
      keys.emplace_back(
          path, value.is_string() ? value.get<std::string>() : value.dump());
      return;
    }
    for (const auto& [name, each] : value.items()) {
      self(self, each, path.empty() ? name : fmt::format("{}.{}", path, name));
    }
  };
  if (format == ConfigFormat::kJson) {
    add(add, ParseObject(text), "");
  }
  return keys;
}

std::optional<std::string> GetConfigKey(ConfigFormat format,
                                        const std::string& text,
                                        std::string_view path) {
  const Names names = KeysOf(path);
  if (format == ConfigFormat::kJson) {
    Json json = ParseObject(text);
    const Json* const parent = ParentOf(json, names, false);
    if (parent == nullptr || !parent->contains(names.back())) {
      return std::nullopt;
    }
    const Json& value = (*parent)[names.back()];
    if (value.is_structured()) {
      throw std::invalid_argument(
          fmt::format("the value of '{}' is a list or an object", path));
    }
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  const Names lines = LinesOf(text);
  const Place place = Find(format, lines, names);
  if (!place.line) {
    return std::nullopt;
  }
  const std::string& line = lines[*place.line];
  const LineSpan span = ValueSpan(line, Separator(format));
  return std::string(WithoutQuotes(
      std::string_view(line).substr(span.begin, span.end - span.begin)));
}

std::string SetConfigKey(ConfigFormat format, const std::string& text,
                         std::string_view path, const ConfigValue& value) {
  const Names names = KeysOf(path);
  if (format == ConfigFormat::kJson) {
    Json json = ParseObject(text);
    (*ParentOf(json, names, true))[names.back()] = ToJsonScalar(value);
    return common::ToText(json, 2) + "\n";
  }
  Names lines = LinesOf(text);
  const Place place = Find(format, lines, names);
  const std::string scalar = Scalar(format, value);
  if (place.line) {
    std::string& line = lines[*place.line];
    const LineSpan span = ValueSpan(line, Separator(format));
    const bool space = line[span.begin - 1] != ' ';
    line.replace(span.begin, span.end - span.begin,
                 (space ? " " : "") + scalar);
  } else {
    const Names added = NewLines(format, place, names.back(), scalar);
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(place.insert),
                 added.begin(), added.end());
  }
  std::string changed = Join(lines);
  if (GetConfigKey(format, changed, path) != value.text) {
    throw std::invalid_argument("it cannot be changed in this file");
  }
  return changed;
}

std::string RemoveConfigKey(ConfigFormat format, const std::string& text,
                            std::string_view path) {
  const Names names = KeysOf(path);
  if (format == ConfigFormat::kJson) {
    Json json = ParseObject(text);
    Json* const parent = ParentOf(json, names, false);
    if (parent == nullptr || parent->erase(names.back()) == 0) {
      return text;
    }
    return common::ToText(json, 2) + "\n";
  }
  Names lines = LinesOf(text);
  const Place place = Find(format, lines, names);
  if (!place.line) {
    return text;
  }
  (void)ValueSpan(lines[*place.line], Separator(format));
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(*place.line));
  return Join(lines);
}

}  // namespace trials
