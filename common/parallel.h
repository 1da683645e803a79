// A loop shared out to threads.

#ifndef COMMON_PARALLEL_H_
#define COMMON_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace common {

// Calls work(worker, i) once for each i in [0, count). A worker takes the next
// `grain` values of i whenever it is free; the calling thread is worker 0.
// `work` must not throw, and results must not depend on the worker or on the
// order. Starting a thread costs some 20 microseconds: not for less than that.
template <typename Work>
void ParallelFor(int count, int threads, const Work& work, int grain = 1) {
  const int workers = std::min(threads, (count + grain - 1) / grain);
  std::atomic<int> next = 0;
  const auto share = [&](int worker) {
    for (int begin = next.fetch_add(grain); begin < count;
         begin = next.fetch_add(grain)) {
      for (int i = begin; i < std::min(count, begin + grain); ++i) {
        work(worker, i);
      }
    }
  };
  if (workers <= 1) {
    share(0);
    return;
  }
  std::vector<std::jthread> others;
  others.reserve(static_cast<std::size_t>(workers - 1));
  for (int worker = 1; worker < workers; ++worker) {
    others.emplace_back(share, worker);
  }
  share(0);
}

}  // namespace common

#endif  // COMMON_PARALLEL_H_
