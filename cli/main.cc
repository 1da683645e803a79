// The program: executes the command line and reports errors.

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "common/error.h"
#include "common/output.h"
#include "common/text.h"

namespace {

// Allocates nothing.
int FailWithoutMemory() {
  constexpr std::string_view kLine = "oppa: out of memory\n";
  (void)!::write(STDERR_FILENO, kLine.data(), kLine.size());
  return 1;
}

int Fail(const char* message, int code) {
  try {
    (void)std::fprintf(stderr, "oppa: %s\n",
                       common::Shortened(message).c_str());
    return code;
  } catch (const std::bad_alloc&) {
    return FailWithoutMemory();
  }
}

std::atomic<bool> has_run_out_of_memory = false;

[[noreturn]] void FailToAllocate() {
  has_run_out_of_memory = true;
  throw std::bad_alloc();
}

// The last resort of an allocation that fails where no exception can be thrown,
// such as in destructors of the JSON library, in threads and before main.
[[noreturn]] void Terminate() {
  if (has_run_out_of_memory) {
    ::_exit(FailWithoutMemory());
  }
  try {
    if (std::current_exception()) {
      throw;
    }
  } catch (const std::exception& e) {
    (void)std::fprintf(stderr, "oppa: %s\n", e.what());
  } catch (...) {
    (void)std::fputs("oppa: unknown exception\n", stderr);
  }
  std::abort();
}

// Runs before the constructors of this program and of its libraries.
void PrepareFailures(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  std::set_new_handler(FailToAllocate);
  std::set_terminate(Terminate);
}
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kFirst)(int, char**, char**) = PrepareFailures;

// Repairs the state that a parent may leave: closed standard descriptors, which
// files of this process would take, and an ignored SIGCHLD, with which children
// cannot be waited for. To a closed standard output nothing can be written, so
// that output that nobody gets is an error.
void PrepareProcess() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", ::fcntl(0, F_GETFD) >= 0 && ::fcntl(1, F_GETFD) < 0
                                 ? O_RDONLY
                                 : O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  ::close(fd);
  (void)std::signal(SIGCHLD, SIG_DFL);
  common::FilterOutput();
}

}  // namespace

int main(int argc, char** argv) {
  PrepareProcess();
  try {
    const int code = cli::Execute({argv, argv + argc});
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::system_error(errno, std::generic_category(),
                              "cannot write the output");
    }
    return code;
  } catch (const std::bad_alloc&) {
    return FailWithoutMemory();
  } catch (const common::InputError& e) {
    return Fail(e.what(), 2);
  } catch (const std::exception& e) {
    return Fail(e.what(), 1);
  }
}
