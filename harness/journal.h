// The records of one run while it is being written.

#ifndef HARNESS_JOURNAL_H_
#define HARNESS_JOURNAL_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trials/record.h"

namespace harness {

// A file that one process at a time appends to. Every write is durable when
// the call returns.
// Errors: throws std::runtime_error naming the file and the system's reason.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Makes this process the only writer; false if another one is, still after
  // `patience_s` seconds.
  [[nodiscard]] bool Lock(double patience_s);
  void Truncate(std::uintmax_t bytes);
  void Append(const std::string& text);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// True while a process holds the lock of a run's records.
[[nodiscard]] bool IsBeingWritten(const std::filesystem::path& run_folder);

// Append-only records of one run: trials.csv, steps.csv, fits.csv and
// thinking.csv of trials/record.h.
//
// A trial's rows are written in the order steps, fits, thinking, trials, each
// file durable before the next is touched: the row in trials.csv commits the
// trial. Opening takes the lock (one writer), drops the last line of a file
// if it is cut off or fails its check, and then every row of a trial that is
// not committed. A trial counts as committed when its row, all the steps that
// the row promises and its thinking row are there.
//
// Rows of fits.csv are not needed to resume, because replaying the history
// makes them again: CheckFits compares them, and completes the file where it
// was cut off.
//
// Errors: throws std::runtime_error when a file cannot be written, InputError
// when another process writes the same records or a row in the middle of a
// file is damaged.
class Journal {
 public:
  explicit Journal(std::filesystem::path run_folder);

  struct Trial {
    trials::TrialRecord record;
    std::vector<double> step_times_s;
    trials::ThinkingRecord thinking;
  };

  // What was committed before this journal was opened, in order.
  [[nodiscard]] const std::vector<Trial>& committed() const {
    return committed_;
  }

  // Compares the fits of a committed trial, trial after trial, with those that
  // replaying gives. False if they differ.
  [[nodiscard]] bool CheckFits(const std::vector<trials::FitRecord>& fits);

  // Commits the next trial. On return it survives a crash.
  void Commit(const Trial& trial, const std::vector<trials::FitRecord>& fits);

 private:
  std::filesystem::path folder_;
  AppendFile trials_;
  AppendFile steps_;
  AppendFile fits_;
  AppendFile thinking_;
  std::vector<Trial> committed_;
  std::vector<std::string> known_fits_;  // rows found in fits.csv
  std::size_t checked_fits_ = 0;
};

}  // namespace harness

#endif  // HARNESS_JOURNAL_H_
