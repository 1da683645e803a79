// What `oppa run` shows while it runs.

#ifndef HARNESS_PROGRESS_H_
#define HARNESS_PROGRESS_H_

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/manifest.h"
#include "harness/status.h"

namespace harness {

// On a terminal: a block with a row per method that is painted anew. Elsewhere
// (a file, CI): a plain line for each run that ends and one every few seconds.
// Everything shown is read from the records.
class Progress {
 public:
  Progress(const Manifest& manifest,
           std::filesystem::path experiment_folder,
           bool terminal,
           std::FILE* out);

  // Records of a run have changed or its job has ended; `problem` says why it
  // failed, empty if it did not.
  void RunEnded(int run, const std::string& problem);

  // Call often; writes when it is time to. `now_s` is any steady clock.
  void Update(double now_s);

  // Takes the block off the terminal.
  void Clear();

 private:
  void Refresh();
  // At the pace since the first Update; NaN while nothing has moved.
  [[nodiscard]] double SecondsLeft() const;
  [[nodiscard]] std::string Summary() const;

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
