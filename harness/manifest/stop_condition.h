// The condition under which a run ends before its budget is spent.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trials/remaining.h"

namespace harness {

// Bounds on quantities of trials::Remaining, all of which hold: "gain < 1%",
// "gain < 1% and p_within_5 > 75%".
class StopCondition {
 public:
  // Parses QUANTITY OPERATOR NUMBER%, with optional spaces in between, once or
  // joined by " and ". A gain takes <, a probability takes >; the number is
  // above 0 and below 100, and for a probability below
  // methods::HighestProbability(). Errors: throws InputError with the value,
  // the rule and the remedy.
  explicit StopCondition(std::string_view text);

  [[nodiscard]] bool IsMet(const trials::Remaining& remaining) const {
    return !FirstUnmet(remaining);
  }

  // The first bound that does not hold.
  struct Unmet {
    std::string_view quantity;  // "gain"
    double percent = 0.0;       // what it is
    double bound_percent = 0.0;
  };
  [[nodiscard]] std::optional<Unmet> FirstUnmet(
      const trials::Remaining& remaining) const;

  // The condition as text, which is equal for equal ones: "gain < 1%".
  [[nodiscard]] std::string ToString() const;

 private:
  struct Quantity;
  static const Quantity kQuantities[];
  struct Bound {
    const Quantity* quantity = nullptr;
    double percent = 0.0;
  };
  static Bound Parse(std::string_view text);

  std::vector<Bound> bounds_;
};

}  // namespace harness
