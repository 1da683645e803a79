#include "trials/containment/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <limits>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trials {
namespace {

// System calls only; see SupervisorTask.

constexpr double kGiveUpSeconds = 30.0;  // on processes that do not die
constexpr int kLookMilliseconds = 5;

double Now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

void Say(int fd, SupervisorWord::Kind kind, int value) {
  const SupervisorWord word{kind, value};
  (void)TEMP_FAILURE_RETRY(::write(fd, &word, sizeof word));
}

// close_range(2), also on Linux before 5.11, which lacks it or its flag.
void CloseRange(int first, int last, unsigned int flags) {
  if (::syscall(SYS_close_range, first, last, flags) == 0) {
    return;
  }
  constexpr long kMost = 65536;  // where the limit is none
  const long end =
      std::min<long>(last, std::min(::sysconf(_SC_OPEN_MAX), kMost));
  for (int fd = first; fd <= end; ++fd) {
    flags == 0 ? ::close(fd) : ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

// Closes every descriptor from 3 on except these, so that no pipe of another
// trial, and no record, is held open by a process that outlives us.
void CloseOthers(std::array<int, 3> kept) {
  std::ranges::sort(kept);
  int first = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd >= first) {
      CloseRange(first, fd - 1, 0);  // none if that is empty
      first = fd + 1;
    }
  }
  CloseRange(first, std::numeric_limits<int>::max(), 0);
}

[[noreturn]] void Execute(const SupervisorTask& task) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal = 1; signal < NSIG; ++signal) {
    ::signal(signal, SIG_DFL);
  }
  ::sigprocmask(SIG_SETMASK, &signals, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(task.output, STDOUT_FILENO);
  ::dup2(task.errors, STDERR_FILENO);
  constexpr unsigned int kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC
  CloseRange(STDERR_FILENO + 1, std::numeric_limits<int>::max(), kCloseOnExec);
  int error = 0;
  if (task.folder != nullptr && ::chdir(task.folder) != 0) {
    error = errno;
  } else {
    // Not execvp, which starts a shell for a file in an unknown format. The
    // other descriptors close on exec.
    error = ENOENT;
    bool denied = false;
    for (char* const* program = task.programs;
         *program != nullptr && error == ENOENT; ++program) {
      ::execve(*program, task.words, task.environment);
      denied = denied || errno == EACCES;
      error = errno == EACCES || errno == ENOTDIR ? ENOENT : errno;
    }
    error = error == ENOENT && denied ? EACCES : error;
  }
  Say(task.say, SupervisorWord::Kind::kStartError, error);
  ::_exit(127);
}

// SIGKILL to every child of this process. Grandchildren become children when
// their parents have exited. False if the system does not list children.
bool KillChildren() {
  const int fd = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return false;
  }
  std::array<char, 4096> text{};
  pid_t pid = 0;
  for (ssize_t got = 0; (got = ::read(fd, text.data(), text.size())) > 0;) {
    for (ssize_t i = 0; i < got; ++i) {
      const char c = text[i];
      if (c >= '0' && c <= '9') {
        pid = 10 * pid + (c - '0');
      } else if (pid > 0) {
        ::kill(pid, SIGKILL);
        pid = 0;
      }
    }
  }
  ::close(fd);
  return true;
}

class Supervisor {
 public:
  Supervisor(const SupervisorTask& task, pid_t program, int signals)
      : task_(task), program_(program), signals_(signals) {}

  [[noreturn]] void Run() {
    Watch();
    const bool all_gone = KillAll();
    Say(task_.say, SupervisorWord::Kind::kEnded, status_);
    Say(task_.say, SupervisorWord::Kind::kAllGone, all_gone ? 1 : 0);
    ::_exit(0);
  }

 private:
  // Until the program has ended, or had its time to do so.
  void Watch() {
    double give_up_s = 0.0;
    while (!ended_) {
      std::array<pollfd, 2> waiting{
          {{give_up_s > 0.0 ? -1 : task_.control, POLLIN, 0},
           {signals_, POLLIN, 0}}};
      ::poll(waiting.data(), waiting.size(), give_up_s > 0.0 ? 20 : -1);
      if (waiting[0].revents != 0) {
        ::kill(-program_, SIGTERM);
        ::kill(-program_, SIGCONT);  // so that a stopped program receives it
        give_up_s = Now() + task_.patience_s;
      }
      Reap();
      if (give_up_s > 0.0 && Now() >= give_up_s) {
        return;
      }
    }
  }

  // True when this process has no child any more.
  bool Reap() {
    signalfd_siginfo ignored{};
    while (::read(signals_, &ignored, sizeof ignored) > 0) {
    }
    int status = 0;
    pid_t pid = 0;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == program_) {
        ended_ = true;
        status_ = status;
      }
    }
    return pid < 0 && errno == ECHILD;
  }

  bool KillAll() {
    const double give_up_s = Now() + kGiveUpSeconds;
    while (!Reap()) {
      const bool listed = KillChildren();
      if (!ended_) {
        ::kill(-program_, SIGKILL);
      } else if (!listed) {
        return false;
      }
      if (Now() >= give_up_s) {
        return false;
      }
      pollfd waiting{signals_, POLLIN, 0};
      ::poll(&waiting, 1, kLookMilliseconds);
    }
    return true;
  }

  const SupervisorTask& task_;
  pid_t program_;
  int signals_;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace

void Supervise(const SupervisorTask& task) {
  ::setsid();  // signals to the parent's group must not end it
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // So that it does not stay stopped when the parent has ended.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  ::prctl(PR_SET_NAME, "oppa-trial");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT}) {
    ::signal(signal, SIG_IGN);
  }
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  const pid_t program = ::fork();
  if (program == 0) {
    Execute(task);
  }
  if (program < 0) {
    Say(task.say, SupervisorWord::Kind::kStartError, errno);
    ::_exit(1);
  }
  const int signals = ::signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing, standard);
  }
  CloseOthers({task.control, task.say, signals});
  Supervisor(task, program, signals).Run();
}

}  // namespace trials
