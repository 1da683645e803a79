#include "trials/adapters/config_edit.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/json.h"
#include "common/pattern.h"
#include "common/text.h"
#include "trials/adapters/config_tree.h"

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

// Hjson's comments, and commas before a bracket, as blanks.
std::string WithoutComments(std::string text) {
  static const common::Pattern token(
      R"("(?:[^"\\]|\\.)*"|(#[^\n]*|//[^\n]*|/\*(?s:.*?)\*/)|,|[^\s"#/,]+|/)");
  std::size_t comma = std::string::npos;  // before blanks only
  std::size_t at = 0;
  for (auto found = token.Find(text); !found.empty();
       found = token.Find(text, at)) {
    const auto begin = static_cast<std::size_t>(found[0].data() - text.data());
    at = begin + found[0].size();
    if (!found[1].empty()) {
      std::replace_if(
          text.data() + begin, text.data() + at,
          [](char c) { return c != '\n'; }, ' ');
      continue;
    }
    if (comma != std::string::npos &&
        (text[begin] == '}' || text[begin] == ']')) {
      text[comma] = ' ';
    }
    comma = text[begin] == ',' ? begin : std::string::npos;
  }
  return text;
}

// JSON with comments. Other Hjson is refused: texts without quotes.
Json ParseObject(const std::string& text) {
  const std::string plain = WithoutComments(text);
  try {
    return common::ParseObject(
        common::Trim(plain).empty() ? "{}" : std::string_view(plain), "line");
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(
        fmt::format("{}: of Hjson, comments and commas before a bracket are "
                    "read: put keys and texts in double quotes, and a comma "
                    "between values",
                    e.what()));
  }
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

void RequireScalar(const Json& value) {
  if (value.is_structured()) {
    throw std::invalid_argument("its value is a list or a table");
  }
}

Json ToJsonScalar(const ConfigValue& value) {
  return value.type == ConfigValue::Type::kString ? Json(value.text)
                                                  : Json::parse(value.text);
}

// --- TOML and YAML --------------------------------------------------------

// Each value as it is written, by its path.
using LeafTexts = std::map<std::string, std::string>;

// NOLINTNEXTLINE(misc-no-recursion): of the depth of a ConfigNode
void Flatten(const ConfigNode& node, const std::string& path,
             LeafTexts& values) {
  for (const ConfigNode& child : node.children) {
    Flatten(child, path.empty() ? child.name : path + "." + child.name, values);
  }
  if (node.children.empty() && !path.empty()) {
    values[path] = node.kind == ConfigNode::Kind::kScalar ? node.raw
                   : node.kind == ConfigNode::Kind::kList ? "[]"
                                                          : "{}";
  }
}

// The tables on the way to a key, the file first, and the key's value.
struct Way {
  std::vector<const ConfigNode*> tables;
  const ConfigNode* value = nullptr;
};

// Errors: throws std::invalid_argument for a parent that is no table.
Way Walk(const ConfigNode& root, const Names& names) {
  if (names.size() > 1 && root.Find(fmt::format("{}", fmt::join(names, ".")))) {
    throw std::invalid_argument(
        "the file has this key with dots in its name: write a table");
  }
  Way way{{&root}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ConfigNode& table = *way.tables.back();
    if (table.kind != ConfigNode::Kind::kTable && !table.IsNull()) {
      throw std::invalid_argument(fmt::format(
          "'{}' is not a table",
          fmt::join(names.begin(), names.begin() + static_cast<int>(i), ".")));
    }
    const ConfigNode* const child = table.Find(names[i]);
    if (i + 1 == names.size() || child == nullptr) {
      way.value = i + 1 == names.size() ? child : nullptr;
      return way;
    }
    way.tables.push_back(child);
  }
  return way;
}

// A text of TOML or YAML, and the texts that may be it with a change: which of
// them are is for the parser to say.
class Edit {
 public:
  Edit(ConfigFormat format, const std::string& text, std::string_view path)
      : format_(format),
        text_(text),
        names_(KeysOf(path)),
        root_(ParseConfig(format, text)),
        way_(Walk(root_, names_)),
        newline_(text.find("\r\n") == std::string::npos ? "\n" : "\r\n") {}

  [[nodiscard]] bool HasValue() const { return way_.value != nullptr; }

  // The value; nullptr without one.
  // Errors: throws std::invalid_argument for a list or a table.
  [[nodiscard]] const ConfigNode* Scalar() const {
    if (HasValue() && way_.value->kind != ConfigNode::Kind::kScalar) {
      throw std::invalid_argument("its value is a list or a table");
    }
    return way_.value;
  }

  std::string Set(const ConfigValue& value) {
    const std::string scalar = Text(value);
    if (const ConfigNode* const old = Scalar()) {
      const char before = old->begin > 0 ? text_[old->begin - 1] : ' ';
      Replace(old->begin, old->end,
              (before == ':' || before == '=' ? " " : "") + scalar +
                  (old->raw.ends_with('\n') ? newline_ : ""));
    }
    if (format_ == ConfigFormat::kToml) {
      AddToToml(scalar);
    } else {
      AddToYaml(scalar);
    }
    return Choose(&value);
  }

  std::string Remove() {
    const ConfigNode& old = *way_.value;
    const auto& siblings = way_.tables.back()->children;
    const auto i = static_cast<std::size_t>(&old - siblings.data());
    if (siblings.size() == 1 && format_ == ConfigFormat::kYaml) {
      Replace(old.key_begin, old.end, "{}");
    }
    Replace(LineBegin(old.key_begin), LineEnd(old.end), "");
    if (i + 1 < siblings.size()) {
      Replace(old.key_begin, siblings[i + 1].key_begin, "");
    }
    Replace(i > 0 ? siblings[i - 1].end : old.key_begin, old.end, "");
    return Choose(nullptr);
  }

 private:
  void Replace(std::size_t begin, std::size_t end, const std::string& by) {
    if (begin <= end && end <= text_.size()) {
      candidates_.push_back(text_.substr(0, begin) + by + text_.substr(end));
    }
  }
  [[nodiscard]] std::size_t LineBegin(std::size_t at) const {
    return at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  }
  // After the newline of the line that the byte before `at` is in.
  [[nodiscard]] std::size_t LineEnd(std::size_t at) const {
    const std::size_t newline = text_.find('\n', at == 0 ? 0 : at - 1);
    return newline == std::string::npos ? text_.size() : newline + 1;
  }
  // Adds whole lines at the begin of a line or the end of the text.
  void Insert(std::size_t at, const std::string& lines) {
    const bool open = at > 0 && text_[at - 1] != '\n';
    Replace(at, at, (open ? newline_ : "") + lines);
  }

  [[nodiscard]] std::string Text(const ConfigValue& value) const {
    if (value.type != ConfigValue::Type::kString) {
      return value.text;
    }
    if (format_ == ConfigFormat::kToml) {
      return common::ToText(Json(value.text));
    }
    // What YAML 1.1 reads as a text without quotes.
    static const common::Pattern word("^[A-Za-z_/$][A-Za-z0-9_./$-]*$");
    static const std::set<std::string> others = {
        "no", "yes", "off", "on", "true", "false", "null", "y", "n"};
    return word.IsIn(value.text) && !others.contains(common::Lower(value.text))
               ? value.text
               : fmt::format("'{}'",
                             fmt::join(common::Split(value.text, '\''), "''"));
  }

  // Adds "a, b" to a table in braces.
  void AddInBraces(const ConfigNode& table, const std::string& body) {
    Replace(table.end - 1, table.end - 1,
            (table.children.empty() ? "" : ", ") + body);
    Replace(table.begin + 1, table.begin + 1, body + ", ");
  }

  // Whether lines below it belong to the table: the file or a header.
  [[nodiscard]] bool HasLines(const ConfigNode& table) const {
    return &table == &root_ || (!table.braces && text_[table.begin] == '[');
  }

  // The end of the last value of a table of TOML before another header; 0
  // without any.
  // NOLINTNEXTLINE(misc-no-recursion): of the depth of a ConfigNode
  [[nodiscard]] std::size_t LastEnd(const ConfigNode& table) const {
    std::size_t last = 0;
    for (const ConfigNode& child : table.children) {
      const bool dotted =
          child.kind == ConfigNode::Kind::kTable && !child.braces;
      const bool header = dotted
                              ? HasLines(child)
                              : child.kind == ConfigNode::Kind::kList &&
                                    !child.children.empty() &&
                                    child.children.front().begin == child.begin;
      last = std::max(last, header ? 0 : dotted ? LastEnd(child) : child.end);
    }
    return last;
  }

  void AddToToml(const std::string& scalar) {
    const auto dotted = [this](std::size_t from) {
      return fmt::format(
          "{}", fmt::join(names_.begin() + static_cast<std::ptrdiff_t>(from),
                          names_.end(), "."));
    };
    const auto add = [&](std::size_t i) {
      const ConfigNode& table = *way_.tables[i];
      if (HasLines(table)) {
        const std::size_t last = std::max(LastEnd(table), table.end);
        Insert(last == 0 ? 0 : LineEnd(last),
               fmt::format("{} = {}{}", dotted(i), scalar, newline_));
      }
    };
    const std::size_t depth = way_.tables.size() - 1;
    if (way_.tables.back()->braces) {
      AddInBraces(*way_.tables.back(),
                  fmt::format("{} = {}", dotted(depth), scalar));
    }
    if (depth + 1 == names_.size()) {
      add(depth);
    }
    if (names_.size() > 1) {
      Insert(text_.size(),
             fmt::format("{0}[{1}]{0}{2} = {3}{0}", newline_,
                         fmt::join(names_.begin(), names_.end() - 1, "."),
                         names_.back(), scalar));
    }
    for (std::size_t i = depth + 1; i-- > 0;) {
      add(i);
    }
  }

  void AddToYaml(const std::string& scalar) {
    const ConfigNode& table = *way_.tables.back();
    std::string body = fmt::format("{}: {}", names_.back(), scalar);
    for (std::size_t i = names_.size() - 1; i-- >= way_.tables.size();) {
      body = fmt::format("{}: {{{}}}", names_[i], body);
    }
    if (table.braces) {
      AddInBraces(table, body);
    } else if (&table == &root_ && table.IsNull()) {
      Insert(text_.size(), body + newline_);
    } else if (table.IsNull()) {
      Replace(table.begin, table.end, " {" + body + "}");
    } else if (!table.children.empty()) {
      const std::size_t first =  // not of what is merged into it
          std::max(table.begin, table.children.front().key_begin);
      const std::string indent(first - LineBegin(first), ' ');
      const ConfigNode* last = &table;
      while (!last->children.empty() && !last->braces) {
        last = &last->children.back();
      }
      Insert(LineEnd(last->end), indent + body + newline_);
      Replace(first, first, body + newline_ + indent);
    }
  }

  // Why a text is not this one with the change; "" if it is.
  [[nodiscard]] std::string WhyNot(const std::string& text,
                                   const ConfigValue* value) const {
    LeafTexts before;
    LeafTexts after;
    const ConfigNode root = ParseConfig(format_, text);
    Flatten(root_, "", before);
    Flatten(root, "", after);
    const ConfigNode* const found = Walk(root, names_).value;
    if (value == nullptr ? found != nullptr
                         : found == nullptr || found->text != value->text) {
      return "its value does not change";
    }
    // The key, and the tables on its way, which may be new or empty.
    std::string path;
    for (const std::string& name : names_) {
      path += (path.empty() ? "" : ".") + name;
      before.erase(path);
      after.erase(path);
    }
    const std::string below = path + ".";
    std::erase_if(before, [&](const auto& each) {
      return each.first.starts_with(below);
    });
    LeafTexts other;
    std::ranges::set_symmetric_difference(before, after,
                                          std::inserter(other, other.end()));
    return other.empty()
               ? ""
               : fmt::format("'{}' would change with it", other.begin()->first);
  }

  // The first candidate that is right.
  // Errors: throws std::invalid_argument without one.
  [[nodiscard]] std::string Choose(const ConfigValue* value) const {
    std::string reason;
    for (const std::string& text : candidates_) {
      std::string why;
      try {
        why = WhyNot(text, value);
      } catch (const std::invalid_argument& e) {
        why = e.what();
      }
      if (why.empty()) {
        return text;
      }
      reason = reason.empty() ? why : reason;
    }
    const ConfigNode* const at =
        way_.value != nullptr ? way_.value : way_.tables.back();
    throw std::invalid_argument(fmt::format(
        "line {}: it cannot be changed there ({}): write {} on a line of its "
        "own, without anchors and aliases",
        std::count(text_.begin(),
                   text_.begin() + static_cast<std::ptrdiff_t>(at->begin),
                   '\n') +
            1,
        reason, format_ == ConfigFormat::kToml ? "KEY = VALUE" : "KEY: VALUE"));
  }

  ConfigFormat format_;
  const std::string& text_;
  Names names_;
  ConfigNode root_;
  Way way_;
  std::string newline_;
  std::vector<std::string> candidates_;
};

// NOLINTNEXTLINE(misc-no-recursion): ParseConfig limits the depth
void AddKeys(const ConfigNode& node, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& keys) {
  if (node.kind == ConfigNode::Kind::kList) {
    keys.emplace_back(path, node.raw);
  } else if (node.kind == ConfigNode::Kind::kScalar) {
    keys.emplace_back(path, node.IsNull() ? "null" : node.text);
  }
  for (const ConfigNode& each : node.children) {
    if (node.kind == ConfigNode::Kind::kTable) {
      AddKeys(each, path.empty() ? each.name : path + "." + each.name, keys);
    }
  }
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
  } else {
    AddKeys(
        ParseConfig(format, std::string(common::WithoutByteOrderMark(text))),
        "", keys);
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
    RequireScalar(value);
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
  const std::string unmarked(common::WithoutByteOrderMark(text));
  const Edit edit(format, unmarked, path);
  const ConfigNode* const value = edit.Scalar();
  if (value == nullptr) {
    return std::nullopt;
  }
  // YAML 1.1 reads them as octal, hexadecimal, binary and sexagesimal numbers.
  static const common::Pattern odd(
      R"(^[-+]?(0[0-7_]+|0[xb][0-9a-fA-F_]+|[0-9]+_[0-9_]*|[0-9]+(:[0-9]+)+)$)");
  if (value->plain && odd.IsIn(value->text)) {
    throw std::invalid_argument(
        fmt::format("'{}' is no decimal number: write one", value->text));
  }
  return value->text;
}

std::string SetConfigKey(ConfigFormat format, const std::string& text,
                         std::string_view path, const ConfigValue& value) {
  const Names names = KeysOf(path);
  if (format == ConfigFormat::kJson) {
    Json json = ParseObject(text);
    Json& old = (*ParentOf(json, names, true))[names.back()];
    RequireScalar(old);
    old = ToJsonScalar(value);
    return common::ToText(json, 2) + "\n";
  }
  const std::string unmarked(common::WithoutByteOrderMark(text));
  return Edit(format, unmarked, path).Set(value);
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
  const std::string unmarked(common::WithoutByteOrderMark(text));
  Edit edit(format, unmarked, path);
  return edit.HasValue() ? edit.Remove() : text;
}

}  // namespace trials
