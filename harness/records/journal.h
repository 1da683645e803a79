// The journal: the records of a run that is in progress.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files.h"
#include "harness/records/lease.h"
#include "trials/record.h"

namespace harness {

// A file that is appended to. Every write is durable when the call returns.
// Errors: throws std::runtime_error naming the file and the system's reason.
struct AppendFile {
  std::filesystem::path path;
  common::Descriptor file;

  void Append(const std::string& text) const;
};

// Append-only records of one run: the CSV files of trials/record.h.
//
// A trial's rows are written in the order steps, fits, suggestion time, plan,
// trial, each file durable before the next is touched: the row in trials.csv
// commits the trial. Opening takes the lease (one writer, lease.h), drops the
// last line of a file if it is cut off, or fails its check and commits nothing,
// and then the rows of the trial that was being written. A crash can leave
// nothing else to drop: if steps of a committed trial are missing, or if the
// other files contain trials beyond the next one, then trials.csv or steps.csv
// has lost rows. That is an error, and no file is changed.
//
// Two files are not needed to resume. Rows of fits.csv follow from the history:
// CheckFits compares them, and completes the file where it was cut off. Where
// thinking.csv ends early, the suggestion times are unknown.
//
// Errors: throws std::runtime_error when a file cannot be read or written,
// LeaseLost when another process writes the same records or has acquired the
// lease, InputError when a file is damaged.
class Journal {
 public:
  // `columns`: of trials.csv, in addition to those that earlier trials have;
  // the knobs of the space that are not built in each have one.
  explicit Journal(std::filesystem::path run_folder,
                   double lease_timeout_s = Lease::kTimeoutSeconds,
                   const trials::KnobColumns& columns = {});

  // What was committed before this journal was opened, in order.
  [[nodiscard]] const std::vector<trials::Trial>& committed() const {
    return committed_;
  }

  // What was dropped or is unknown since, one line each.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  [[nodiscard]] const Lease& lease() const { return lease_; }

  // Compares the fits of a committed trial, in order of trials, with the fits
  // that the replay computes. False if they differ.
  [[nodiscard]] bool CheckFits(const std::vector<trials::FitRecord>& fits);

  // Skips the fits of a committed trial instead.
  void SkipFits(int trial);

  // Drops the last committed trial. run.json must not have a seal.
  void DropLast();

  // Commits trials that were imported, which have only rows in trials.csv and
  // thinking.csv, with one write of each. A crash in between leaves some out.
  void CommitImported(const std::vector<trials::Trial>& trials);

  // Commits the next trial. On return it survives a crash.
  void Commit(const trials::Trial& trial,
              const trials::SuggestionTime& suggestion_time,
              const std::vector<trials::FitRecord>& fits);

 private:
  struct Contents;
  void Take(Contents contents);
  template <typename Record>
  [[nodiscard]] AppendFile Publish(
      const std::string& text = trials::FileOf<Record>().header) const;

  friend std::vector<std::string> CheckJournal(
      const std::filesystem::path& run_folder);

  std::filesystem::path folder_;
  Lease lease_;
  trials::KnobColumns columns_;
  AppendFile trials_, steps_, fits_, suggestion_times_, sums_;
  std::optional<AppendFile> plans_;  // from the first plan on
  std::vector<trials::Trial> committed_;
  std::vector<std::string> notes_;
  std::vector<std::string> known_fits_;  // rows found in fits.csv
  std::size_t checked_fits_ = 0;
};

// Checks the files of an unfinished run as opening its journal does, and
// changes nothing. Returns what opening would note.
// Errors: as Journal, except for the lease.
std::vector<std::string> CheckJournal(const std::filesystem::path& run_folder);

}  // namespace harness
