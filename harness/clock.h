// Runs the trials of a search, and says which of them ends next.

#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "trials/measurement.h"
#include "trials/trial_runner.h"

namespace harness {

// The trials of a search that are in flight. A trial is known by its place
// among the suggestions.
class Clock {
 public:
  // `runner` runs the trials and must outlive the object.
  explicit Clock(trials::TrialRunner& runner) : runner_(runner) {}
  virtual ~Clock() = default;

  // Begins a trial at this time of the search.
  virtual void Begin(int place, double start_s,
                     trials::TrialRequest request) = 0;

  // Waits for the next trial that ends. Precondition: one is in flight.
  // Errors: throws as TrialRunner::Run; Begin may do so instead.
  [[nodiscard]] virtual std::pair<int, trials::Measurement> EndNext() = 0;

  // When a trial begins that was suggested at one time of a search that was
  // interrupted then, and is `now_s` old when it resumes.
  [[nodiscard]] virtual double StartOf(double /*suggested_s*/,
                                       double now_s) const {
    return now_s;
  }

  [[nodiscard]] const trials::TrialRunner& runner() const { return runner_; }

 protected:
  trials::TrialRunner& runner_;
};

// Trials take the time that they report, whenever they run: each runs when it
// begins. The first to end is the one with the least end time, of equals the
// one that began first. With one trial in flight, this is a real clock, too.
class VirtualClock final : public Clock {
 public:
  using Clock::Clock;

  void Begin(int place, double start_s, trials::TrialRequest request) override;
  [[nodiscard]] std::pair<int, trials::Measurement> EndNext() override;
  [[nodiscard]] double StartOf(double suggested_s,
                               double /*now_s*/) const override {
    return suggested_s;
  }

 private:
  // By end time; of equals, in the order in which they began.
  std::multimap<double, std::pair<int, trials::Measurement>> ended_;
};

// Runs each trial in a thread of its own; other threads may call Run of the
// runner at once. The destructor interrupts the trials that still run
// (TrialRequest::interrupted) and waits for their ends.
class RealClock final : public Clock {
 public:
  using Clock::Clock;
  ~RealClock() override { interrupted_ = true; }

  void Begin(int place, double start_s, trials::TrialRequest request) override;
  [[nodiscard]] std::pair<int, trials::Measurement> EndNext() override;

 private:
  using Result = std::future<trials::Measurement>;

  std::atomic<bool> interrupted_ = false;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  std::deque<std::pair<int, Result>> ended_;
  std::map<int, std::jthread> threads_;  // the first to be destroyed
};

[[nodiscard]] inline std::unique_ptr<Clock> MakeRealClock(
    trials::TrialRunner& runner) {
  return std::make_unique<RealClock>(runner);
}

}  // namespace harness
