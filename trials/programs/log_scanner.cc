#include "trials/programs/log_scanner.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/text.h"
#include "trials/measurement.h"

namespace trials {
namespace {

using Quantity = LogPatterns::Quantity;

constexpr std::size_t kMostOpen = 8;  // lines that wait for another number

std::string Replaced(std::string_view line, std::string_view part,
                     std::string_view by) {
  std::string text(line.substr(0, part.data() - line.data()));
  return text.append(by).append(part.data() + part.size(),
                                line.data() + line.size());
}

bool IsTime(double step_s) {
  return step_s >= kLeastStepSeconds && step_s <= kMostStepSeconds;
}

// Why steps may not be those of later on, if they only get longer or shorter;
// "" if they do not. The first one is slow.
std::string WhyNotSettled(const std::vector<double>& step_times_s) {
  constexpr std::size_t kFewest = 3;
  constexpr double kGrowth = 1.2;
  constexpr double kFall = 1.06;
  if (step_times_s.size() < kFewest) {
    return "";
  }
  const double last = step_times_s.back();
  const std::vector<double> later(step_times_s.begin() + 1, step_times_s.end());
  const bool grows = std::ranges::is_sorted(step_times_s) &&
                     last > kGrowth * step_times_s.front();
  const bool falls = later.size() >= kFewest &&
                     std::ranges::is_sorted(later, std::greater()) &&
                     common::Median(later) > kFall * last;
  return grows || falls
             ? fmt::format(
                   "its times of a step only {}, from {:.4g} to {:.4g} s, as "
                   "{} would: name the time of one step, or give a log of "
                   "more steps",
                   grows ? "grow" : "fall", step_times_s.front(), last,
                   grows ? "a sum or a count"
                         : "a mean with slow first steps in it")
             : "";
}

}  // namespace

double LogScanner::StepTime(const LogPatterns::Pattern& pattern,
                            double number) const {
  const double value = pattern.factor * number;
  const double tokens = sizes_.sequences * sizes_.tokens_of_sequence;
  // What each Quantity but memory counts in a step.
  const double counts[] = {value * value, 1.0, sizes_.sequences, tokens,
                           tokens / sizes_.gpus};
  return counts[static_cast<int>(pattern.quantity)] / value;
}

void LogScanner::AddSteps(const std::vector<double>& steps_s) {
  for (const double step_s : steps_s) {
    if (IsTime(step_s)) {
      new_.push_back({.step_time_s = step_s});
      ++steps_;
    }
  }
}

void LogScanner::TakeMemory(std::string_view text) {
  for (const LogPatterns::Pattern& pattern : patterns_.patterns) {
    const auto match = pattern.expression.Find(text);
    if (pattern.quantity == Quantity::kMemory && !match.empty()) {
      const double bytes =
          pattern.factor *
          comma_.Value(NumberAround(text, match[1])).value_or(0.0);
      if (bytes > 0.0 && bytes < kMostMemoryBytes) {
        new_.push_back({.peak_memory_bytes = bytes});
        if (bytes > peak_.bytes) {
          peak_ = {bytes, pattern.is_allocated};
        }
      }
    }
  }
}

std::vector<TrialReport> LogScanner::Read(std::string_view line,
                                          std::optional<double> now_s) {
  ++read_;
  const std::string text = PlainText(line);
  TakeMemory(text);
  if (!Find(patterns_.other_step, text).empty()) {
    clock_.Restart();
    every_clock_.Restart();
    bar_.TakeOther();
    has_other_steps_ = true;
    if (now_s) {
      ended_.TakeOther(*now_s);
    }
    return std::exchange(new_, {});
  }
  if (now_s && !patterns_.ends_step.empty()) {
    if (!Find(patterns_.ends_step, text).empty()) {
      ++lines_;
      AddSteps(ended_.Take(*now_s));
    }
  } else if (!TakeNumber({text, now_s}) && !now_s) {
    (void)TakeBar(text, Find(patterns_.progress_bar, text));
  }
  return std::exchange(new_, {});
}

// Returns whether there is a bar.
bool LogScanner::TakeBar(std::string_view line,
                         const std::vector<std::string_view>& bar) {
  if (bar.empty()) {
    return false;
  }
  RefuseMicrobatch(line, line);
  RefuseMicrobatch(line, WithoutBarHead(line));
  bar_.Take(bar);
  return true;
}

// The time of a bar tells more than its rate.
bool LogScanner::TakeRateOfBar(std::string_view line, std::string_view rate) {
  const auto bar = Find(UsualLogPatterns().progress_bar, line);
  return !bar.empty() && bar[4].data() == rate.data() && TakeBar(line, bar);
}

// Returns whether a pattern finds a number.
bool LogScanner::TakeNumber(const Line& line) {
  for (std::size_t i = 0; i < patterns_.patterns.size(); ++i) {
    const LogPatterns::Pattern& pattern = patterns_.patterns[i];
    const auto match = pattern.expression.Find(line.text);
    if (pattern.quantity == Quantity::kMemory || match.empty() ||
        (chosen_ && *chosen_ != i)) {
      continue;
    }
    const std::string_view number = NumberAround(line.text, match[1]);
    if (number.empty()) {
      continue;
    }
    if (!line.now_s && TakeRateOfBar(line.text, number)) {
      return true;
    }
    if (pattern.is_mean_of_run) {
      bar_.End();
      mean_of_run_s_ = StepTime(pattern, comma_.Value(number).value_or(0.0));
      mean_has_others_ = has_other_steps_;
      return true;
    }
    chosen_ = i;
    comma_.Learn(number);
    open_.push_back(line);
    if (!comma_.IsOpen(number)) {
      for (const Line& each : std::exchange(open_, {})) {
        TakeValue(pattern, each);
      }
    } else if (line.now_s && open_.size() > kMostOpen) {
      (void)Finish();
    }
    return true;
  }
  return false;
}

void LogScanner::TakeValue(const LogPatterns::Pattern& pattern,
                           const Line& line) {
  const std::string_view number =
      NumberAround(line.text, pattern.expression.Find(line.text)[1]);
  const std::optional<double> value = comma_.Value(number);
  if (!value) {
    return;
  }
  std::optional<double> step_s = StepTime(pattern, *value);
  if (pattern.quantity == Quantity::kStepTime ||
      pattern.quantity == Quantity::kSteps) {
    RefuseMicrobatch(line.text, Replaced(line.text, number, "{}"));
  }
  if (pattern.quantity == Quantity::kStepTime) {
    step_s = TakeTime(line.text, number, *step_s, *value);
  }
  if (step_s && IsTime(*step_s)) {
    TakeStep(line, number, *step_s);
  }
}

std::optional<double> LogScanner::TakeTime(std::string_view line,
                                           std::string_view number,
                                           double step_s, double value) {
  if (!Find(patterns_.no_step_time, Replaced(line, number, "{}")).empty()) {
    TakeOther(line, number);
    return std::nullopt;
  }
  const auto parts_s = TimeInParts(line, number);
  const auto unit = parts_s ? StepUnit() : UnitNextTo(line, number);
  if (parts_s) {
    step_s = *parts_s;
  } else if (unit) {
    step_s = unit->is_rate ? unit->seconds / value : unit->seconds * value;
  }
  // The text has an end, a zero, behind the last number.
  const char next = number.data()[number.size()];
  if (!unit && std::isalpha(static_cast<unsigned char>(next)) != 0) {
    TakeOther(line, number);  // it has an unknown unit
    return std::nullopt;
  }
  if (!units_.Agrees(line, unit)) {
    return std::nullopt;
  }
  if (IsTime(step_s)) {
    has_fractions_ |= parts_s || step_s != value ||
                      number.find_first_not_of("0123456789") != number.npos;
    whole_s_ = std::min(whole_s_.value_or(step_s), step_s);
  }
  return step_s;
}

void LogScanner::TakeOther(std::string_view line, std::string_view number) {
  if (others_++ == 0) {
    first_other_ =
        fmt::format("'{}' has no time of a step where the pattern finds '{}'",
                    ShownLine(line), number);
  }
  RefuseOthers(1);
}

// A few lines may be glued to others, or sum up an epoch.
void LogScanner::RefuseOthers(int allowed) const {
  if (others_ > lines_ / 4 + allowed) {
    throw std::invalid_argument(fmt::format(
        "{}: name one that does, or the key of what it is in [log] of an "
        "adapter (tokens_per_s, samples_per_s, steps_per_s, ...)",
        first_other_));
  }
}

void LogScanner::RefuseMicrobatch(std::string_view line,
                                  std::string_view text) {
  const auto match = Find(patterns_.microbatch, text);
  if (match.empty()) {
    return;
  }
  double of_step = sizes_.microbatches;
  if (match.size() > 2 && !match[2].empty()) {
    const std::pair now = {common::NumberOrNan(match[1]),
                           common::NumberOrNan(match[2])};
    const auto first = microbatch_.value_or(now);
    microbatch_ = first;
    if (now.first > first.first + 2.0) {
      of_step = std::max(of_step, (now.first - first.first) /
                                      std::max(1.0, now.second - first.second));
    }
  }
  constexpr double kSeveral = 1.5;
  if (of_step > kSeveral) {
    throw std::invalid_argument(fmt::format(
        "'{}' may be of a microbatch, and a step has {:.0f}: name the time of "
        "a whole step, or print it",
        ShownLine(line), of_step));
  }
}

// The batch may grow during a run.
bool LogScanner::IsOfOtherBatch(std::string_view line) const {
  const auto batch = Find(patterns_.batch_size, line);
  return !batch.empty() && sizes_.sequences > 0.0 &&
         common::NumberOrNan(batch[1]) != sizes_.sequences;
}

void LogScanner::TakeStep(const Line& line, std::string_view number,
                          double step_s) {
  const auto by_number = numbered_.IsNew(patterns_.step, line.text, number);
  is_numbered_ = is_numbered_.value_or(by_number || !patterns_.step.empty());
  if ((*is_numbered_ && !by_number) || IsOfOtherBatch(line.text)) {
    return;
  }
  ++lines_;
  if (*is_numbered_ && !line.now_s) {
    runs_.Take({numbered_.number(), step_s, read_ - 1});
  }
  const std::string rest = Replaced(line.text, number, "");
  if (!*is_numbered_) {
    every_clock_.Take(rest, line.now_s, std::nullopt, step_s);
  }
  if (*is_numbered_ ? *by_number
                    : timed_.IsNew(rest, line.now_s, step_s).value_or(false)) {
    AddSteps({step_s});
    clock_.Take(rest, line.now_s,
                by_number ? std::optional(numbered_.last()) : std::nullopt,
                step_s);
  } else if (!*is_numbered_) {
    every_line_.lines.emplace_back(rest, step_s);
  }
  if (timed_.Tell()) {
    every_line_.lines.clear();
  }
}

std::vector<TrialReport> LogScanner::Finish() {
  if (!open_.empty()) {
    const std::string number(NumberAround(
        open_[0].text,
        patterns_.patterns[*chosen_].expression.Find(open_[0].text)[1]));
    const auto with = [&number](LogPatterns::Comma comma) {
      return CommaMeaning(comma).Value(number).value();
    };
    throw std::invalid_argument(fmt::format(
        "'{}' may be {:g} or {:g}, and no other number of the log tells, as "
        "1,050.5 or 0,8 would: print a decimal point, or write comma = "
        "\"thousands\" or \"decimal\" into [backend.log] or [log] of an "
        "adapter",
        number, with(LogPatterns::Comma::kThousands),
        with(LogPatterns::Comma::kDecimal)));
  }
  RefuseOthers(0);
  constexpr double kFewWholeSeconds = 8.0;
  if (whole_s_ && !has_fractions_ && *whole_s_ < kFewWholeSeconds) {
    throw std::invalid_argument(
        "its times of steps are few whole seconds, which is too coarse: print "
        "tenths or hundredths, too");
  }
  const StepClock& clock = every_line_.lines.empty() ? clock_ : every_clock_;
  if (const std::string why = clock.WhyOther(); !why.empty()) {
    throw std::invalid_argument(why);
  }
  AddSteps(ended_.Finish());
  AddSteps(std::exchange(every_line_, {}).Steps());
  if (steps_ == 0 && bar_.IsSeen()) {
    AddSteps({bar_.StepTime()});
  }
  if (steps_ == 0 && mean_of_run_s_) {
    if (mean_has_others_) {
      throw std::invalid_argument(
          "it has only the mean of the run, with the time of evaluations in "
          "it: keep the progress bar in the log, or run without evaluations");
    }
    AddSteps({*mean_of_run_s_});
  }
  return std::exchange(new_, {});
}

bool LogScanner::HasOnlyTheFirstStep() const {
  return steps_ == 1 && lines_ > 0 && numbered_.last() <= 1.0;
}

std::string LogScanner::Note() const {
  const double each = steps_ == 0 ? 0.0 : static_cast<double>(lines_) / steps_;
  if (each == 0.0 && steps_ > 0 && bar_.IsSeen()) {
    return "an iteration of its progress bar counts as a step";
  }
  // The steps between the lines of a log.
  constexpr std::array kIntervals = {10.0, 20.0, 25.0, 50.0, 100.0};
  if (steps_ == 1 && common::Contains(kIntervals, numbered_.last())) {
    return "its only line may be a mean with the slow first steps in it: a log "
           "of more lines tells";
  }
  return each < 1.5 ? ""
                    : fmt::format("{:.0f} lines a step, counted once", each);
}

LogSteps ReadLog(const LogPatterns& patterns, const StepSizes& sizes,
                 std::string_view text) {
  LogScanner scanner(patterns, sizes, 0.0);
  LogSteps steps;
  const auto take = [&steps](const std::vector<TrialReport>& reports) {
    for (const TrialReport& report : reports) {
      if (report.step_time_s) {
        steps.step_times_s.push_back(*report.step_time_s);
      }
    }
  };
  std::string lines(text);
  std::ranges::replace(lines, '\r', '\n');
  for (const std::string_view line : common::Split(lines, '\n')) {
    take(scanner.Read(line, std::nullopt));
  }
  if (std::size_t before = scanner.LastRun(); before > 0) {
    std::size_t begin = 0;
    for (; before > 0; --before) {
      begin = lines.find('\n', begin) + 1;
    }
    return ReadLog(patterns, sizes, std::string_view(lines).substr(begin));
  }
  take(scanner.Finish());
  if (scanner.HasOnlyTheFirstStep()) {
    throw std::invalid_argument(
        "the log has one step, and the first step of a run is slow: a log of "
        "several steps tells");
  }
  std::string why = WhyNoSteps(steps.step_times_s);
  if (why.empty()) {
    why = WhyNotSettled(steps.step_times_s);
  }
  if (!why.empty()) {
    throw std::invalid_argument(why);
  }
  steps.note = scanner.Note();
  steps.peak = scanner.peak();
  return steps;
}

}  // namespace trials
