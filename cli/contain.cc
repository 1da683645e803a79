#include "cli/contain.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process.h"
#include "harness/stop.h"
#include "trials/programs/contained_process.h"

namespace cli {
namespace {

using trials::ContainedProcess;

constexpr double kLookSeconds = 0.1;

void Write(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return;  // there is no reader
    }
  }
}

}  // namespace

int Contain(const std::vector<std::string>& words) {
  harness::CatchStopSignals();
  ContainedProcess::Spec spec;
  spec.words = words;
  spec.environment = common::CurrentEnvironment();
  ContainedProcess process(spec);
  const auto take = [](ContainedProcess::Stream stream, std::string_view text) {
    Write(stream == ContainedProcess::Stream::kOutput ? STDOUT_FILENO
                                                      : STDERR_FILENO,
          text);
  };
  while (process.Read(kLookSeconds, take)) {
    if (harness::StopSignal() != 0) {
      process.End();
    }
  }
  if (process.start_error() != 0) {
    throw std::runtime_error(fmt::format("cannot start {}: {}", words.front(),
                                         strerror(process.start_error())));
  }
  const int status = process.wait_status().value_or(SIGKILL);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace cli
