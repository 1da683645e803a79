// What a training program prints for us.

#ifndef TRIALS_COMMAND_TRIAL_REPORT_H_
#define TRIALS_COMMAND_TRIAL_REPORT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "trials/measurement.h"

namespace trials {

// One line of a report: the word "oppa" and a JSON object with any of
//
//   oppa {"step_time_s": 0.412}                a step has ended
//   oppa {"peak_memory_bytes": 1.9e10}         of any GPU, so far
//   oppa {"status": "out_of_memory", "message": "..."}   or "failed"
//
// All other lines are output for people.
struct TrialReport {
  std::optional<double> step_time_s;        // > 0
  std::optional<double> peak_memory_bytes;  // >= 0
  std::optional<Outcome> status;            // kOutOfMemory or kFailed
  std::string message;
};

// Nothing if the line is no report.
// Errors: throws std::invalid_argument, naming the line and what is wrong with
// it.
[[nodiscard]] std::optional<TrialReport> ParseTrialReport(
    std::string_view line);

// Cuts text that comes in pieces into lines. Of a line that is longer than
// `longest` bytes only the beginning is kept.
class LineReader {
 public:
  static constexpr std::size_t kLongest = 65536;

  void Take(std::string_view piece,
            const std::function<void(std::string_view line)>& on_line);
  // The last line, if it lacks its end.
  void Finish(const std::function<void(std::string_view line)>& on_line);

 private:
  std::string line_;
};

}  // namespace trials

#endif  // TRIALS_COMMAND_TRIAL_REPORT_H_
