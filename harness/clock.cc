#include "harness/clock.h"

namespace harness {

void VirtualClock::Begin(int place, double start_s,
                         trials::TrialRequest request) {
  trials::Measurement measurement = runner_.Run(request);
  const double end_s = start_s + measurement.duration_s;
  ended_.emplace(end_s, std::pair(place, std::move(measurement)));
}

std::pair<int, trials::Measurement> VirtualClock::EndNext() {
  return std::move(ended_.extract(ended_.begin()).mapped());
}

void RealClock::Begin(int place, double /*start_s*/,
                      trials::TrialRequest request) {
  request.interrupted = [this, others = std::move(request.interrupted)] {
    return interrupted_ || (others && others());
  };
  threads_[place] = std::jthread([this, place, request = std::move(request)] {
    std::packaged_task<trials::Measurement()> run(
        [&] { return runner_.Run(request); });
    run();
    const std::lock_guard lock(mutex_);
    ended_.emplace_back(place, run.get_future());
    changed_.notify_one();
  });
}

std::pair<int, trials::Measurement> RealClock::EndNext() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ended_.empty(); });
  auto [place, result] = std::move(ended_.front());
  ended_.pop_front();
  lock.unlock();
  threads_.erase(place);
  return {place, result.get()};
}

}  // namespace harness
