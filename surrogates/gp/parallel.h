// A loop shared out to threads.

#ifndef SURROGATES_GP_PARALLEL_H_
#define SURROGATES_GP_PARALLEL_H_

#include <algorithm>
#include <thread>
#include <vector>

namespace surrogates {

// Calls work(worker, i) once for each i in [0, count), worker w of `threads`
// taking i = w, w + threads, ... The calling thread is worker 0. `work` must
// not throw, and results must not depend on the worker.
template <typename Work>
void ParallelFor(int count, int threads, const Work& work) {
  const int workers = std::min(threads, count);
  const auto share = [&](int worker) {
    for (int i = worker; i < count; i += workers) {
      work(worker, i);
    }
  };
  std::vector<std::jthread> others;
  for (int worker = 1; worker < workers; ++worker) {
    others.emplace_back(share, worker);
  }
  if (workers > 0) {
    share(0);
  }
}

}  // namespace surrogates

#endif  // SURROGATES_GP_PARALLEL_H_
