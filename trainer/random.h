// Weights as a function of their place, the same on every device.

#pragma once

#include <cstdint>

#ifndef OPPA_HOST_DEVICE
#ifdef __CUDACC__
#define OPPA_HOST_DEVICE __host__ __device__
#else
#define OPPA_HOST_DEVICE
#endif
#endif

namespace trainer {

// SplitMix64 (Steele et al., 2014): the state of the generator is a counter.
OPPA_HOST_DEVICE inline std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// The sum of four uniform 16-bit numbers with mean 0 and variance 1: near
// enough to a normal distribution for weights, and exact on every machine.
OPPA_HOST_DEVICE inline double Normal(std::uint64_t key, std::uint64_t index) {
  constexpr double kMean = 131070.0;            // 4 * 65535 / 2
  constexpr double kDeviation = 37837.2270233;  // sqrt((65536^2 - 1) / 3)
  const std::uint64_t bits = Mix(key ^ Mix(index));
  const std::uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) +
                            (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<double>(sum) - kMean) / kDeviation;
}

}  // namespace trainer
