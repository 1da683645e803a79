#include "harness/manifest/stop_condition.h"

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/ranges.h"
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
    {"p_found_5", '>', &trials::Remaining::p_found_5},
};

StopCondition::Bound StopCondition::Parse(std::string_view text) {
  const auto fail = [&](const std::string& problem) {
    throw common::InputError(
        fmt::format("invalid condition '{}': {}; write for example "
                    "\"gain < 1%\" or \"gain < 1% and p_within_5 > 90%\"",
                    text, problem));
  };
  const std::size_t comparison = text.find_first_of("<>");
  if (comparison == std::string_view::npos) {
    fail("a comparison (< or >) is missing");
  }
  const std::string_view name = common::Trim(text.substr(0, comparison));
  Bound bound;
  for (const Quantity& quantity : kQuantities) {
    if (quantity.name == name) {
      bound.quantity = &quantity;
    }
  }
  if (bound.quantity == nullptr) {
    fail(fmt::format(
        "unknown quantity '{}'; known: {}", name,
        fmt::join(common::Map(std::span(kQuantities), &Quantity::name), ", ")));
  }
  if (bound.quantity->comparison != text[comparison]) {
    fail(fmt::format("{} must be compared with {}", bound.quantity->name,
                     bound.quantity->comparison));
  }
  std::string_view number = common::Trim(text.substr(comparison + 1));
  if (!number.ends_with('%')) {
    fail("a percentage must end in %");
  }
  number = common::Trim(number.substr(0, number.size() - 1));
  try {
    bound.percent = number.empty() ? 0.0 : common::ParseDouble(number);
  } catch (const std::invalid_argument&) {
    bound.percent = 0.0;
  }
  if (!(bound.percent > 0.0 && bound.percent < 100.0)) {
    fail(fmt::format("'{}' must be a number above 0 and below 100", number));
  }
  const double highest = 100.0 * methods::HighestProbability();
  if (bound.quantity->comparison == '>' && bound.percent >= highest) {
    fail(fmt::format(
        "no estimate of {} exceeds {:.2f}%, so the threshold must "
        "be at most {:.1f}%",
        bound.quantity->name, highest, std::floor(10.0 * highest) / 10.0));
  }
  return bound;
}

StopCondition::StopCondition(std::string_view text) {
  constexpr std::string_view kAnd = " and ";
  for (auto end = text.find(kAnd); end != std::string_view::npos;
       end = text.find(kAnd)) {
    bounds_.push_back(Parse(text.substr(0, end)));
    text.remove_prefix(end + kAnd.size());
  }
  bounds_.push_back(Parse(text));
}

std::optional<StopCondition::Unmet> StopCondition::FirstUnmet(
    const trials::Remaining& remaining) const {
  for (const auto& [quantity, bound] : bounds_) {
    const double percent = 100.0 * remaining.*(quantity->value);
    if (!(quantity->comparison == '<' ? percent < bound : percent > bound)) {
      return Unmet{quantity->name, percent, bound};
    }
  }
  return std::nullopt;
}

std::string StopCondition::ToString() const {
  return fmt::format("{}",
                     fmt::join(common::Map(bounds_,
                                           [](const Bound& b) {
                                             return fmt::format(
                                                 "{} {} {}%", b.quantity->name,
                                                 b.quantity->comparison,
                                                 common::ExactText(b.percent));
                                           }),
                               " and "));
}

}  // namespace harness
