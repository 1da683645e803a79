#include "trials/adapters/placeholders.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/pattern.h"
#include "common/ranges.h"
#include "common/text.h"

namespace trials {
namespace {

bool IsPlaceholder(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_' || (c >= '0' && c <= '9');
  });
}

}  // namespace

std::string Expand(std::string_view word,
                   const std::map<std::string, std::string>& values) {
  std::string text;
  while (!word.empty()) {
    const std::size_t open = word.find('{');
    text += word.substr(0, open);
    if (open == std::string_view::npos) {
      break;
    }
    word.remove_prefix(open);
    const bool twice = word.starts_with("{{");
    const std::size_t begin = twice ? 2 : 1;
    const std::size_t close = word.find('}');
    const std::string name(close == std::string_view::npos
                               ? ""
                               : word.substr(begin, close - begin));
    if (!IsPlaceholder(name) && !values.contains(name)) {
      text += '{';
      word.remove_prefix(1);
      continue;
    }
    if (twice && word.substr(close).starts_with("}}")) {
      text += fmt::format("{{{}}}", name);
      word.remove_prefix(close + 2);
      continue;
    }
    const auto found = values.find(name);
    if (found == values.end()) {
      const auto known =
          common::Map(values, [](const auto& value) { return value.first; });
      throw std::invalid_argument(fmt::format(
          "unknown placeholder '{{{}}}'{}; known: {}; write "
          "{{{{{}}}}} for the text itself",
          name, common::DidYouMean(name, known), fmt::join(known, ", "), name));
    }
    text += found->second;
    word.remove_prefix(close + 1);
  }
  return text;
}

std::string Literal(std::string_view text) {
  static const common::Pattern braces(R"(\{([a-z0-9_]+)\})");
  std::string word;
  for (auto found = braces.Find(text); !found.empty();
       found = braces.Find(text)) {
    word += text.substr(0, found[0].data() - text.data());
    word += fmt::format("{{{}}}", found[0]);
    text.remove_prefix(found[0].data() + found[0].size() - text.data());
  }
  return word.append(text);
}

}  // namespace trials
