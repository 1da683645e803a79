#include "trials/programs/loss_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/programs/log_number.h"

namespace trials {
namespace {

constexpr std::size_t kMostOfLine = 200;  // in a message

// Whether the loss in a line is finite; nothing for a line without one.
std::optional<bool> IsFinite(const std::string& line,
                             const LogPatterns::Expressions& patterns) {
  static const common::Pattern not_finite("(?i)^[-+]?(?:nan|inf)");
  for (const common::Pattern& pattern : patterns) {
    for (std::size_t at = 0; at < line.size();) {
      const auto match = pattern.Find(line, at);
      if (!match.empty() && !match[1].empty()) {
        return !not_finite.IsIn(match[1]);
      }
      at = match.empty() ? line.size()
                         : match[0].data() - line.data() +
                               std::max<std::size_t>(match[0].size(), 1);
    }
  }
  return std::nullopt;
}

}  // namespace

void LossWatch::Read(std::string_view line) {
  const std::string text = PlainText(line);
  Take(Find(patterns_.not_finite, text).empty() ? IsFinite(text, patterns_.loss)
                                                : false,
       !Find(patterns_.skipped, text).empty(), text);
}

void LossWatch::Take(std::optional<bool> is_finite, bool is_skipped,
                     std::string_view line) {
  const auto text = common::Trim(line).substr(0, kMostOfLine);
  if (is_skipped) {
    ++skipped_;
    is_skipped_ = true;
    last_skipped_ = text;
  }
  if (is_finite && !*is_finite && not_finite_.empty()) {
    not_finite_ = text;
  }
  if (is_finite && !std::exchange(is_skipped_, false)) {
    skipped_ = 0;
  }
}

std::string LossWatch::WhyNothingIsLearnt(std::size_t steps) const {
  if (!not_finite_.empty()) {
    return fmt::format("the loss is not finite: {}", not_finite_);
  }
  return steps > 0 && skipped_ >= steps
             ? fmt::format("none of {} steps was applied: {}", steps,
                           last_skipped_)
             : "";
}

}  // namespace trials
