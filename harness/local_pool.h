// Executes jobs as processes of this machine, several at a time.

#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/dispatcher.h"

namespace harness {

// A pool of worker processes. Jobs start in the order of submission, at most
// `workers` at a time; a job that fails does not stop the others. Each worker
// is a process group and reads /dev/null. Its libraries use one thread
// (OMP_NUM_THREADS = 1) and its suggestions `threads` (OPPA_THREADS, see
// SuggestionThreads), so `workers * threads` cores are busy.
class LocalPool final : public Dispatcher {
 public:
  explicit LocalPool(int workers, int threads = 1);  // both > 0
  // Ends the workers: SIGTERM to their groups, SIGKILL two seconds later.
  ~LocalPool() override;
  LocalPool(const LocalPool&) = delete;
  LocalPool& operator=(const LocalPool&) = delete;

  void Submit(const std::vector<Job>& jobs) override;
  [[nodiscard]] std::vector<JobReport> Poll(double wait_s) override;

 private:
  void StartWaiting(std::vector<JobReport>& reports);
  void Reap(std::vector<JobReport>& reports);

  std::size_t workers_;
  int threads_;
  std::deque<Job> waiting_;
  std::map<pid_t, Job> running_;
};

// The last `lines` lines of a log, for a message about a job that failed.
[[nodiscard]] std::string Tail(const std::filesystem::path& log, int lines);

// The newest file STEM.log anywhere below the folder; any *.log if `stem` is
// empty. "" if there is none.
[[nodiscard]] std::filesystem::path NewestLog(
    const std::filesystem::path& folder, const std::string& stem = "");

}  // namespace harness
