// A program with all of its descendants, of which nothing stays behind.

#ifndef TRIALS_COMMAND_CONTAINED_PROCESS_H_
#define TRIALS_COMMAND_CONTAINED_PROCESS_H_

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace trials {

// Runs a program in a session of its own, under a supervisor: a process of
// ours that adopts whatever the program leaves behind (a subreaper), and that
// ends only when no descendant is left, whichever session or process group it
// went to. The program is ended when it is asked for, when this object goes,
// and when this process dies in any way, kill -9 included: SIGTERM to its
// process group, SIGKILL to all that is left `patience_s` later. What it leaves
// behind when it ends by itself is killed at once.
//
// No shell is involved: every word arrives as it is. The program reads nothing.
//
// Errors: the constructor throws std::runtime_error when no process can be
// made. That the program cannot be executed is told by start_error().
class ContainedProcess {
 public:
  struct Spec {
    std::vector<std::string> words;        // program (looked up in PATH), ...
    std::vector<std::string> environment;  // "NAME=value", all there is
    std::filesystem::path folder;          // where it starts; empty: here
    double patience_s = 5.0;               // >= 0
  };
  enum class Stream { kOutput, kErrors };
  using Take = std::function<void(Stream, std::string_view)>;

  explicit ContainedProcess(const Spec& spec);
  // Ends it and waits until nothing is left.
  ~ContainedProcess();
  ContainedProcess(const ContainedProcess&) = delete;
  ContainedProcess& operator=(const ContainedProcess&) = delete;

  // Hands over what it has printed since the last call; waits up to `wait_s`
  // for something. False when nothing is left, neither process nor output.
  [[nodiscard]] bool Read(double wait_s, const Take& take);

  // Asks it to end; Read still has to be called until it is false.
  void End();

  // As by waitpid(2), once Read was false; nothing if nobody saw it.
  [[nodiscard]] std::optional<int> wait_status() const { return wait_status_; }
  // An errno value if the program could not be executed, else 0.
  [[nodiscard]] int start_error() const { return start_error_; }
  [[nodiscard]] pid_t supervisor() const { return supervisor_; }

 private:
  void ReadWord();
  void Reap();

  std::string mark_;  // in the environment of every descendant
  pid_t supervisor_ = -1;
  int control_ = -1;            // closed: end it
  std::array<int, 3> pipes_{};  // output, errors, words of the supervisor
  std::optional<int> wait_status_;
  int start_error_ = 0;
  bool all_gone_ = false;  // says the supervisor
};

}  // namespace trials

#endif  // TRIALS_COMMAND_CONTAINED_PROCESS_H_
