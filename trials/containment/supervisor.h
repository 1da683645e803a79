// The supervisor of a contained process.

#pragma once

namespace trials {

// A message of the supervisor. Messages are written to a pipe in sequence.
struct SupervisorWord {
  enum class Kind : int {
    kStartError,  // value: errno
    kEnded,       // value: as by waitpid(2)
    kAllGone,     // value: 1 if no descendant is left, 0 if some cannot be
                  // killed or found
  };
  Kind kind = Kind::kEnded;
  int value = 0;
};

// The input of the supervisor. Everything is allocated before the fork, because
// only system calls are safe between fork and exec of a process that has
// threads.
struct SupervisorTask {
  char* const* programs = nullptr;     // paths to try; null-terminated
  char* const* words = nullptr;        // null-terminated
  char* const* environment = nullptr;  // null-terminated
  const char* folder = nullptr;        // null: stay
  double patience_s = 0.0;
  int control = -1;  // reads; its end means: end the program
  int output = -1;   // the program's
  int errors = -1;
  int say = -1;  // SupervisorWord
};

// Runs the supervisor in the calling (forked) process and then ends that
// process.
[[noreturn]] void Supervise(const SupervisorTask& task);

}  // namespace trials
