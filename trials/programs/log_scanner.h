// Reads step times and memory from the log lines of a training framework.

#pragma once

#include <optional>
#include <string_view>

#include "trials/adapters/log_patterns.h"
#include "trials/programs/trial_report.h"

namespace trials {

// The sizes with which a throughput becomes a step time.
struct StepSizes {
  double sequences = 0.0;  // of a step over all ranks
  double tokens_of_sequence = 0.0;
  double gpus = 1.0;
};

class LogScanner {
 public:
  // `patterns` must outlive the scanner; `begin_s` is the time of the launch.
  LogScanner(const LogPatterns& patterns, const StepSizes& sizes,
             double begin_s)
      : patterns_(patterns), sizes_(sizes), last_s_(begin_s) {}

  // The report in a line that arrived at `now_s`. Lines with impossible numbers
  // have none.
  [[nodiscard]] std::optional<TrialReport> Read(std::string_view line,
                                                double now_s);

 private:
  [[nodiscard]] std::optional<double> StepTime(
      const LogPatterns::Pattern& pattern, double number) const;
  // What the patterns of numbers find in a line.
  [[nodiscard]] TrialReport Numbers(std::string_view text) const;
  // Takes the number of the step in a line if it is above that of the line
  // before.
  [[nodiscard]] bool TakeStep(std::string_view text);

  const LogPatterns& patterns_;
  StepSizes sizes_;
  double last_s_;
  double last_step_ = -1.0;
};

}  // namespace trials
