// Reads step times and memory from the log lines of a training framework.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trials/adapters/log_patterns.h"
#include "trials/programs/log_number.h"
#include "trials/programs/step_lines.h"
#include "trials/programs/trial_report.h"

namespace trials {

// The sizes with which a throughput becomes a step time.
struct StepSizes {
  double sequences = 0.0;  // of a step over all ranks
  double tokens_of_sequence = 0.0;
  double gpus = 1.0;
  double microbatches = 1.0;  // of a step
};

// The highest memory in a log.
struct LoggedPeak {
  double bytes = 0.0;         // 0: not in the log
  bool is_allocated = false;  // see LogPatterns::Pattern
};

// Lines that several ranks print for one step count once. They are told apart
// by the number of the step where the log has one, else by time.
class LogScanner {
 public:
  // `patterns` must outlive the scanner; `begin_s` is the time of the launch.
  LogScanner(const LogPatterns& patterns, const StepSizes& sizes,
             double begin_s)
      : patterns_(patterns),
        sizes_(sizes),
        comma_(patterns.comma),
        clock_(begin_s),
        every_clock_(begin_s),
        ended_(begin_s) {}

  // What is known after a line that arrived at `now_s`, or of a file. Lines
  // with impossible numbers have no report.
  // Errors: throws std::invalid_argument, which says what would settle it, for
  // numbers of which the log does not say the decimal mark or the unit.
  [[nodiscard]] std::vector<TrialReport> Read(std::string_view line,
                                              std::optional<double> now_s);
  // The rest, at the end of the log. Errors: as Read.
  [[nodiscard]] std::vector<TrialReport> Finish();

  // Whether lines have one step, whose number is 1 or not known.
  [[nodiscard]] bool HasOnlyTheFirstStep() const;

  // Of a file, the line with which the last run begins, counted from 0, with
  // which a new scanner finds its steps. Errors: throws std::invalid_argument
  // for runs whose lines are mixed.
  [[nodiscard]] std::size_t LastRun() const { return runs_.LastRun(); }

  // So far.
  [[nodiscard]] const LoggedPeak& peak() const { return peak_; }

  // What to know of its steps: "4 lines a step, counted once"; "" for nothing.
  [[nodiscard]] std::string Note() const;

 private:
  struct Line {
    std::string text;
    std::optional<double> now_s;
  };

  [[nodiscard]] double StepTime(const LogPatterns::Pattern& pattern,
                                double number) const;
  void TakeMemory(std::string_view text);
  [[nodiscard]] bool TakeNumber(const Line& line);
  [[nodiscard]] bool TakeBar(std::string_view line,
                             const std::vector<std::string_view>& bar);
  [[nodiscard]] bool TakeRateOfBar(std::string_view line,
                                   std::string_view rate);
  void TakeValue(const LogPatterns::Pattern& pattern, const Line& line);
  // With the unit that the line has; `step_s`: with that of the pattern.
  // Nothing for a number that is no time of a step.
  [[nodiscard]] std::optional<double> TakeTime(std::string_view line,
                                               std::string_view number,
                                               double step_s, double value);
  void TakeStep(const Line& line, std::string_view number, double step_s);
  void AddSteps(const std::vector<double>& steps_s);
  void TakeOther(std::string_view line, std::string_view number);
  void RefuseOthers(int allowed) const;
  // `text`: the line, with "{}" for the number that was taken for a time.
  void RefuseMicrobatch(std::string_view line, std::string_view text);
  [[nodiscard]] bool IsOfOtherBatch(std::string_view line) const;

  const LogPatterns& patterns_;
  StepSizes sizes_;
  CommaMeaning comma_;
  std::optional<std::size_t> chosen_;  // the pattern of step times
  std::vector<Line> open_;             // lines whose number is not settled
  std::vector<TrialReport> new_;       // not reported yet
  int steps_ = 0;
  int lines_ = 0;            // that have the time or the end of a step
  int others_ = 0;           // that have another number instead
  std::string first_other_;  // such a line, and the number
  UnitOfLog units_;
  std::optional<bool> is_numbered_;  // as the first line is
  NumberedSteps numbered_;
  TimedSteps timed_;
  StepClock clock_;
  StepClock every_clock_;  // where every line counts
  EveryLine every_line_;
  EndedSteps ended_;
  ProgressBar bar_;
  std::optional<double> mean_of_run_s_;
  std::size_t read_ = 0;  // lines
  RunsOfFile runs_;
  std::optional<std::pair<double, double>> microbatch_;  // and step, counts
  std::optional<double> whole_s_;  // the least, without has_fractions_
  bool has_fractions_ = false;
  bool has_other_steps_ = false;
  bool mean_has_others_ = false;
  LoggedPeak peak_;
};

// The steps in the text of a log file.
struct LogSteps {
  std::vector<double> step_times_s;
  LoggedPeak peak;
  std::string note;  // LogScanner::Note
};
// Errors: as LogScanner.
[[nodiscard]] LogSteps ReadLog(const LogPatterns& patterns,
                               const StepSizes& sizes, std::string_view text);

}  // namespace trials
