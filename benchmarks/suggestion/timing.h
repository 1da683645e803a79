// How long a suggestion takes, as lines for benchmarks/suggestion.py.

#ifndef BENCHMARKS_SUGGESTION_TIMING_H_
#define BENCHMARKS_SUGGESTION_TIMING_H_

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <sys/resource.h>
#include <sys/time.h>

namespace benchmarks {

// What is timed: `--case NAME --n 50 --candidates 100000 --threads 2
// --repeats 5`.
struct Arguments {
  std::string name;
  std::string folder;  // for what peers read
  int n = 50;
  int candidates = 100'000;
  int threads = 2;
  int repeats = 5;

  Arguments(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string key = argv[i];
      const std::string value = argv[i + 1];
      if (key == "--case") {
        name = value;
      } else if (key == "--folder") {
        folder = value;
      } else {
        Number(key) = std::stoi(value);
      }
    }
  }

 private:
  int& Number(const std::string& key) {
    if (key == "--n") {
      return n;
    }
    if (key == "--candidates") {
      return candidates;
    }
    if (key == "--threads") {
      return threads;
    }
    if (key == "--repeats") {
      return repeats;
    }
    throw std::invalid_argument("unknown argument " + key);
  }
};

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

#endif  // BENCHMARKS_SUGGESTION_TIMING_H_
