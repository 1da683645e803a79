// A number of a profile.

#ifndef METHODS_PLANNERS_OPERATORS_NUMBER_OR_NAN_H_
#define METHODS_PLANNERS_OPERATORS_NUMBER_OR_NAN_H_

#include <cmath>
#include <stdexcept>
#include <string_view>

#include "common/text.h"

namespace methods {

// The number, or NaN for other text.
[[nodiscard]] inline double NumberOrNan(std::string_view text) {
  try {
    return common::ParseDouble(text);
  } catch (const std::invalid_argument&) {
    return std::nan("");
  }
}

}  // namespace methods

#endif  // METHODS_PLANNERS_OPERATORS_NUMBER_OR_NAN_H_
