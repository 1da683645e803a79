// Clocks of this process.

#ifndef HARNESS_CLOCK_H_
#define HARNESS_CLOCK_H_

namespace harness {

// Seconds of a clock that nobody sets.
[[nodiscard]] double SteadySeconds();

// Seconds that all threads of this process have computed.
[[nodiscard]] double CpuSeconds();

}  // namespace harness

#endif  // HARNESS_CLOCK_H_
