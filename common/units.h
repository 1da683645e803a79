// Factors of units and the two constants of floating-point numbers that every
// layer needs.

#pragma once

#include <limits>

namespace common {

inline constexpr double kMega = 1e6;
inline constexpr double kGiga = 1e9;
inline constexpr double kMebi = 1024.0 * 1024.0;
inline constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kSecondsPerMinute = 60.0;
inline constexpr double kSecondsPerHour = 3600.0;
inline constexpr double kNormal95 =
    1.959964;  // two-sided 95% of a normal distribution
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace common
