// Ways to tell which lines of a log are steps: several ranks may print each.

#pragma once

#include <limits>
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
  // Of the line, if it had one.
  [[nodiscard]] double number() const { return number_; }

 private:
  double last_ = -1.0;
  double number_ = -1.0;
};

// The steps of a file that several runs may have written to, one after the
// other: then a number comes again, with another time.
class RunsOfFile {
 public:
  struct Line {
    double number;  // of the step
    double step_s;
    std::size_t line;  // of the file, counted from 0
  };
  void Take(const Line& line) { lines_.push_back(line); }
  // The line with which the last run begins. Errors: throws
  // std::invalid_argument for runs whose lines are mixed, and for a last run of
  // one step.
  [[nodiscard]] std::size_t LastRun() const;

 private:
  std::vector<Line> lines_;
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

// The time of a step between lines that number them. Lines nearer than the
// clock tells count with the next one: output may come in bursts.
class StepGaps {
 public:
  // `number`: of steps so far; if it or the time is less, another run begins.
  void Take(double time_s, double number, double enough_s);
  // What comes before the next line is no part of its step. What was not enough
  // yet counts if it has `least_s`.
  void Restart(double least_s = std::numeric_limits<double>::infinity());

  // Of each gap, by step.
  [[nodiscard]] const std::vector<double>& each_s() const { return each_s_; }
  [[nodiscard]] double seconds() const { return seconds_; }
  [[nodiscard]] double steps() const { return steps_; }
  [[nodiscard]] double most_steps() const { return most_steps_; }  // of a gap
  // The mean of gaps like most of them: others have an evaluation, a
  // checkpoint.
  [[nodiscard]] double Typical() const;

 private:
  void Add(double gap_s, double steps);

  std::optional<std::pair<double, double>> from_;  // time and number
  std::pair<double, double> last_;
  std::vector<double> each_s_;
  std::vector<double> counts_;  // of steps
  double seconds_ = 0.0;
  double steps_ = 0.0;
  double most_steps_ = 0.0;
};

// The clock between lines of steps, beside what their numbers say.
class StepClock {
 public:
  // `begin_s`: the time of the launch.
  explicit StepClock(double begin_s) : begin_s_(begin_s) {}

  // `number`: of the step, if the line has it.
  void Take(std::string_view line, std::optional<double> now_s,
            std::optional<double> number, double step_s);
  void Restart() { gaps_.Restart(); }
  // Why the numbers are no times of steps; "" if the clock does not say so.
  [[nodiscard]] std::string WhyOther() const;

 private:
  [[nodiscard]] std::string WhyMoreThanTheTrial(double found_s) const;

  StepGaps gaps_;
  double begin_s_;
  std::optional<double> now_s_;  // of the last line, in a trial
  std::vector<double> steps_s_;
  double resolution_s_ = 0.0;
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
  // The time up to a line of steps on other data is none of the next step,
  // unless there is hardly any: then it is of another process.
  void TakeOther(double now_s);

 private:
  double last_line_s_;
  double last_step_s_;
  bool is_first_ = true;
  std::optional<double> shortest_s_;                          // step
  double least_s_ = std::numeric_limits<double>::infinity();  // of any step
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
  // A line of steps on other data: a bar that has ended was of these.
  void TakeOther();
  // The end of training: if it had no bar, others are of other loops.
  void End() { has_ended_ = true; }
  [[nodiscard]] bool IsSeen() const { return !bars_.empty(); }
  // Errors: throws std::invalid_argument for a bar that is too short, and for
  // bars of which none is known to be that of training.
  [[nodiscard]] double StepTime() const;

 private:
  struct Bar {
    double total;
    double first = 0.0;  // count
    double count = 0.0;
    double step_s = 0.0;   // its rate as a time
    double seconds = 0.0;  // that its lines show
    StepGaps gaps;
    bool is_other = false;  // its steps are on other data
    bool goes_on = false;   // after another bar
  };
  std::vector<Bar> bars_;
  double total_ = 0.0;  // of the last line
  bool has_ended_ = false;
};

}  // namespace trials
