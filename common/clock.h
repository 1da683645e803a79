// Clocks of this process.

#ifndef COMMON_CLOCK_H_
#define COMMON_CLOCK_H_

namespace common {

// Seconds of a monotonic clock.
[[nodiscard]] double SteadySeconds();

// Seconds that all threads of this process have computed.
[[nodiscard]] double CpuSeconds();

}  // namespace common

#endif  // COMMON_CLOCK_H_
