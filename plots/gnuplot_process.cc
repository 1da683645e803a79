#include "plots/gnuplot_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/parallel.h"
#include "common/process.h"

namespace plots {
namespace {

constexpr std::string_view kRemedy =
    "install it (Debian, Ubuntu: apt-get install gnuplot-nox), then run the "
    "report again; the scripts (*.gp) and their data are written";

// The first line of gnuplot's output that says something: it repeats the
// command, marks the place with a caret, and then names file and line.
std::string FirstError(const std::string& output) {
  const std::size_t at = output.find(" line ");
  if (at == std::string::npos) {
    return output.substr(0, output.find('\n'));
  }
  const std::size_t newline = output.rfind('\n', at);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return output.substr(begin, output.find('\n', at) - begin);
}

std::string RunOne(const GnuplotJob& job, const std::string& program) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), job.scripts.begin(), job.scripts.end());
  const common::CommandResult result =
      common::RunCommand(words, common::CurrentEnvironment(), job.folder);
  constexpr int kNotStarted = 127;
  if (result.exit_code == 0) {
    return "";
  }
  if (result.exit_code == kNotStarted) {
    return fmt::format("no pictures: {}: {}", result.errors, kRemedy);
  }
  return fmt::format("{} failed in {}: {}; run it there by hand to see more",
                     program,
                     job.folder.string(),
                     FirstError(result.errors + result.output));
}

}  // namespace

std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                       const std::string& program) {
  std::vector<std::string> errors(jobs.size());
  common::ParallelFor(
      static_cast<int>(jobs.size()), common::Cores(), [&](int, int i) {
        const auto at = static_cast<std::size_t>(i);
        errors[at] = RunOne(jobs[at], program);
      });
  const auto first = std::find_if(
      errors.begin(), errors.end(), [](const auto& e) { return !e.empty(); });
  return first == errors.end() ? "" : *first;
}

}  // namespace plots
