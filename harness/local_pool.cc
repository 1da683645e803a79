#include "harness/local_pool.h"

#include <cassert>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/process.h"
#include "common/text.h"

namespace harness {
namespace {

using Steady = std::chrono::steady_clock;

constexpr auto kPollInterval = std::chrono::milliseconds(5);
// The least free space that suffices for a message in a log.
constexpr std::uintmax_t kTooLittleSpace = 4096;

constexpr auto kTermPatience = std::chrono::seconds(2);

std::vector<std::string> WorkerEnvironment(int threads) {
  std::vector<std::string> environment = common::CurrentEnvironment();
  std::erase_if(environment, [](const std::string& variable) {
    return variable.starts_with("OMP_NUM_THREADS=") ||
           variable.starts_with("OPPA_THREADS=");
  });
  environment.emplace_back("OMP_NUM_THREADS=1");
  environment.push_back(fmt::format("OPPA_THREADS={}", threads));
  return environment;
}

// Starts a job with its output in its log. Returns -1 and errno in `error` if
// that is not possible. Errors: throws std::runtime_error naming the log.
pid_t Start(const Job& job, int threads, int& error) {
  const common::Descriptor log = common::CreateFile(job.log, O_WRONLY);
  const pid_t pid =
      common::StartProcess({.words = job.command,
                            .environment = WorkerEnvironment(threads),
                            .output = log.get(),
                            .errors = log.get(),
                            .own_group = true});
  error = errno;
  return pid;
}

std::string Explain(int status, const Job& job) {
  const std::string how =
      WIFSIGNALED(status)
          ? fmt::format("killed by signal {} ({})", WTERMSIG(status),
                        strsignal(WTERMSIG(status)))
          : fmt::format("exit code {}", WEXITSTATUS(status));
  const std::string why = Tail(job.log, 1);
  std::error_code unknown;
  const auto space = std::filesystem::space(job.log.parent_path(), unknown);
  if (why.empty() && !unknown && space.available < kTooLittleSpace) {
    return fmt::format("{}: the disk that holds {} is full", how,
                       job.log.parent_path().string());
  }
  return why.empty() ? how : fmt::format("{}: {}", how, why);
}

// Removes a log without any output.
void RemoveIfEmpty(const std::filesystem::path& log) {
  std::error_code error;
  if (std::filesystem::file_size(log, error) == 0 && !error) {
    common::Remove(log);
  }
}

}  // namespace

LocalPool::LocalPool(int workers, int threads)
    : workers_(static_cast<std::size_t>(workers)), threads_(threads) {
  assert(workers > 0 && threads > 0);
}

// Allocates nothing.
LocalPool::~LocalPool() {
  for (const auto& [pid, job] : running_) {
    ::kill(-pid, SIGTERM);
  }
  const auto give_up = Steady::now() + kTermPatience;
  while (!running_.empty() && Steady::now() < give_up) {
    std::erase_if(running_, [](const auto& worker) {
      return ::waitpid(worker.first, nullptr, WNOHANG) != 0;
    });
    std::this_thread::sleep_for(kPollInterval);
  }
  for (const auto& [pid, job] : running_) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

void LocalPool::Submit(const std::vector<Job>& jobs) {
  waiting_.insert(waiting_.end(), jobs.begin(), jobs.end());
}

std::vector<JobReport> LocalPool::Poll(double wait_s) {
  const auto give_up = Steady::now() + std::chrono::duration<double>(wait_s);
  std::vector<JobReport> reports;
  while (true) {
    Reap(reports);
    StartWaiting(reports);
    if (!reports.empty() || Steady::now() >= give_up) {
      return reports;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void LocalPool::StartWaiting(std::vector<JobReport>& reports) {
  while (running_.size() < workers_ && !waiting_.empty()) {
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    int error = 0;
    pid_t pid = -1;
    std::string why;
    try {
      pid = Start(job, threads_, error);
      why = fmt::format("cannot start {}: {}", job.command.front(),
                        strerror(error));
    } catch (const std::runtime_error& e) {
      why = e.what();
    }
    if (pid < 0 && error == EAGAIN && !running_.empty()) {
      waiting_.push_front(std::move(job));  // when another one has ended
      return;
    }
    if (pid < 0) {
      reports.push_back({job.id, JobReport::State::kFailed, why});
      continue;
    }
    const int id = job.id;
    try {
      running_.emplace(pid, std::move(job));
    } catch (const std::bad_alloc&) {
      ::kill(-pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      throw;
    }
    reports.push_back({id, JobReport::State::kStarted, ""});
  }
}

void LocalPool::Reap(std::vector<JobReport>& reports) {
  for (auto it = running_.begin(); it != running_.end();) {
    int status = 0;
    if (::waitpid(it->first, &status, WNOHANG) != it->first) {
      ++it;
      continue;
    }
    const Job job = std::move(it->second);
    it = running_.erase(it);
    const bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    reports.push_back(
        {job.id, ok ? JobReport::State::kSucceeded : JobReport::State::kFailed,
         ok ? "" : Explain(status, job)});
    RemoveIfEmpty(job.log);
  }
}

std::string Tail(const std::filesystem::path& log, int lines) {
  const std::string text = common::ReadFileIfExists(log).value_or("");
  const std::string_view trimmed = common::Trim(text);
  std::size_t begin = trimmed.size();
  for (int i = 0; i < lines && begin != std::string_view::npos && begin > 0;
       ++i) {
    begin = trimmed.rfind('\n', begin - 1);
  }
  return std::string(begin == std::string_view::npos
                         ? trimmed
                         : common::Trim(trimmed.substr(begin)));
}

std::filesystem::path NewestLog(const std::filesystem::path& folder,
                                const std::string& stem) {
  std::filesystem::path newest;
  std::filesystem::file_time_type newest_time;
  std::error_code none;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder, none)) {
    if (entry.path().extension() == ".log" && entry.is_regular_file(none) &&
        (stem.empty() || entry.path().stem() == stem) &&
        (newest.empty() || entry.last_write_time(none) > newest_time)) {
      newest = entry.path();
      newest_time = entry.last_write_time(none);
    }
  }
  return newest;
}

}  // namespace harness
