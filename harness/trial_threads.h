// Trials that run at once on a real clock.

#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "trials/measurement.h"
#include "trials/trial_runner.h"

namespace harness {

// Runs each trial in a thread of its own. The destructor interrupts the trials
// that still run (TrialRequest::interrupted) and waits for their ends.
class TrialThreads {
 public:
  // `runner` must outlive the object, and other threads may call its Run at
  // once.
  explicit TrialThreads(trials::TrialRunner& runner) : runner_(runner) {}
  ~TrialThreads() { interrupted_ = true; }
  TrialThreads(const TrialThreads&) = delete;
  TrialThreads& operator=(const TrialThreads&) = delete;

  // `id`: of the trial, not that of one that runs.
  void Begin(int id, trials::TrialRequest request);

  // Waits for the next trial that ends. Precondition: one runs.
  // Errors: throws what its Run has thrown.
  [[nodiscard]] std::pair<int, trials::Measurement> Next();

 private:
  using Result = std::future<trials::Measurement>;

  trials::TrialRunner& runner_;
  std::atomic<bool> interrupted_ = false;
  std::mutex mutex_;  // of ended_
  std::condition_variable changed_;
  std::deque<std::pair<int, Result>> ended_;
  std::map<int, std::jthread> threads_;  // the first to be destroyed
};

}  // namespace harness
