// What a benchmark costs: time and memory.

#ifndef BENCHMARKS_STOPWATCH_H_
#define BENCHMARKS_STOPWATCH_H_

#include <chrono>

#include <sys/resource.h>
#include <sys/time.h>

namespace benchmarks {

// Seconds since it was made, of the clock and of all threads of the process.
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

// The most memory that the process has held, data of the task included.
inline double PeakMemoryMb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace benchmarks

#endif  // BENCHMARKS_STOPWATCH_H_
