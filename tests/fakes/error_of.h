// The message of an error.

#pragma once

#include <stdexcept>
#include <string>

namespace fakes {

// The message of the error of invalid input that a call throws (InputError is
// one); "no error" without one.
template <typename Call>
[[nodiscard]] std::string ErrorOf(const Call& call) {
  try {
    (void)call();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace fakes
