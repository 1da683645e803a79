// The interface of whatever executes runs: a local pool, a batch system.

#ifndef HARNESS_DISPATCHER_H_
#define HARNESS_DISPATCHER_H_

#include <filesystem>
#include <string>
#include <vector>

namespace harness {

// A command to execute, once.
struct Job {
  int id = 0;
  std::string name;                  // for people
  std::vector<std::string> command;  // program and arguments; no shell
  std::filesystem::path log;         // its output goes here, if it can
  // What it needs of a cluster; 0 GPUs: cores only.
  int nodes = 1;
  int gpus_per_node = 0;
};

// A change in a job's state. It says what became of the process; whether the
// run is done is for its records to say.
struct JobReport {
  enum class State { kStarted, kSucceeded, kFailed };
  int id = 0;
  State state = State::kStarted;
  std::string detail;  // why it failed, one line
};

class Dispatcher {
 public:
  // Stops what still runs here; what was given to a batch system goes on.
  virtual ~Dispatcher() = default;

  // Takes jobs over; returns at once.
  virtual void Submit(const std::vector<Job>& jobs) = 0;

  // What has changed since the last call. Waits up to `wait_s` seconds for
  // something to change.
  [[nodiscard]] virtual std::vector<JobReport> Poll(double wait_s) = 0;
};

}  // namespace harness

#endif  // HARNESS_DISPATCHER_H_
