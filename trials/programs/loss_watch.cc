#include "trials/programs/loss_watch.h"

#include <utility>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/text.h"

namespace trials {
namespace {

// The word before "loss", which a quote, a sign and colours may follow.
const common::Pattern kNotFinite(
    R"((?i)(\w*)loss['"]?\s*[:=]\s*(?:\x1b\[[0-9;]*m)*\s*['"]?)"
    R"([-+]?(?:nan|inf(?:inity)?)(?:\.0)?\b)");
const common::Pattern kOtherLoss("(?i)best|val|eval|min");
// The words before "loss", and a number that nothing continues.
const common::Pattern kLoss(
    R"((?i)([\w ]*)loss['"]?\s*[:=]?\s*(?:\x1b\[[0-9;]*m)*\s*['"]?)"
    R"(([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?:[,.]?[^\d\w%.,]|[,.]?$))");
const common::Pattern kNotOfTraining(
    R"((?i)(?:^|[ _])(?:best|val\w*|eval\w*|test|min)[ _]*$|aux|balanc|z_$)");
const common::Pattern kStepOfLoss(
    R"((?i)(?:^|[^a-z])(?:global_?)?(?:step|iter|iteration)s?['"]?)"
    R"([ :=#\[]*(\d+)(?:[^.\d\w%]|\.?$))");
const common::Pattern kSkipped(
    R"((?i)\bgrad(?:ient)?[_ ]norm['"]?\s*[:=]\s*['"]?[-+]?(?:nan|inf)\b|)"
    R"(overflow.*skipping|skipping (?:step|iteration|update)|)"
    R"(number of (?:skipped|nan) iterations:\s*[1-9])");

const common::Pattern kApplied(
    R"((?i)\bgrad(?:ient)?[_ ]norm['"]?\s*[:=]\s*(?:\x1b\[[0-9;]*m)*\s*['"]?\d|)"
    R"(number of skipped iterations:\s*0)");

// The part of a line that has a match, for display.
std::string Around(std::string_view text, std::string_view match) {
  constexpr std::size_t kMostOfLine = 200;
  const auto at = static_cast<std::size_t>(match.data() - text.data());
  return std::string(
      text.substr(at + match.size() > kMostOfLine ? at : 0, kMostOfLine));
}

}  // namespace

void LossWatch::Read(std::string_view line, int steps) {
  constexpr std::size_t kLongest = 4096;
  const std::string_view text = common::Trim(line.substr(0, kLongest));
  if (not_finite_.empty()) {
    const auto match = kNotFinite.Find(text);
    if (!match.empty() && !kOtherLoss.IsIn(match[1])) {
      not_finite_ = Around(text, match[0]);
    }
  }
  if (const auto match = kSkipped.Find(text); !match.empty()) {
    ++skipped_;
    last_skipped_ = Around(text, match[0]);
  } else if (kApplied.IsIn(text)) {
    skipped_ = 0;
  }
  if (!reports_) {
    ReadLoss(text, steps);
  }
}

void LossWatch::ReadLoss(std::string_view text, int steps) {
  const auto match = kLoss.Find(text);
  if (match.empty() || kNotOfTraining.IsIn(match[1])) {
    return;
  }
  const auto number = kStepOfLoss.Find(text);
  is_numbered_ = is_numbered_.value_or(!number.empty());
  const auto step = !*is_numbered_   ? std::optional(steps)
                    : number.empty() ? std::nullopt
                                     : common::ParseInt(number[1], 0);
  if (step) {
    losses_.try_emplace(*step, common::NumberOrNan(match[2]));
  }
}

void LossWatch::Report(int step, double loss) {
  if (!std::exchange(reports_, true)) {
    losses_.clear();
  }
  losses_.try_emplace(step, loss);
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
