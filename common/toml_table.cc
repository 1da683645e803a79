#include "common/toml_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <type_traits>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "common/files.h"
#include "common/text.h"

namespace common {
namespace {

// The type of a value, in words for messages.
std::string_view Kind(const toml::node& node) {
  constexpr std::array<std::string_view, 7> kWords = {
      "nothing",    "a table",  "a list",   "a string",
      "an integer", "a number", "a boolean"};
  const auto index = static_cast<std::size_t>(node.type());
  return index < kWords.size() ? kWords[index] : "a date or time";
}

template <typename T>
std::string_view KindOf() {
  return Kind(toml::value<T>(T()));
}

std::string Show(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return fmt::format("\"{}\"", text->get());
  }
  if (const auto* number = node.as_integer()) {
    return std::to_string(number->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return ExactText(number->get());
  }
  if (const auto* flag = node.as_boolean()) {
    return flag->get() ? "true" : "false";
  }
  return std::string(Kind(node));
}

// A table as text: sorted keys, one `path = value` a line.
void Flatten(const toml::node& node, const std::string& path,
             std::string& text) {
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) {
      Flatten(value, fmt::format("{}.{}", path, key.str()), text);
    }
  } else if (const toml::array* array = node.as_array()) {
    for (std::size_t i = 0; i < array->size(); ++i) {
      Flatten(*array->get(i), fmt::format("{}[{}]", path, i), text);
    }
  } else {
    text += fmt::format("{} = {}\n", path, Show(node));
  }
}

// Moves the values of `from` into `to` (a copy loses the places of values).
void Merge(toml::table& from, toml::table& to) {
  for (auto&& [key, value] : from) {
    toml::table* const inner = value.as_table();
    toml::table* const present =
        inner == nullptr ? nullptr : to.get_as<toml::table>(key.str());
    if (present != nullptr) {
      Merge(*inner, *present);
      continue;
    }
    const toml::key& name = key;
    value.visit(
        [&](auto& typed) { to.insert_or_assign(name, std::move(typed)); });
  }
}

constexpr std::string_view kSetting = "--set ";

toml::table ParseSetting(const std::string& setting) {
  const std::string source = fmt::format("{}{}", kSetting, setting);
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) {
    throw InputError(
        fmt::format("{}: must be KEY=VALUE, as in {}backend.failure_s=5",
                    source, kSetting));
  }
  try {
    return toml::parse(setting, source);
  } catch (const toml::parse_error&) {
    try {  // a string without quotes
      return toml::parse(fmt::format("{} = \"{}\"", setting.substr(0, equals),
                                     setting.substr(equals + 1)),
                         source);
    } catch (const toml::parse_error& e) {
      throw InputError(fmt::format("{}: {}", source, e.description()));
    }
  }
}

}  // namespace

struct TomlTable::Node {
  std::shared_ptr<const toml::table> root;  // keeps everything below alive
  const toml::table* table = nullptr;       // nullptr: an empty table
  std::string source;
  std::string name;  // dotted path of this table, "" for the root
  std::string place;
  std::set<std::string, std::less<>> asked;
  std::map<std::string, std::vector<std::shared_ptr<Node>>, std::less<>>
      children;
  // Set in a table made by Alternatives: its origin, and the elements that
  // replace lists.
  std::shared_ptr<Node> origin;
  std::map<std::string, const toml::node*, std::less<>> chosen;

  [[nodiscard]] const toml::node* Peek(std::string_view key) const {
    const auto element = chosen.find(key);
    if (element != chosen.end()) {
      return element->second;
    }
    return table == nullptr ? nullptr : table->get(key);
  }

  [[nodiscard]] const toml::node* Find(std::string_view key) {
    for (Node* node = this; node != nullptr; node = node->origin.get()) {
      node->asked.emplace(key);
    }
    return Peek(key);
  }

  [[nodiscard]] std::string At(const toml::node& node) const {
    return At(node.source());
  }
  [[nodiscard]] std::string At(const toml::source_region& place_of) const {
    if (place_of.path != nullptr && place_of.path->starts_with(kSetting)) {
      return *place_of.path;
    }
    return fmt::format("{}:{}:{}", source, place_of.begin.line,
                       place_of.begin.column);
  }

  [[nodiscard]] std::string Path(std::string_view key) const {
    return name.empty() ? std::string(key) : fmt::format("{}.{}", name, key);
  }

  [[noreturn]] void WrongKind(const toml::node& node, std::string_view key,
                              std::string_view wanted) const {
    throw InputError(fmt::format("{}: {} must be {}, not {} ({})", At(node),
                                 Path(key), wanted, Kind(node), Show(node)));
  }

  [[noreturn]] void Missing(std::string_view key,
                            std::string_view wanted) const {
    throw InputError(
        fmt::format("{}: {} is missing: {}", place, Path(key), wanted));
  }

  // Integers are numbers, too.
  template <typename T>
  [[nodiscard]] T Scalar(const toml::node& node, std::string_view key) const {
    if (const auto* value = node.as<T>()) {
      return value->get();
    }
    if constexpr (std::is_same_v<T, double>) {
      if (const auto* number = node.as_integer()) {
        return static_cast<double>(number->get());
      }
    }
    WrongKind(node, key, KindOf<T>());
  }

  // In a list of integers, flags are 0 and 1.
  template <typename T>
  [[nodiscard]] T Element(const toml::node& node, std::string_view key) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      if (const auto* flag = node.as_boolean()) {
        return flag->get() ? 1 : 0;
      }
    }
    return Scalar<T>(node, key);
  }

  template <typename T>
  std::optional<T> Value(std::string_view key) {
    const toml::node* node = Find(key);
    return node == nullptr ? std::nullopt
                           : std::optional(Scalar<T>(*node, key));
  }

  template <typename T>
  T Require(std::string_view key) {
    std::optional<T> value = Value<T>(key);
    if (!value) {
      Missing(key, fmt::format("{} is needed here", KindOf<T>()));
    }
    return *std::move(value);
  }

  template <typename T>
  std::vector<T> List(std::string_view key) {
    const toml::node* node = Find(key);
    std::vector<T> values;
    if (node == nullptr) {
      return values;
    }
    if (const toml::array* array = node->as_array()) {
      for (const toml::node& element : *array) {
        values.push_back(Element<T>(element, key));
      }
    } else {
      values.push_back(Element<T>(*node, key));
    }
    return values;
  }

  std::shared_ptr<Node> Child(std::string_view key, const toml::table& child) {
    std::vector<std::shared_ptr<Node>>& known = children[std::string(key)];
    // Later requests share the same list of requested keys.
    for (const std::shared_ptr<Node>& each : known) {
      if (each->table == &child) {
        return each;
      }
    }
    auto node = std::make_shared<Node>();
    node->root = root;
    node->table = &child;
    node->source = source;
    node->name = Path(key);
    node->place = At(child);
    known.push_back(node);
    return node;
  }
};

TomlTable::TomlTable() : node_(std::make_shared<Node>()) {}

TomlTable TomlTable::ParseFile(const std::filesystem::path& path,
                               const std::vector<std::string>& settings) {
  return Parse(ReadFile(path), path.string(), settings);
}

TomlTable TomlTable::ParseString(std::string_view text,
                                 const std::string& source) {
  return Parse(text, source, {});
}

namespace {

// Whether a key has more parts than any key needs: tables nest that deep.
bool HasDeepKey(std::string_view text) {
  int dots = 0;
  char quote = '\0';
  bool comment = false;
  for (const char c : text) {
    if (c == '\n') {
      comment = false;
      quote = '\0';
      dots = 0;
    } else if (comment) {
      continue;
    } else if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == ',' || c == '=') {
      dots = 0;
    } else if (c == '.' && ++dots > kDeepestNesting) {
      return true;
    }
  }
  return false;
}

}  // namespace

TomlTable TomlTable::Parse(std::string_view text, const std::string& source,
                           const std::vector<std::string>& settings) {
  if (HasDeepKey(text)) {
    throw InputError(fmt::format("{}: a key has more than {} parts", source,
                                 kDeepestNesting));
  }
  try {
    toml::table root = toml::parse(text, source);
    for (const std::string& setting : settings) {
      toml::table values = ParseSetting(setting);
      Merge(values, root);
    }
    auto node = std::make_shared<Node>();
    node->root = std::make_shared<const toml::table>(std::move(root));
    node->table = node->root.get();
    node->source = source;
    node->place = fmt::format("{}:1:1", source);
    return TomlTable(std::move(node));
  } catch (const toml::parse_error& e) {
    const auto& at = e.source().begin;
    throw InputError(fmt::format("{}:{}:{}: {}", source, at.line, at.column,
                                 e.description()));
  }
}

bool TomlTable::Has(std::string_view key) const {
  return node_->Find(key) != nullptr;
}

bool TomlTable::IsTable(std::string_view key) const {
  const toml::node* found = node_->Find(key);
  return found != nullptr && found->is_table();
}

std::vector<std::string> TomlTable::Keys() const {
  // toml++ sorts keys; the position in the file restores the author's order.
  std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, std::string>>
      keys;
  if (node_->table != nullptr) {
    for (const auto& [key, value] : *node_->table) {
      keys.push_back({{key.source().begin.line, key.source().begin.column},
                      std::string(key.str())});
    }
  }
  std::ranges::sort(keys);
  std::vector<std::string> names;
  for (auto& [at, key] : keys) {
    names.push_back(std::move(key));
  }
  return names;
}

std::filesystem::path TomlTable::Folder() const {
  return std::filesystem::path(node_->source).parent_path();
}

std::string TomlTable::RequireString(std::string_view key) const {
  return node_->Require<std::string>(key);
}

std::string TomlTable::GetString(std::string_view key,
                                 const std::string& otherwise) const {
  return node_->Value<std::string>(key).value_or(otherwise);
}

std::int64_t TomlTable::RequireInt(std::string_view key) const {
  return node_->Require<std::int64_t>(key);
}

std::int64_t TomlTable::GetInt(std::string_view key,
                               std::int64_t otherwise) const {
  return node_->Value<std::int64_t>(key).value_or(otherwise);
}

double TomlTable::RequireDouble(std::string_view key) const {
  return node_->Require<double>(key);
}

double TomlTable::GetDouble(std::string_view key, double otherwise) const {
  return node_->Value<double>(key).value_or(otherwise);
}

int TomlTable::RequireIntIn(std::string_view key, int least, int most) const {
  const std::int64_t value = RequireInt(key);
  if (value < least || value > most) {
    const std::string range =
        value < least && most == std::numeric_limits<int>::max()
            ? fmt::format(">= {}", least)
            : fmt::format("from {} to {}", least, most);
    Fail(key, fmt::format("{} = {}: must be an integer {}", node_->Path(key),
                          value, range));
  }
  return static_cast<int>(value);
}

int TomlTable::GetIntIn(std::string_view key, int otherwise, int least,
                        int most) const {
  return Has(key) ? RequireIntIn(key, least, most) : otherwise;
}

double TomlTable::RequirePositive(std::string_view key) const {
  const double value = RequireDouble(key);
  if (!(value > 0.0) || !std::isfinite(value)) {
    Fail(key, fmt::format("{} = {}: must be a number > 0", node_->Path(key),
                          ExactText(value)));
  }
  return value;
}

double TomlTable::GetPositive(std::string_view key, double otherwise) const {
  return Has(key) ? RequirePositive(key) : otherwise;
}

double TomlTable::GetNotNegative(std::string_view key, double otherwise) const {
  const double value = GetDouble(key, otherwise);
  if (!(value >= 0.0) || !std::isfinite(value)) {
    Fail(key, fmt::format("{} = {}: must be a number >= 0", node_->Path(key),
                          ExactText(value)));
  }
  return value;
}

double TomlTable::GetDoubleIn(std::string_view key, double otherwise,
                              double least, double most) const {
  const double value = GetDouble(key, otherwise);
  if (!(value >= least && value <= most)) {
    Fail(key, fmt::format("{} = {}: must be a number from {} to {}",
                          node_->Path(key), ExactText(value), least, most));
  }
  return value;
}

bool TomlTable::GetBool(std::string_view key, bool otherwise) const {
  return node_->Value<bool>(key).value_or(otherwise);
}

std::string TomlTable::RequireOneOf(std::string_view key, std::string_view what,
                                    std::span<const std::string> known) const {
  std::string name = RequireString(key);
  At(key, [&] { RequireKnown(name, known, what); });
  return name;
}

std::string TomlTable::RequireText(std::string_view key) const {
  const toml::node* found = node_->Find(key);
  if (found == nullptr) {
    node_->Missing(key, "a value is needed here");
  }
  if (!found->is_value()) {
    Fail(key, fmt::format("{} must be one value, not {}", node_->Path(key),
                          Kind(*found)));
  }
  const auto* text = found->as_string();
  return text != nullptr ? text->get() : Show(*found);
}

std::vector<std::string> TomlTable::GetStrings(std::string_view key) const {
  return node_->List<std::string>(key);
}
std::vector<std::string> TomlTable::GetSomeOf(
    std::string_view key, std::string_view what,
    std::span<const std::string> known) const {
  for (const auto& [text, table] : Alternatives(key)) {
    if (table.Has(key)) {
      (void)table.RequireOneOf(key, what, known);
    }
  }
  return GetStrings(key);
}
std::vector<std::int64_t> TomlTable::GetInts(std::string_view key) const {
  return node_->List<std::int64_t>(key);
}
std::vector<double> TomlTable::GetDoubles(std::string_view key) const {
  return node_->List<double>(key);
}

TomlTable TomlTable::GetTable(std::string_view key) const {
  const toml::node* found = node_->Find(key);
  if (found == nullptr) {
    auto empty = std::make_shared<Node>();
    empty->source = node_->source;
    empty->name = node_->Path(key);
    empty->place = node_->place;
    return TomlTable(std::move(empty));
  }
  const toml::table* table = found->as_table();
  if (table == nullptr) {
    node_->WrongKind(*found, key, "a table");
  }
  return TomlTable(node_->Child(key, *table));
}

TomlTable TomlTable::RequireTable(std::string_view key) const {
  if (!Has(key)) {
    node_->Missing(
        key, fmt::format("a table [{}] is needed here", node_->Path(key)));
  }
  return GetTable(key);
}

std::vector<TomlTable> TomlTable::GetTables(std::string_view key) const {
  const toml::node* found = node_->Find(key);
  std::vector<TomlTable> tables;
  if (found == nullptr) {
    return tables;
  }
  const toml::array* array = found->as_array();
  if (array == nullptr) {
    return {GetTable(key)};
  }
  for (const toml::node& element : *array) {
    const toml::table* table = element.as_table();
    if (table == nullptr) {
      node_->WrongKind(element, key, "a table");
    }
    tables.push_back(TomlTable(node_->Child(key, *table)));
  }
  return tables;
}

std::vector<std::pair<std::string, TomlTable>> TomlTable::Alternatives(
    std::string_view key) const {
  const toml::node* found = node_->Peek(key);
  const toml::array* array = found == nullptr ? nullptr : found->as_array();
  if (array == nullptr) {
    return {{"", *this}};
  }
  if (array->empty()) {
    Fail(key, fmt::format("{} is an empty list: give at least one value",
                          node_->Path(key)));
  }
  std::vector<std::pair<std::string, TomlTable>> alternatives;
  for (const toml::node& element : *array) {
    auto node = std::make_shared<Node>(*node_);
    node->children.clear();
    node->origin = node_;
    node->chosen.insert_or_assign(std::string(key), &element);
    const auto* text = element.as_string();
    alternatives.emplace_back(text != nullptr ? text->get() : Show(element),
                              TomlTable(std::move(node)));
  }
  return alternatives;
}

std::vector<TomlTable::Leaf> TomlTable::Leaves() const {
  std::vector<Leaf> leaves;
  for (const std::string& key : Keys()) {
    const toml::node& node = *node_->Find(key);
    if (node.is_table()) {
      for (Leaf& leaf : GetTable(key).Leaves()) {
        leaf.path = fmt::format("{}.{}", key, leaf.path);
        leaves.push_back(std::move(leaf));
      }
      continue;
    }
    Leaf& leaf = leaves.emplace_back(Leaf{key, {}});
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& element : *array) {
        leaf.values.push_back(Show(element));
      }
    } else {
      leaf.values.push_back(Show(node));
    }
  }
  return leaves;
}

std::string TomlTable::CanonicalText() const {
  std::string text;
  if (node_->table != nullptr) {
    for (const auto& [key, value] : *node_->table) {
      Flatten(*node_->Peek(key.str()), std::string(key.str()), text);
    }
  }
  return text;
}

std::string TomlTable::Where(std::string_view key) const {
  const toml::node* found = node_->Find(key);
  return found == nullptr ? node_->place : node_->At(*found);
}

std::string TomlTable::Where() const { return node_->place; }

void TomlTable::Fail(std::string_view key, const std::string& message) const {
  throw InputError(fmt::format("{}: {}", Where(key), message));
}

void TomlTable::RequireKeys(const std::vector<std::string>& known) const {
  for (const std::string& key : Keys()) {
    At(key, [&] { RequireKnown(key, known, "key"); });
  }
}

void TomlTable::RejectUnknownKeys() const {
  if (node_->table == nullptr) {
    return;
  }
  for (const auto& [key, value] : *node_->table) {
    if (node_->asked.contains(key.str())) {
      continue;
    }
    const std::vector<std::string> known(node_->asked.begin(),
                                         node_->asked.end());
    throw InputError(
        fmt::format("{}: unknown key '{}'{}; known: {}",
                    node_->At(key.source()), node_->Path(key.str()),
                    DidYouMean(key.str(), known), fmt::join(known, ", ")));
  }
  for (const auto& [key, nodes] : node_->children) {
    for (const auto& node : nodes) {
      TomlTable(node).RejectUnknownKeys();
    }
  }
}

}  // namespace common
