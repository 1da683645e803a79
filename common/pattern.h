// Regular expressions that are matched in time linear in the text.

#ifndef COMMON_PATTERN_H_
#define COMMON_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace common {

// The syntax is that of RE2: Perl's without look-around and back-references. A
// character is a byte.
class Pattern {
 public:
  // Errors: throws std::invalid_argument for text that is no expression.
  explicit Pattern(std::string_view expression);

  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] int groups() const;
  // The leftmost match that begins at `from` or later, and its groups; a group
  // that takes no part in it is empty. Without a match, all of it is empty.
  [[nodiscard]] std::vector<std::string_view> Find(std::string_view text,
                                                   std::size_t from = 0) const;
  [[nodiscard]] bool IsIn(std::string_view text) const;

 private:
  std::shared_ptr<const re2::RE2> expression_;
};

}  // namespace common

#endif  // COMMON_PATTERN_H_
