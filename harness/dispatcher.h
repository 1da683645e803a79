// The interface of dispatchers, which execute runs: a local GPU type or a batch
// system.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harness {

// A command that is executed once.
struct Job {
  int id = 0;
  std::string name;                  // for display
  std::vector<std::string> command;  // program and arguments; no shell
  std::filesystem::path log;         // for its output
  // Resources of a cluster; 0 GPUs: cores only.
  int nodes = 1;
  int gpus_per_node = 0;
};

// A change in the state of a job, that is, of its process. Whether the run is
// done is in its records only.
struct JobReport {
  enum class State { kStarted, kSucceeded, kFailed };
  int id = 0;
  State state = State::kStarted;
  std::string detail;  // why it failed, one line
};

class Dispatcher {
 public:
  // Stops the jobs that run here. Jobs of a batch system continue.
  virtual ~Dispatcher() = default;

  // Accepts jobs; returns at once.
  virtual void Submit(const std::vector<Job>& jobs) = 0;

  // The changes since the last call. Waits up to `wait_s` seconds for one.
  [[nodiscard]] virtual std::vector<JobReport> Poll(double wait_s) = 0;
};

}  // namespace harness
