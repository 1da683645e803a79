#include "common/pattern.h"

#include <stdexcept>

#include <re2/re2.h>

namespace common {

Pattern::Pattern(std::string_view expression) {
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  expression_ = std::make_shared<const RE2>(
      re2::StringPiece(expression.data(), expression.size()), options);
  if (!expression_->ok()) {
    throw std::invalid_argument(expression_->error());
  }
}

const std::string& Pattern::text() const { return expression_->pattern(); }
int Pattern::groups() const { return expression_->NumberOfCapturingGroups(); }

std::vector<std::string_view> Pattern::Find(std::string_view text,
                                            std::size_t from) const {
  std::vector<re2::StringPiece> found(groups() + 1);
  std::vector<std::string_view> groups;
  if (expression_->Match({text.data(), text.size()}, from, text.size(),
                         RE2::UNANCHORED, found.data(),
                         static_cast<int>(found.size()))) {
    for (const re2::StringPiece& group : found) {
      groups.emplace_back(group.data(), group.size());
    }
  }
  return groups;
}

bool Pattern::IsIn(std::string_view text) const {
  return expression_->Match({text.data(), text.size()}, 0, text.size(),
                            RE2::UNANCHORED, nullptr, 0);
}

}  // namespace common
