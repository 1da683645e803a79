#include "trials/adapters/config_tree.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <yaml.h>

#include "common/text.h"

namespace trials {
namespace {

using Kind = ConfigNode::Kind;
constexpr std::size_t kMostNodes = 100'000;  // aliases can multiply them

// The bytes at which the characters of a text begin, and its end.
std::vector<std::size_t> Characters(std::string_view text) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      begins.push_back(i);
    }
  }
  begins.push_back(text.size());
  return begins;
}

class TomlTree {
 public:
  explicit TomlTree(const std::string& text)
      : text_(text), characters_(Characters(text)) {
    for (std::size_t i = 0; i <= text.size(); ++i) {
      if (i == 0 || text[i - 1] == '\n') {
        const auto at = std::ranges::lower_bound(characters_, i);
        lines_.push_back(static_cast<std::size_t>(at - characters_.begin()));
      }
    }
  }

  ConfigNode Read() {
    try {
      ConfigNode root = Node(toml::parse(text_));
      root.begin = root.end = 0;
      return root;
    } catch (const toml::parse_error& e) {
      throw std::invalid_argument(
          fmt::format("line {}: {}", e.source().begin.line, e.description()));
    }
  }

 private:
  [[nodiscard]] std::size_t Byte(const toml::source_position& place) const {
    const std::size_t line = std::min<std::size_t>(place.line, lines_.size());
    return line == 0 ? 0
                     : characters_[std::min(lines_[line - 1] + place.column - 1,
                                            characters_.size() - 1)];
  }

  // NOLINTNEXTLINE(misc-no-recursion): toml++ limits the depth
  ConfigNode Node(const toml::node& node) {
    ConfigNode made{.begin = Byte(node.source().begin),
                    .end = Byte(node.source().end)};
    made.raw = text_.substr(made.begin, made.end - made.begin);
    if (const toml::table* table = node.as_table()) {
      made.braces = table->is_inline();
      for (const auto& [key, value] : *table) {
        made.children.push_back(Node(value));
        made.children.back().name = key.str();
        made.children.back().key_begin = Byte(key.source().begin);
      }
      std::ranges::sort(made.children, {}, &ConfigNode::key_begin);
      return made;
    }
    made.kind = node.is_array() ? Kind::kList : Kind::kScalar;
    made.text = node.is_string()    ? node.as_string()->get()
                : node.is_integer() ? std::to_string(node.as_integer()->get())
                                    : made.raw;
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& value : *array) {
        made.children.push_back(Node(value));
        made.children.back().name = std::to_string(made.children.size() - 1);
      }
    }
    return made;
  }

  const std::string& text_;
  std::vector<std::size_t> characters_;
  std::vector<std::size_t> lines_;  // the first character of each
};

class YamlTree {
 public:
  explicit YamlTree(const std::string& text)
      : text_(text), characters_(Characters(text)) {
    yaml_parser_initialize(&parser_);
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(
        &parser_, reinterpret_cast<const unsigned char*>(text.data()),
        text.size());
  }
  YamlTree(const YamlTree&) = delete;
  YamlTree& operator=(const YamlTree&) = delete;
  ~YamlTree() {
    yaml_document_delete(&document_);
    yaml_parser_delete(&parser_);
  }

  ConfigNode Read() {
    Load(document_);
    const yaml_node_t* const root = yaml_document_get_root_node(&document_);
    if (root == nullptr) {
      return {.kind = Kind::kScalar, .plain = true};
    }
    yaml_document_t second{};
    Load(second);
    const yaml_node_t* const other = yaml_document_get_root_node(&second);
    const yaml_mark_t mark =
        other == nullptr ? root->end_mark : other->start_mark;
    yaml_document_delete(&second);
    if (other != nullptr) {
      Fail(mark, "a second document begins");
    }
    RefuseTabs();
    return Node(*root, 0);
  }

 private:
  [[noreturn]] static void Fail(const yaml_mark_t& mark, std::string_view why) {
    throw std::invalid_argument(fmt::format("line {}: {}", mark.line + 1, why));
  }

  void Load(yaml_document_t& document) {
    if (yaml_parser_load(&parser_, &document) == 0) {
      Fail(parser_.problem_mark,
           parser_.problem == nullptr ? "no YAML" : parser_.problem);
    }
  }

  [[nodiscard]] std::size_t Byte(const yaml_mark_t& mark) const {
    return characters_[std::min(mark.index, characters_.size() - 1)];
  }

  // libyaml reads tabs between words and before comments; PyYAML does not.
  void RefuseTabs() const {
    std::size_t i = 0;
    const auto refuse = [&](std::size_t until, const yaml_mark_t& mark) {
      for (; i < until; ++i) {
        if (text_[i] == '#') {
          i = std::min(text_.find('\n', i), until);
        } else if (text_[i] == '\t') {
          Fail(mark, "a tab before it, which PyYAML does not read: use blanks");
        }
      }
    };
    std::map<std::size_t, const yaml_node_t*> scalars;
    for (const yaml_node_t& node :
         std::span(document_.nodes.start, document_.nodes.top)) {
      if (node.type == YAML_SCALAR_NODE) {
        scalars[Byte(node.start_mark)] = &node;
      }
    }
    for (const auto& [begin, node] : scalars) {
      refuse(begin, node->start_mark);
      i = std::max(i, Byte(node->end_mark));
    }
    refuse(text_.size(), parser_.mark);
  }

  // NOLINTNEXTLINE(misc-no-recursion): it limits the depth
  ConfigNode Node(const yaml_node_t& from, int depth) {
    if (++nodes_ > kMostNodes || depth > common::kDeepestNesting) {
      Fail(from.start_mark, "too many values, or nested too deep");
    }
    ConfigNode node{.kind = from.type == YAML_SCALAR_NODE     ? Kind::kScalar
                            : from.type == YAML_SEQUENCE_NODE ? Kind::kList
                                                              : Kind::kTable,
                    .begin = Byte(from.start_mark),
                    .end = Byte(from.end_mark)};
    node.raw = text_.substr(node.begin, node.end - node.begin);
    const auto child = [&](int index) {
      return Node(*yaml_document_get_node(&document_, index), depth + 1);
    };
    if (node.kind == Kind::kScalar) {
      const auto& scalar = from.data.scalar;
      node.text.assign(reinterpret_cast<const char*>(scalar.value),
                       scalar.length);
      node.plain =
          scalar.style == YAML_PLAIN_SCALAR_STYLE && !node.raw.starts_with('!');
    } else if (node.kind == Kind::kList) {
      for (const int item : std::span(from.data.sequence.items.start,
                                      from.data.sequence.items.top)) {
        node.children.push_back(child(item));
        node.children.back().name = std::to_string(node.children.size() - 1);
      }
    } else {
      ReadTable(from, child, node);
    }
    return node;
  }

  template <typename Child>
  void ReadTable(const yaml_node_t& from, const Child& child,
                 ConfigNode& node) {
    node.braces = from.data.mapping.style == YAML_FLOW_MAPPING_STYLE;
    std::vector<ConfigNode> merged;
    for (const yaml_node_pair_t& pair : std::span(
             from.data.mapping.pairs.start, from.data.mapping.pairs.top)) {
      const ConfigNode key = child(pair.key);
      ConfigNode value = child(pair.value);
      if (key.plain && key.text == "<<") {
        merged.push_back(std::move(value));
        continue;
      }
      value.name = key.kind == Kind::kScalar ? key.text : key.raw;
      value.key_begin = key.begin;
      if (node.Find(value.name) != nullptr) {
        Fail(from.start_mark,
             fmt::format("a table with two keys '{}'", value.name));
      }
      node.children.push_back(std::move(value));
    }
    for (const ConfigNode& each : merged) {
      const std::vector<ConfigNode> tables =
          each.kind == Kind::kList ? each.children : std::vector{each};
      for (const ConfigNode& table : tables) {
        std::ranges::copy_if(table.children, std::back_inserter(node.children),
                             [&node](const ConfigNode& inner) {
                               return node.Find(inner.name) == nullptr;
                             });
      }
    }
  }

  const std::string& text_;
  std::vector<std::size_t> characters_;
  yaml_parser_t parser_{};
  yaml_document_t document_{};
  std::size_t nodes_ = 0;
};

}  // namespace

const ConfigNode* ConfigNode::Find(const std::string& child) const {
  const auto found = std::ranges::find(children, child, &ConfigNode::name);
  return kind == Kind::kTable && found != children.end() ? &*found : nullptr;
}

bool ConfigNode::IsNull() const {
  return kind == Kind::kScalar && plain &&
         (text.empty() || text == "~" || common::Lower(text) == "null");
}

ConfigNode ParseConfig(ConfigFormat format, const std::string& text) {
  return format == ConfigFormat::kToml ? TomlTree(text).Read()
                                       : YamlTree(text).Read();
}

}  // namespace trials
