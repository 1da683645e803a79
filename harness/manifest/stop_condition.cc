#include "harness/manifest/stop_condition.h"

#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "common/text.h"
#include "methods/remaining.h"

namespace harness {

struct StopCondition::Quantity {
  std::string_view name;
  char comparison;  // '<' or '>'
  double trials::Remaining::*value;
};

const StopCondition::Quantity StopCondition::kQuantities[] = {
    {"gain", '<', &trials::Remaining::expected_gain},
    {"p_within_1", '>', &trials::Remaining::p_within_1},
    {"p_within_3", '>', &trials::Remaining::p_within_3},
    {"p_within_5", '>', &trials::Remaining::p_within_5},
};

StopCondition::StopCondition(std::string_view text) {
  const auto fail = [&](const std::string& problem) {
    throw common::InputError(
        fmt::format("invalid condition '{}': {}; write for example "
                    "\"gain < 1%\" or \"p_within_5 > 90%\"",
                    text, problem));
  };
  const std::size_t comparison = text.find_first_of("<>");
  if (comparison == std::string_view::npos) {
    fail("a comparison (< or >) is missing");
  }
  const std::string_view name = common::Trim(text.substr(0, comparison));
  for (const Quantity& quantity : kQuantities) {
    if (quantity.name == name) {
      quantity_ = &quantity;
    }
  }
  if (quantity_ == nullptr) {
    fail(
        fmt::format("unknown quantity '{}'; known: gain, p_within_1, "
                    "p_within_3, p_within_5",
                    name));
  }
  if (quantity_->comparison != text[comparison]) {
    fail(fmt::format("{} must be compared with {}", quantity_->name,
                     quantity_->comparison));
  }
  std::string_view number = common::Trim(text.substr(comparison + 1));
  if (!number.ends_with('%')) {
    fail("a percentage must end in %");
  }
  number = common::Trim(number.substr(0, number.size() - 1));
  try {
    percent_ = number.empty() ? 0.0 : common::ParseDouble(number);
  } catch (const std::invalid_argument&) {
    percent_ = 0.0;
  }
  if (!(percent_ > 0.0 && percent_ < 100.0)) {
    fail(fmt::format("'{}' must be a number above 0 and below 100", number));
  }
  const double highest = 100.0 * methods::HighestProbability();
  if (quantity_->comparison == '>' && percent_ >= highest) {
    fail(fmt::format(
        "no estimate of {} exceeds {:.2f}%, so the threshold must "
        "be at most {:.1f}%",
        quantity_->name, highest, std::floor(10.0 * highest) / 10.0));
  }
}

bool StopCondition::IsMet(const trials::Remaining& remaining) const {
  const double percent = 100.0 * remaining.*(quantity_->value);
  return quantity_->comparison == '<' ? percent < percent_ : percent > percent_;
}

std::string StopCondition::ToString() const {
  return fmt::format("{} {} {}%", quantity_->name, quantity_->comparison,
                     common::ExactText(percent_));
}

}  // namespace harness
