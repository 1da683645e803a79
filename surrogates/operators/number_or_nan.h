// A number of a profile.

#ifndef SURROGATES_OPERATORS_NUMBER_OR_NAN_H_
#define SURROGATES_OPERATORS_NUMBER_OR_NAN_H_

#include <cmath>
#include <stdexcept>
#include <string_view>

#include "common/text.h"

namespace surrogates {

// The number, or NaN for other text.
[[nodiscard]] inline double NumberOrNan(std::string_view text) {
  try {
    return common::ParseDouble(text);
  } catch (const std::invalid_argument&) {
    return std::nan("");
  }
}

}  // namespace surrogates

#endif  // SURROGATES_OPERATORS_NUMBER_OR_NAN_H_
