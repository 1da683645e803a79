// The cost of a benchmark: time and memory.

#pragma once

#include <chrono>

#include <sys/resource.h>
#include <sys/time.h>

namespace benchmarks {

// Seconds since its construction: wall-clock time, and CPU time of all threads
// of the process.
class Stopwatch {
 public:
  [[nodiscard]] double wall_s() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  [[nodiscard]] double cpu_s() const { return ProcessSeconds() - cpu_start_s_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double Seconds(const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  }
  static double ProcessSeconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
  }

  Clock::time_point start_ = Clock::now();
  double cpu_start_s_ = ProcessSeconds();
};

// The peak memory of the process, including the data of the task.
inline double PeakMemoryMb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace benchmarks
