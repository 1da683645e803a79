// Ways to tell which lines of a log are steps: several ranks may print each.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trials/adapters/log_patterns.h"

namespace trials {

// By the number of the step: lines whose number is not above that of the line
// before are of other ranks. Without a pattern for it, any line may have one,
// and an epoch may count its steps from the beginning.
class NumberedSteps {
 public:
  // Whether the line is of a new step; nothing if it has no number, apart from
  // `value`, a part of the line.
  [[nodiscard]] std::optional<bool> IsNew(
      const LogPatterns::Expressions& pattern, std::string_view line,
      std::string_view value);
  [[nodiscard]] double last() const { return last_; }

 private:
  double last_ = -1.0;
};

// By time: lines within a quarter of a step are one step.
class TimedSteps {
 public:
  // Whether the line begins a step; nothing if it has no time, that of its
  // arrival or a time of day.
  [[nodiscard]] std::optional<bool> IsNew(std::string_view line,
                                          std::optional<double> now_s,
                                          double step_s);
  // Whether times have told two steps apart; output may come at once.
  [[nodiscard]] bool Tell() const { return tell_; }

 private:
  std::optional<double> last_s_;
  bool tell_ = false;
};

// The clock between lines of steps, beside what their numbers say.
class StepClock {
 public:
  // `number`: of the step, if the line has it.
  void Take(std::string_view line, std::optional<double> now_s,
            std::optional<double> number, double step_s);
  // Why the numbers are no times of steps; "" unless all gaps say the same.
  [[nodiscard]] std::string WhyOther() const;

 private:
  std::optional<std::pair<double, double>> last_;  // its time and number
  std::vector<double> gaps_s_;                     // by step
  std::vector<double> steps_s_;
  double resolution_s_ = 0.0;
  bool is_clear_ = true;     // whether the clock is fine enough, and only grows
  bool is_numbered_ = true;  // else there may be steps without a line
};

// Every line, where nothing else tells: each without its number, and the step
// time. If they differ by the name of the rank, the first rank's count.
struct EveryLine {
  std::vector<std::pair<std::string, double>> lines;

  [[nodiscard]] std::vector<double> Steps() const;
};

// By the clock alone: lines that end a step and do not number it. The first
// ones are held where they may be of one step or of short ones.
class EndedSteps {
 public:
  // `begin_s`: the time of the launch.
  explicit EndedSteps(double begin_s)
      : last_line_s_(begin_s), last_step_s_(begin_s) {}

  // The step times that a line at `now_s` settles, and the end of the log.
  [[nodiscard]] std::vector<double> Take(double now_s);
  [[nodiscard]] std::vector<double> Finish();

 private:
  double last_line_s_;
  double last_step_s_;
  bool is_first_ = true;
  std::optional<double> shortest_s_;  // step
  std::vector<double> held_s_;
  double longest_held_s_ = 0.0;  // between these
};

// The bar of tqdm over steps. Its rate is smoothed, or a mean with the slow
// first steps in it; its time has them not, but whole seconds.
class ProgressBar {
 public:
  // `match`: of LogPatterns::progress_bar. Bars of another length are of
  // another loop.
  void Take(const std::vector<std::string_view>& match);
  [[nodiscard]] bool IsSeen() const { return last_.has_value(); }
  // Errors: throws std::invalid_argument for a bar that is too short.
  [[nodiscard]] double StepTime() const;

 private:
  struct Bar {
    double count, total, elapsed_s, step_s;  // the rate as a time
  };
  std::optional<Bar> first_, last_;
};

}  // namespace trials
