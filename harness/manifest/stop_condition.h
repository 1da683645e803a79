// The condition under which a run ends before its budget is spent.

#pragma once

#include <string>
#include <string_view>

#include "trials/remaining.h"

namespace harness {

// A bound on one quantity of trials::Remaining, e.g. "gain < 1%" or
// "p_within_5 > 95%".
class StopCondition {
 public:
  // Parses QUANTITY OPERATOR NUMBER%, with optional spaces in between. A gain
  // takes <, a probability takes >; the number is above 0 and below 100, and
  // for a probability below methods::HighestProbability(). Errors: throws
  // InputError with the value, the rule and the remedy.
  explicit StopCondition(std::string_view text);

  [[nodiscard]] bool IsMet(const trials::Remaining& remaining) const;

  // The condition as text, which is equal for equal ones: "gain < 1%".
  [[nodiscard]] std::string ToString() const;

 private:
  struct Quantity;
  static const Quantity kQuantities[];
  const Quantity* quantity_ = nullptr;
  double percent_ = 0.0;
};

}  // namespace harness
