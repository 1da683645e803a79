// The error for bad input.

#pragma once

#include <stdexcept>

namespace common {

// Input that cannot be used. The message names the place (file:line:column
// where there is one), the value, the rule and the remedy; `main` prints it
// as it is and exits with 2.
class InputError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

}  // namespace common
