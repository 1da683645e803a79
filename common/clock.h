// Clocks of this process.

#pragma once

#include <chrono>

namespace common {

// Seconds of a monotonic clock.
[[nodiscard]] inline double SteadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Seconds that all threads of this process have computed.
[[nodiscard]] inline double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace common
