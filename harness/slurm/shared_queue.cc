#include "harness/slurm/shared_queue.h"

#include <chrono>
#include <exception>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/files.h"
#include "harness/slurm/slurm_state.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOfRuns = "queue-runs.txt";
constexpr std::string_view kOfTrials = "queue-trials.txt";

bool IsFresh(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  const double age_s =
      std::chrono::duration<double>(fs::file_time_type::clock::now() - written)
          .count();
  // A clock that was set back is no reason to believe an old answer.
  return !error && age_s >= 0.0 && age_s < kSharedQueueSeconds;
}

// The file is the question, a line, and squeue's answer.
std::optional<Queue> FromFile(const fs::path& path,
                              const std::string& question) {
  if (!IsFresh(path)) {
    return std::nullopt;
  }
  const std::string content = common::ReadFileIfExists(path).value_or("");
  if (!content.starts_with(question + "\n")) {
    return std::nullopt;
  }
  return ParseQueue(std::string_view(content).substr(question.size() + 1));
}

// Held while one process asks, so that the others wait for its answer.
class Turn {
 public:
  explicit Turn(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ >= 0) {
      ::flock(fd_, LOCK_EX);
    }
  }
  ~Turn() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// `which`: words for squeue that say which jobs.
std::optional<Queue> Ask(const fs::path& path,
                         const std::vector<std::string>& which) {
  const std::string question = fmt::format("{}", fmt::join(which, " "));
  if (auto queue = FromFile(path, question)) {
    return queue;
  }
  std::error_code none;
  fs::create_directories(path.parent_path(), none);
  const Turn turn(path.string() + ".lock");
  if (turn.ok()) {
    if (auto queue = FromFile(path, question)) {
      return queue;  // somebody else has asked meanwhile
    }
  }
  const std::optional<std::string> answer = AskSqueue(which);
  if (!answer) {
    return std::nullopt;
  }
  if (turn.ok()) {
    try {
      common::ReplaceFile(path, question + "\n" + *answer);
    } catch (const std::exception&) {
      // A full disk: everybody asks for himself.
    }
  }
  return ParseQueue(*answer);
}

}  // namespace

std::optional<Queue> ReadSharedQueue(const fs::path& experiment_folder,
                                     const std::vector<std::int64_t>& job_ids) {
  if (job_ids.empty()) {
    return Queue{};
  }
  return Ask(SlurmFolder(experiment_folder) / kOfRuns, {JobList(job_ids)});
}

std::optional<Queue> ReadSharedQueue(const fs::path& experiment_folder,
                                     const std::string& job_name) {
  return Ask(SlurmFolder(experiment_folder) / kOfTrials,
             {"--me", "--name=" + job_name});
}

void ForgetSharedQueue(const fs::path& experiment_folder) {
  std::error_code none;
  fs::remove(SlurmFolder(experiment_folder) / kOfRuns, none);
  fs::remove(SlurmFolder(experiment_folder) / kOfTrials, none);
}

}  // namespace harness
