// The progress that `oppa run` shows.

#ifndef HARNESS_PROGRESS_H_
#define HARNESS_PROGRESS_H_

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/manifest/manifest.h"
#include "harness/status.h"

namespace harness {

// On a terminal: a table with a row per method that is redrawn. Otherwise (a
// file, CI): a line for each run that ends and one every 30 s. All values come
// from the records.
class Progress {
 public:
  Progress(const Manifest& manifest, std::filesystem::path experiment_folder,
           bool terminal, std::FILE* out);

  // The job of a run has ended; `problem` is the reason of a failure, "" if
  // there was none.
  void RunEnded(int run, const std::string& problem);

  // Call this often; it writes only when an update is due. `now_s`: any steady
  // clock.
  void Update(double now_s);

  // Removes the table from the terminal.
  void Clear();

 private:
  void Refresh();
  // At the pace since the first Update; NaN before there is any progress.
  [[nodiscard]] double SecondsLeft() const;
  [[nodiscard]] std::size_t Done() const;
  [[nodiscard]] std::string RunsDone() const;  // "3 of 8 runs done"
  [[nodiscard]] std::string TimeLeft() const;  // ", about 12 s left", or ""

  const Manifest& manifest_;
  std::filesystem::path folder_;
  bool terminal_;
  std::FILE* out_;
  std::vector<RunStatus> runs_;
  int painted_lines_ = 0;
  double next_update_s_;
  double begin_s_ = 0.0;
  double now_s_ = 0.0;
  double spent_before_ = 0.0;  // budgets, see BudgetsSpent
};

}  // namespace harness

#endif  // HARNESS_PROGRESS_H_
