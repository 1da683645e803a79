#include "trials/containment/contained_process.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/process.h"
#include "common/text.h"
#include "trials/containment/supervisor.h"

namespace trials {
namespace {

constexpr std::size_t kOutput = 0;
constexpr std::size_t kErrors = 1;
constexpr std::size_t kWords = 2;

constexpr double kFirstTrackSeconds = 0.02;
constexpr double kMostTrackSeconds = 2.0;
// For a supervisor to end everything, after the patience.
constexpr double kSupervisorSeconds = 40.0;

void Close(int& fd) {
  if (fd >= 0) {
    ::close(fd);
    fd = -1;
  }
}

std::array<int, 2> MakePipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error(
        fmt::format("cannot make a pipe for a trial: {}", strerror(errno)));
  }
  return ends;
}

// The candidate files of a program, searched as execvp(3) does.
std::vector<std::string> Candidates(const ContainedProcess::Spec& spec) {
  const std::string& program = spec.words.front();
  if (program.find('/') != std::string::npos) {
    return {program};
  }
  constexpr std::string_view kPath = "PATH=";
  std::string_view path = "/bin:/usr/bin";
  for (const std::string& variable : spec.environment) {
    if (variable.starts_with(kPath)) {
      path = std::string_view(variable).substr(kPath.size());
      break;
    }
  }
  std::vector<std::string> candidates;
  for (const std::string_view folder : common::Split(path, ':')) {
    candidates.push_back(
        fmt::format("{}/{}", folder.empty() ? "." : folder, program));
  }
  return candidates;
}

}  // namespace

ContainedProcess::ContainedProcess(const Spec& spec)
    : record_(spec.record),
      patience_s_(spec.patience_s),
      track_interval_s_(kFirstTrackSeconds) {
  std::array<int, 2> control = MakePipe();
  std::array<std::array<int, 2>, 3> pipes{};
  for (auto& ends : pipes) {
    ends = MakePipe();
  }
  std::vector<std::string> words = spec.words;
  std::vector<std::string> environment = spec.environment;
  environment.push_back(record_.mark());
  std::vector<std::string> candidates = Candidates(spec);
  const std::vector<char*> candidate_pointers = common::Argv(candidates);
  const std::vector<char*> word_pointers = common::Argv(words);
  const std::vector<char*> environment_pointers = common::Argv(environment);
  const SupervisorTask task{
      .programs = candidate_pointers.data(),
      .words = word_pointers.data(),
      .environment = environment_pointers.data(),
      .folder = spec.folder.empty() ? nullptr : spec.folder.c_str(),
      .patience_s = spec.patience_s,
      .control = control[0],
      .output = pipes[kOutput][1],
      .errors = pipes[kErrors][1],
      .say = pipes[kWords][1]};
  supervisor_ = ::fork();
  if (supervisor_ == 0) {
    Supervise(task);
  }
  const int error = errno;
  Close(control[0]);
  control_ = control[1];
  for (std::size_t i = 0; i < pipes.size(); ++i) {
    Close(pipes[i][1]);
    pipes_[i] = pipes[i][0];
  }
  if (supervisor_ < 0) {
    Close(control_);
    std::for_each(pipes_.begin(), pipes_.end(), Close);
    record_.Remove();
    throw std::runtime_error(fmt::format("cannot start {}: {}",
                                         spec.words.front(), strerror(error)));
  }
}

ContainedProcess::~ContainedProcess() {
  try {
    End();
    while (Read(1.0, [](Stream, std::string_view) {})) {
    }
    Reap();
  } catch (const std::exception&) {
    // Out of memory: the supervisor ends the program by itself.
  }
}

void ContainedProcess::End() {
  Close(control_);
  kill_supervisor_s_ =
      std::min(kill_supervisor_s_,
               common::SteadySeconds() + patience_s_ + kSupervisorSeconds);
}

void ContainedProcess::WatchSupervisor() {
  ::kill(supervisor_, SIGCONT);  // without effect unless it was stopped
  const double now_s = common::SteadySeconds();
  if (now_s > kill_supervisor_s_) {
    ::kill(supervisor_, SIGKILL);
  }
  if (now_s >= next_track_s_) {
    record_.Track(supervisor_);
    next_track_s_ = now_s + track_interval_s_;
    track_interval_s_ = std::min(2.0 * track_interval_s_, kMostTrackSeconds);
  }
}

bool ContainedProcess::Read(double wait_s, const Take& take) {
  std::array<pollfd, 3> waiting{};
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    waiting[i] = {pipes_[i], POLLIN, 0};
  }
  // The supervisor's word comes last: after it no output is waited for that
  // a process beyond reach might keep open.
  if (pipes_[kWords] < 0) {
    Reap();
    return false;
  }
  WatchSupervisor();
  ::poll(waiting.data(), waiting.size(), static_cast<int>(wait_s * 1e3));
  std::array<char, 65536> buffer{};
  for (const std::size_t i : {kOutput, kErrors}) {
    if (waiting[i].revents == 0) {
      continue;
    }
    const ssize_t got = ::read(pipes_[i], buffer.data(), buffer.size());
    if (got > 0) {
      take(i == kOutput ? Stream::kOutput : Stream::kErrors,
           {buffer.data(), static_cast<std::size_t>(got)});
    } else {  // its end: what does not block is not interrupted
      Close(pipes_[i]);
    }
  }
  const bool quiet =
      waiting[kOutput].revents == 0 && waiting[kErrors].revents == 0;
  if (waiting[kWords].revents != 0 && quiet) {
    ReadWord();
  }
  return true;
}

void ContainedProcess::ReadWord() {
  SupervisorWord word;
  const ssize_t got = ::read(pipes_[kWords], &word, sizeof word);
  if (got != static_cast<ssize_t>(sizeof word)) {
    Close(pipes_[kWords]);
    return;
  }
  switch (word.kind) {
    case SupervisorWord::Kind::kStartError:
      start_error_ = word.value;
      break;
    case SupervisorWord::Kind::kEnded:
      wait_status_ = word.value;
      break;
    case SupervisorWord::Kind::kAllGone:
      all_gone_ = word.value != 0;
      break;
  }
}

void ContainedProcess::Reap() {
  if (supervisor_ > 0) {
    (void)TEMP_FAILURE_RETRY(::waitpid(supervisor_, nullptr, 0));
    supervisor_ = -1;
    if (!all_gone_) {
      record_.Kill();
    }
    record_.Remove();
  }
  Close(control_);
  std::for_each(pipes_.begin(), pipes_.end(), Close);
}

}  // namespace trials
