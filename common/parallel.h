// A loop whose iterations run on several threads.

#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace common {

// Calls work(worker, i) once for each i in [0, count). A worker takes the next
// `grain` values of i whenever it is free; the calling thread is worker 0.
// Results must not depend on the worker or on the order. Starting a thread
// costs about 20 microseconds, so do not use it for less work than that.
// Errors: rethrows the first exception of `work`, once all workers have
// stopped; calls that have not begun by then are not made.
template <typename Work>
void ParallelFor(int count, int threads, const Work& work, int grain = 1) {
  const int workers = std::min(threads, (count + grain - 1) / grain);
  std::atomic<int> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;
  const auto share = [&](int worker) {
    try {
      for (int begin = next.fetch_add(grain); begin < count && !failed;
           begin = next.fetch_add(grain)) {
        for (int i = begin; i < std::min(count, begin + grain); ++i) {
          work(worker, i);
        }
      }
    } catch (...) {
      if (!failed.exchange(true)) {
        error = std::current_exception();
      }
    }
  };
  if (workers <= 1) {
    share(0);
  } else {
    std::vector<std::jthread> others;
    others.reserve(workers - 1);
    for (int worker = 1; worker < workers; ++worker) {
      others.emplace_back(share, worker);
    }
    share(0);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

// The number of cores, at least 1.
[[nodiscard]] inline int Cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace common
