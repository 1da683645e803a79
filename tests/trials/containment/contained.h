// Programs of a test that are contained, and what is alive of them.

#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <unistd.h>

#include "common/files.h"
#include "trials/containment/contained_process.h"

namespace trials {

using Stream = ContainedProcess::Stream;

// A word that the command lines of a test's processes have in common.
inline std::string Mark() {
  static int count = 0;
  return "oppa-contained-" + std::to_string(::getpid()) + "-" +
         std::to_string(++count);
}

// How many processes have it.
inline int Alive(const std::string& mark) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string line = common::ReadProcFile(entry.path() / "cmdline");
    count += line.find(mark) != std::string::npos ? 1 : 0;
  }
  return count;
}

// How many have it in the end: a process that starts a program is two for a
// moment.
inline int AliveInTheEnd(const std::string& mark, int expected) {
  int alive = Alive(mark);
  for (int wait = 0; wait < 200 && alive != expected; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    alive = Alive(mark);
  }
  return alive;
}

inline ContainedProcess::Spec Shell(const std::string& script,
                                    const std::string& mark = "") {
  ContainedProcess::Spec spec;
  spec.words = {"/bin/sh", "-c", script, "sh", mark};
  spec.environment = {"PATH=/usr/bin:/bin", "MARK=" + mark};
  spec.patience_s = 0.3;
  return spec;
}

// Reads until nothing is left.
inline std::string Drain(ContainedProcess& process) {
  std::string output;
  while (process.Read(0.1, [&](Stream stream, std::string_view text) {
    output += stream == Stream::kOutput ? "" : "! ";
    output += text;
  })) {
  }
  return output;
}

// Waits until the program has said that it is there.
inline void WaitForOutput(ContainedProcess& process) {
  bool said = false;
  while (!said &&
         process.Read(0.1, [&](Stream, std::string_view) { said = true; })) {
  }
}

// A process that outlives its parent, its session and its process group, and
// ignores what it can.
inline const std::string kStray =
    "(trap '' TERM HUP INT; exec setsid -f sh -c "
    "'trap \"\" TERM HUP INT; while :; do sleep 0.05; done' \"$1\")";

inline constexpr const char* kClearedStray =
    "env -i setsid -f /bin/sh -c 'while :; do /bin/sleep 0.05; done' \"$1\"";

// Starts a program with the record and returns after `up` exists; the process
// that holds it is returned, and its supervisor is in `supervisor`.
inline pid_t StartRunner(ContainedProcess::Spec spec,
                         const std::filesystem::path& up,
                         const std::filesystem::path& supervisor) {
  const pid_t runner = ::fork();
  if (runner == 0) {
    ContainedProcess process(spec);
    std::ofstream(supervisor) << process.supervisor() << std::endl;
    (void)Drain(process);
    ::_exit(0);
  }
  while (!std::filesystem::exists(up) ||
         std::filesystem::is_empty(supervisor)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return runner;
}

}  // namespace trials
