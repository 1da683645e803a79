// A program that leaves no processes behind.

#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "trials/containment/leftovers.h"

namespace trials {

// Runs a program in its own session, under a supervisor: a process of oppa that
// adopts the descendants of the program (a subreaper) and ends only when none
// is left in any session or process group. The supervisor ends the program on
// End(), when this object is destroyed, and when this process ends in any way,
// including kill -9: SIGTERM to the process group, SIGKILL to all descendants
// `patience_s` later. When the program ends by itself, its descendants are
// killed at once. A stopped supervisor is continued. If the supervisor is
// killed, what it watched is found by a ProcessRecord; if this process is
// killed at the same time, EndLeftovers (leftovers.h) does that later.
//
// No shell is involved: every word is passed unchanged. The program reads
// /dev/null.
//
// Errors: the constructor throws std::runtime_error if no process can be
// created. If the program cannot be executed, start_error() has the reason.
class ContainedProcess {
 public:
  struct Spec {
    std::vector<std::string> words;        // program (looked up in PATH), ...
    std::vector<std::string> environment;  // "NAME=value", all there is
    std::filesystem::path folder;          // where it starts; empty: here
    double patience_s = 5.0;               // >= 0
    std::filesystem::path record;          // for EndLeftovers; empty: none
  };
  enum class Stream { kOutput, kErrors };
  using Take = std::function<void(Stream, std::string_view)>;

  explicit ContainedProcess(const Spec& spec);
  // Ends the program and waits until no process is left.
  ~ContainedProcess();
  ContainedProcess(const ContainedProcess&) = delete;
  ContainedProcess& operator=(const ContainedProcess&) = delete;

  // Passes on the output since the last call; waits up to `wait_s`, from 0 to
  // 3600, for some.
  // Returns false when neither a process nor output is left.
  [[nodiscard]] bool Read(double wait_s, const Take& take);

  // Requests the end of the program. Call Read until it returns false.
  void End();

  // As by waitpid(2), after Read has returned false; nothing if unknown.
  [[nodiscard]] std::optional<int> wait_status() const { return wait_status_; }
  // An errno value if the program could not be executed, else 0.
  [[nodiscard]] int start_error() const { return start_error_; }
  // -1 after Read has returned false.
  [[nodiscard]] pid_t supervisor() const { return supervisor_; }

 private:
  void ReadWord();
  void WatchSupervisor();
  void Reap();

  ProcessRecord record_;
  double patience_s_;
  double next_track_s_ = 0.0;
  double track_interval_s_;
  // When a supervisor that does not end by itself is killed.
  double kill_supervisor_s_ = std::numeric_limits<double>::infinity();
  pid_t supervisor_ = -1;
  int control_ = -1;            // closed: end it
  std::array<int, 3> pipes_{};  // output, errors, words of the supervisor
  std::optional<int> wait_status_;
  int start_error_ = 0;
  bool all_gone_ = false;  // according to the supervisor
};

}  // namespace trials
