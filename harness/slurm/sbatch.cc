#include "harness/slurm/sbatch.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <fmt/format.h>

#include "common/files.h"
#include "common/process.h"
#include "common/text.h"
#include "harness/slurm/slurm_commands.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr int kSubmitAttempts = 3;

// The id that `sbatch --parsable` prints: "17", or "17;cluster".
std::int64_t ParseJobId(const std::string& output) {
  std::int64_t id = 0;
  const std::string_view text = common::Trim(output);
  std::from_chars(text.data(), text.data() + text.size(), id);
  return id;
}

// The controller did not answer, or not in time; it may have taken the job.
bool MayComeRight(const std::string& errors) {
  return errors.find("contact slurm controller") != std::string::npos ||
         errors.find("timed out") != std::string::npos ||
         errors.find("Connection refused") != std::string::npos ||
         errors.find("temporarily") != std::string::npos;
}

// A job with this comment, 0 if there is none.
std::int64_t FindByComment(const std::string& comment,
                           const std::vector<std::string>& environment) {
  const common::CommandResult result = common::RunCommand(
      {"squeue", "--noheader", "--me", "--states=all", "--format=%F|%k"},
      environment);
  for (const std::string_view line : common::Split(result.output, '\n')) {
    const auto bar = line.find('|');
    if (bar != std::string_view::npos &&
        common::Trim(line.substr(bar + 1)) == comment) {
      return ParseJobId(std::string(line.substr(0, bar)));
    }
  }
  return 0;
}

}  // namespace

std::int64_t Sbatch(const std::vector<std::string>& words,
                    const std::vector<std::string>& environment) {
  const auto comment =
      std::find_if(words.begin(), words.end(), [](const std::string& word) {
        return word.starts_with("--comment=");
      });
  common::CommandResult result;
  for (int attempt = 1; attempt <= kSubmitAttempts; ++attempt) {
    result = common::RunCommand(words, environment);
    if (result.exit_code == 0) {
      if (const std::int64_t id = ParseJobId(result.output); id > 0) {
        return id;
      }
    }
    if (!MayComeRight(result.errors)) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::seconds(2 * attempt));
    const std::int64_t id =
        FindByComment(comment->substr(comment->find('=') + 1), environment);
    if (id > 0) {
      return id;
    }
  }
  std::string why(common::Trim(result.errors));
  std::replace(why.begin(), why.end(), '\n', ' ');
  throw std::runtime_error(
      fmt::format("sbatch: {}; asked with: {}",
                  why.empty() ? "no answer that can be understood" : why,
                  ShellLine(words)));
}

void WriteTaskScript(const fs::path& path) {
  common::ReplaceFile(path, TaskScript());
}

}  // namespace harness
