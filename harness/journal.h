// The journal: the records of a run that is in progress.

#ifndef HARNESS_JOURNAL_H_
#define HARNESS_JOURNAL_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/error.h"
#include "harness/lease.h"
#include "trials/record.h"

namespace harness {

// A file that is appended to. Every write is durable when the call returns.
// Errors: throws std::runtime_error naming the file and the system's reason.
class AppendFile {
 public:
  AppendFile(std::filesystem::path path, int fd);  // takes ownership of `fd`
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void Append(const std::string& text);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// Append-only records of one run: the CSV files of trials/record.h.
//
// A trial's rows are written in the order steps, fits, suggestion time, plan,
// trial, each file durable before the next is touched: the row in trials.csv
// commits the trial. Opening takes the lease (one writer, lease.h), drops the
// last line of a file if it is cut off or fails its check, and then every row
// of a trial that is not committed. A trial counts as committed when its row,
// all of its steps and its suggestion time are there.
//
// Rows of fits.csv are not needed to resume, because replaying the history
// computes them again: CheckFits compares them, and completes the file where it
// was cut off.
//
// Errors: throws std::runtime_error when a file cannot be read or written,
// LeaseLost when another process writes the same records or has acquired the
// lease, InputError when a row in the middle of a file is damaged.
class Journal {
 public:
  explicit Journal(std::filesystem::path run_folder,
                   double lease_timeout_s = Lease::kTimeoutSeconds);

  // What was committed before this journal was opened, in order.
  [[nodiscard]] const std::vector<trials::Trial>& committed() const {
    return committed_;
  }

  [[nodiscard]] const Lease& lease() const { return lease_; }

  // Compares the fits of a committed trial, in order of trials, with the fits
  // that the replay computes. False if they differ.
  [[nodiscard]] bool CheckFits(const std::vector<trials::FitRecord>& fits);

  // Commits the next trial. On return it survives a crash.
  void Commit(const trials::Trial& trial,
              const trials::SuggestionTime& suggestion_time,
              const std::vector<trials::FitRecord>& fits);

 private:
  template <typename Record>
  [[nodiscard]] std::unique_ptr<AppendFile> Publish(
      const std::string& text = trials::FileOf<Record>().header) const;

  std::filesystem::path folder_;
  Lease lease_;
  std::unique_ptr<AppendFile> trials_;
  std::unique_ptr<AppendFile> steps_;
  std::unique_ptr<AppendFile> fits_;
  std::unique_ptr<AppendFile> suggestion_times_;
  std::unique_ptr<AppendFile> plans_;  // from the first plan on
  std::vector<trials::Trial> committed_;
  std::vector<std::string> known_fits_;  // rows found in fits.csv
  std::size_t checked_fits_ = 0;
};

}  // namespace harness

#endif  // HARNESS_JOURNAL_H_
