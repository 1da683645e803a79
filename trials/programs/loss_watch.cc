#include "trials/programs/loss_watch.h"

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/text.h"

namespace trials {
namespace {

constexpr std::size_t kMostOfLine = 200;

// The word before "loss", which a quote, a sign and colours may follow.
const common::Pattern kNotFinite(
    R"((?i)(\w*)loss['"]?\s*[:=]\s*(?:\x1b\[[0-9;]*m)*\s*['"]?)"
    R"([-+]?(?:nan|inf(?:inity)?)(?:\.0)?\b)");
const common::Pattern kOtherLoss("(?i)best|val|eval|min");
const common::Pattern kSkipped(
    R"((?i)\bgrad(?:ient)?[_ ]norm['"]?\s*[:=]\s*['"]?[-+]?(?:nan|inf)\b|)"
    R"(overflow.*skipping|skipping (?:step|iteration|update)|)"
    R"(number of (?:skipped|nan) iterations:\s*[1-9])");

const common::Pattern kApplied(
    R"((?i)\bgrad(?:ient)?[_ ]norm['"]?\s*[:=]\s*(?:\x1b\[[0-9;]*m)*\s*['"]?\d|)"
    R"(number of skipped iterations:\s*0)");

}  // namespace

void LossWatch::Read(std::string_view line) {
  const std::string text(common::Trim(line.substr(0, kMostOfLine)));
  if (not_finite_.empty()) {
    const auto match = kNotFinite.Find(text);
    if (!match.empty() && !kOtherLoss.IsIn(std::string(match[1]))) {
      not_finite_ = text;
    }
  }
  if (kSkipped.IsIn(text)) {
    ++skipped_;
    last_skipped_ = text;
  } else if (kApplied.IsIn(text)) {
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
