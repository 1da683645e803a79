#include "trials/adapters/config_tree.h"

#include <algorithm>
#include <map>
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
    yaml_event_delete(&event_);
    yaml_parser_delete(&parser_);
  }

  ConfigNode Read() {
    Next();  // the begin of the stream
    Next();
    ConfigNode root{.kind = Kind::kScalar, .plain = true};
    if (event_.type == YAML_DOCUMENT_START_EVENT) {
      Next();
      root = Node();
      RefuseTabs(text_.size());
      Next();  // the end of the document
      Next();
    }
    if (event_.type != YAML_STREAM_END_EVENT) {
      Fail("a second document begins");
    }
    return root;
  }

 private:
  [[noreturn]] void Fail(std::string_view why) const {
    const auto& mark =
        parser_.problem != nullptr ? parser_.problem_mark : event_.start_mark;
    throw std::invalid_argument(fmt::format("line {}: {}", mark.line + 1, why));
  }

  void Next() {
    yaml_event_delete(&event_);
    if (yaml_parser_parse(&parser_, &event_) == 0) {
      Fail(parser_.problem != nullptr ? parser_.problem : "no YAML");
    }
  }

  [[nodiscard]] std::size_t Byte(const yaml_mark_t& mark) const {
    return characters_[std::min(mark.index, characters_.size() - 1)];
  }

  // The node that begins with the event.
  // NOLINTNEXTLINE(misc-no-recursion): it limits the depth
  ConfigNode Node() {
    ConfigNode node{.begin = Byte(event_.start_mark),
                    .end = Byte(event_.end_mark)};
    const std::size_t before = nodes_;
    Count(1);
    std::string anchor;
    const auto name = [&anchor](const unsigned char* text) {
      anchor = text == nullptr ? "" : reinterpret_cast<const char*>(text);
    };
    if (++depth_ > common::kDeepestNesting) {
      Fail("nested too deep");
    }
    switch (event_.type) {
      case YAML_ALIAS_EVENT:
        name(event_.data.alias.anchor);
        node = Alias(anchor, node);
        anchor.clear();
        break;
      case YAML_SCALAR_EVENT: {
        const auto& scalar = event_.data.scalar;
        name(scalar.anchor);
        node.kind = Kind::kScalar;
        node.text.assign(reinterpret_cast<const char*>(scalar.value),
                         scalar.length);
        node.plain = scalar.plain_implicit != 0;
        RefuseTabs(node.begin);
        scalar_end_ = node.end;
        break;
      }
      case YAML_SEQUENCE_START_EVENT:
        name(event_.data.sequence_start.anchor);
        ReadList(node);
        break;
      default:
        name(event_.data.mapping_start.anchor);
        node.braces =
            event_.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE;
        ReadTable(node);
    }
    node.raw = node.raw.empty()
                   ? text_.substr(node.begin, node.end - node.begin)
                   : node.raw;
    if (!anchor.empty()) {
      anchors_[anchor] = {node, nodes_ - before};
    }
    --depth_;
    return node;
  }

  // libyaml reads tabs between words and before comments; PyYAML does not.
  void RefuseTabs(std::size_t until) const {
    for (std::size_t i = scalar_end_; i < until; ++i) {
      if (text_[i] == '#') {
        i = std::min(text_.find('\n', i), until);
      } else if (text_[i] == '\t') {
        Fail("a tab, which PyYAML does not read here: write blanks");
      }
    }
  }

  ConfigNode Alias(const std::string& anchor, const ConfigNode& place) {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      Fail(fmt::format("the alias *{} has no anchor", anchor));
    }
    Count(found->second.second);
    ConfigNode node = found->second.first;
    node.begin = place.begin;
    node.end = place.end;
    return node;
  }

  void Count(std::size_t nodes) {
    nodes_ += nodes;
    if (nodes_ > kMostNodes) {
      Fail("too many values");
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void ReadList(ConfigNode& node) {
    node.kind = Kind::kList;
    for (Next(); event_.type != YAML_SEQUENCE_END_EVENT; Next()) {
      node.children.push_back(Node());
      node.children.back().name = std::to_string(node.children.size() - 1);
    }
    node.end = Byte(event_.end_mark);
  }

  // NOLINTNEXTLINE(misc-no-recursion)
  void ReadTable(ConfigNode& node) {
    std::vector<ConfigNode> merged;
    for (Next(); event_.type != YAML_MAPPING_END_EVENT; Next()) {
      const ConfigNode key = Node();
      Next();
      ConfigNode value = Node();
      if (key.plain && key.text == "<<") {
        merged.push_back(std::move(value));
        continue;
      }
      value.name = key.kind == Kind::kScalar ? key.text : key.raw;
      value.key_begin = key.begin;
      if (node.Find(value.name) != nullptr) {
        Fail(fmt::format("the key '{}' comes twice", value.name));
      }
      node.children.push_back(std::move(value));
    }
    for (ConfigNode& each : merged) {
      const std::vector<ConfigNode> tables =
          each.kind == Kind::kList ? each.children : std::vector{each};
      for (const ConfigNode& table : tables) {
        std::ranges::copy_if(table.children, std::back_inserter(node.children),
                             [&node](const ConfigNode& child) {
                               return node.Find(child.name) == nullptr;
                             });
      }
    }
    node.end = Byte(event_.end_mark);
  }

  const std::string& text_;
  std::vector<std::size_t> characters_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  std::map<std::string, std::pair<ConfigNode, std::size_t>> anchors_;
  std::size_t nodes_ = 0;
  std::size_t scalar_end_ = 0;  // of the last one
  int depth_ = 0;
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
