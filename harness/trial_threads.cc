#include "harness/trial_threads.h"

namespace harness {

void TrialThreads::Begin(int id, trials::TrialRequest request) {
  request.interrupted = [this, others = std::move(request.interrupted)] {
    return interrupted_ || (others && others());
  };
  threads_[id] = std::jthread([this, id, request = std::move(request)] {
    std::packaged_task<trials::Measurement()> run(
        [&] { return runner_.Run(request); });
    run();
    const std::lock_guard lock(mutex_);
    ended_.emplace_back(id, run.get_future());
    changed_.notify_one();
  });
}

std::pair<int, trials::Measurement> TrialThreads::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ended_.empty(); });
  auto [id, result] = std::move(ended_.front());
  ended_.pop_front();
  lock.unlock();
  threads_.erase(id);
  return {id, result.get()};
}

}  // namespace harness
