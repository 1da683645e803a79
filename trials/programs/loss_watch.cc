#include "trials/programs/loss_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/programs/log_number.h"

namespace trials {
namespace {

constexpr std::size_t kMostOfLine = 200;  // in a message

// The loss in a line, NaN if it is not finite; nothing for a line without one.
std::optional<double> LossIn(const std::string& line,
                             const LogPatterns::Expressions& patterns) {
  static const common::Pattern not_finite("(?i)^[-+]?(?:nan|inf)");
  for (const common::Pattern& pattern : patterns) {
    for (std::size_t at = 0; at < line.size();) {
      const auto match = pattern.Find(line, at);
      if (!match.empty() && !match[1].empty()) {
        const double loss = common::NumberOrNan(match[1]);
        return std::isfinite(loss)         ? std::optional(loss)
               : not_finite.IsIn(match[1]) ? std::optional(kUnknown)
                                           : std::nullopt;
      }
      at = match.empty() ? line.size()
                         : match[0].data() - line.data() +
                               std::max<std::size_t>(match[0].size(), 1);
    }
  }
  return std::nullopt;
}

}  // namespace

void LossWatch::Read(std::string_view line, int steps) {
  const std::string text = PlainText(line);
  const auto loss = Find(patterns_.not_finite, text).empty()
                        ? LossIn(text, patterns_.loss)
                        : kUnknown;
  Take(loss, !Find(patterns_.skipped, text).empty(), text);
  if (loss && std::isfinite(*loss) && !reports_) {
    if (const auto step = StepOf(text, steps)) {
      losses_.try_emplace(*step, *loss);
    }
  }
}

void LossWatch::Report(std::optional<double> loss, bool is_skipped,
                       std::string_view line, int step) {
  Take(loss, is_skipped, line);
  if (loss && std::isfinite(*loss)) {
    if (!std::exchange(reports_, true)) {
      losses_.clear();
    }
    losses_.try_emplace(step, *loss);
  }
}

std::optional<int> LossWatch::StepOf(std::string_view text, int steps) {
  const auto number = Find(patterns_.step, text);
  is_numbered_ = is_numbered_.value_or(!number.empty());
  return !*is_numbered_   ? std::optional(steps)
         : number.empty() ? std::nullopt
                          : common::ParseInt(number[1], 0);
}

void LossWatch::Take(std::optional<double> loss, bool is_skipped,
                     std::string_view line) {
  // Losses are at the end of long lines.
  line = common::Trim(line);
  const auto text =
      line.substr(line.size() - std::min(line.size(), kMostOfLine));
  if (is_skipped) {
    ++skipped_;
    is_skipped_ = true;
    last_skipped_ = text;
  }
  if (loss && !std::isfinite(*loss) && not_finite_.empty()) {
    not_finite_ = text;
  }
  if (loss && !std::exchange(is_skipped_, false)) {
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
