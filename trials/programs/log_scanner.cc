#include "trials/programs/log_scanner.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

using Quantity = LogPatterns::Quantity;

// A longer line is not a report.
constexpr std::size_t kLongestLine = 4096;
// Lines that arrive within this part of a step are of one step.
constexpr double kPartOfStep = 0.25;
constexpr std::size_t kMostOpen = 8;  // lines that wait for another number
// Lines that end steps come slower, or they are held until a longer time shows
// that they are of one step, or this long.
constexpr double kShortStepSeconds = 0.05;
constexpr double kLongestHoldSeconds = 2.0;

// The number of a step in a log of which no pattern is known.
const common::Pattern& UsualStep() {
  static const common::Pattern step(
      R"((?i)(?:^|[^a-z])(?:global_?)?(?:step|iter|iteration|update)s?)"
      R"([ :=#\['"]*(\d+)(?:[^.,\d\w%]|[.,](?:\D|$)|$))");
  return step;
}

// The time of day that a line begins with, or has somewhere.
struct Stamp {
  double time_s, resolution_s;
};
std::optional<Stamp> StampOf(std::string_view text) {
  static const common::Pattern stamp(
      R"((?:^|\D)(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?)");
  const auto match = stamp.Find(text);
  if (match.empty()) {
    return std::nullopt;
  }
  const auto number = [&](int group) {
    return common::ParseDouble(match[group]);
  };
  const double fraction =
      match[4].empty() ? 0.0
                       : common::ParseDouble("0." + std::string(match[4]));
  return Stamp{3600.0 * number(1) + 60.0 * number(2) + number(3) + fraction,
               match[4].empty() ? 1.0 : 0.001};
}

bool Overlap(std::string_view a, std::string_view b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

// Without the codes that color it.
std::string PlainText(std::string_view line) {
  static const common::Pattern code("\x1b\\[[0-9;]*[A-Za-z]");
  std::string text;
  while (!line.empty()) {
    const auto found = code.Find(line);
    const std::size_t length =
        found.empty() ? line.size() : found[0].data() - line.data();
    text += line.substr(0, length);
    line.remove_prefix(found.empty() ? length : length + found[0].size());
  }
  return text;
}

std::string Without(std::string_view line, std::string_view part) {
  std::string text(line.substr(0, part.data() - line.data()));
  return text.append(part.data() + part.size(), line.data() + line.size());
}

bool IsTime(double step_s) {
  return step_s >= kLeastStepSeconds && step_s <= kMostStepSeconds;
}

}  // namespace

std::optional<double> LogScanner::StepTime(const LogPatterns::Pattern& pattern,
                                           double number) const {
  const double value = pattern.factor * number;
  switch (pattern.quantity) {
    case Quantity::kStepTime:
      return value;
    case Quantity::kSteps:
      return 1.0 / value;
    case Quantity::kSamples:
      return sizes_.sequences / value;
    case Quantity::kTokens:
      return sizes_.sequences * sizes_.tokens_of_sequence / value;
    case Quantity::kTokensOfGpu:
      return sizes_.sequences * sizes_.tokens_of_sequence /
             (value * sizes_.gpus);
    case Quantity::kMemory:
      break;
  }
  return std::nullopt;
}

void LogScanner::AddStep(double step_s) {
  if (IsTime(step_s)) {
    new_steps_s_.push_back(step_s);
    ++steps_;
  }
}

std::vector<TrialReport> LogScanner::Taken(std::optional<double> memory_bytes) {
  std::vector<TrialReport> reports;
  for (const double step_s : new_steps_s_) {
    reports.push_back({.step_time_s = step_s});
  }
  new_steps_s_.clear();
  if (memory_bytes) {
    if (reports.empty()) {
      reports.emplace_back();
    }
    reports.front().peak_memory_bytes = memory_bytes;
  }
  return reports;
}

std::vector<TrialReport> LogScanner::Read(std::string_view line,
                                          std::optional<double> now_s) {
  const std::string text = PlainText(line.substr(0, kLongestLine));
  std::optional<double> memory_bytes;
  for (const LogPatterns::Pattern& pattern : patterns_.patterns) {
    const auto match = pattern.expression.Find(text);
    if (pattern.quantity == Quantity::kMemory && !match.empty()) {
      const double bytes =
          pattern.factor *
          comma_.Value(NumberAround(text, match[1])).value_or(0.0);
      if (bytes > 0.0 && bytes < kMostMemoryBytes) {
        memory_bytes = bytes;
      }
    }
  }
  if (now_s && patterns_.ends_step) {
    if (patterns_.ends_step->IsIn(text)) {
      TakeEnd(*now_s);
    }
  } else if (!TakeNumber({text, now_s}) && !now_s) {
    TakeBar(text);
  }
  return Taken(memory_bytes);
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
    if (pattern.is_mean_of_run) {
      mean_of_run_s_ = StepTime(pattern, comma_.Value(number).value_or(0.0));
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
  if (pattern.quantity == Quantity::kStepTime) {
    if (const auto unit = UnitNextTo(line.text, number)) {
      step_s = unit->is_rate ? unit->seconds / *value : unit->seconds * *value;
    }
  }
  if (step_s && IsTime(*step_s) && !IsOfSameStep(line, number, *step_s)) {
    AddStep(*step_s);
  }
}

std::optional<double> LogScanner::StepNumber(std::string_view text,
                                             std::string_view number) const {
  const auto match =
      (patterns_.step ? *patterns_.step : UsualStep()).Find(text);
  return match.empty() || Overlap(match[1], number)
             ? std::nullopt
             : CommaMeaning(LogPatterns::Comma::kThousands)
                   .Value(NumberAround(text, match[1]));
}

bool LogScanner::IsOfSameStep(const Line& line, std::string_view number,
                              double step_s) {
  const auto step = StepNumber(line.text, number);
  is_numbered_ = is_numbered_.value_or(patterns_.step || step);
  if (*is_numbered_ && !step) {
    return true;
  }
  if (*is_numbered_) {
    // An epoch may count its steps from the beginning.
    constexpr double kMostLag = 16.0;
    const bool is_new = *step > last_number_ ||
                        (!patterns_.step && *step + kMostLag < last_number_);
    last_number_ = is_new ? *step : last_number_;
    ++lines_;
    return !is_new;
  }
  ++lines_;
  const auto stamp = line.now_s ? std::optional(Stamp{*line.now_s, 0.0})
                                : StampOf(Without(line.text, number));
  if (!stamp) {
    loose_.emplace_back(Without(line.text, number), step_s);
    return true;
  }
  const double gap_s =
      stamp->time_s - std::exchange(last_line_s_, stamp->time_s);
  if (lines_ > 1 && gap_s >= 0.0 &&
      gap_s < kPartOfStep * step_s - stamp->resolution_s) {
    if (!has_gaps_) {
      loose_.emplace_back(Without(line.text, number), step_s);
    }
    return true;
  }
  if (lines_ > 1) {
    has_gaps_ = true;
    loose_.clear();
  }
  return false;
}

// A line that ends a step has no time: the clock has. The first lines are held
// where they may be of one step or of short ones.
void LogScanner::TakeEnd(double now_s) {
  const double gap_s = now_s - std::exchange(last_line_s_, now_s);
  const bool is_first = lines_++ == 0;
  if (shortest_s_ ? gap_s < kPartOfStep * *shortest_s_
                  : !is_first && gap_s < kShortStepSeconds &&
                        now_s - last_step_s_ < kLongestHoldSeconds) {
    held_s_.push_back(now_s);
    longest_held_s_ = std::max(longest_held_s_, gap_s);
    return;
  }
  if (shortest_s_ || longest_held_s_ < kPartOfStep * gap_s) {
    held_s_.clear();
  }
  held_s_.push_back(now_s);
  for (const double time_s : std::exchange(held_s_, {})) {
    const double step_s = time_s - std::exchange(last_step_s_, time_s);
    AddStep(step_s);
    if (!is_first) {
      shortest_s_ = std::min(shortest_s_.value_or(step_s), step_s);
    }
  }
}

// Bars of another length are of another loop.
void LogScanner::TakeBar(std::string_view text) {
  const auto match = patterns_.progress_bar ? patterns_.progress_bar->Find(text)
                                            : std::vector<std::string_view>();
  if (match.empty()) {
    return;
  }
  const auto number = [&match](int group) {
    return common::NumberOrNan(match[group]);
  };
  Bar bar{.count = number(1), .total = number(2)};
  for (const std::string_view part : common::Split(match[3], ':')) {
    bar.elapsed_s = 60.0 * bar.elapsed_s + common::NumberOrNan(part);
  }
  bar.step_s = match[5] == "s/it" ? number(4) : 1.0 / number(4);
  if (bars_.empty() ||
      (bar.total == bars_.front().total && bar.count > bars_.back().count)) {
    bars_.push_back(bar);
  }
}

// The rate that a bar shows is smoothed, or a mean since its beginning: the
// slow first steps are in it. The time has them not, but whole seconds.
void LogScanner::AddBars() {
  const double steps = bars_.back().count - bars_.front().count;
  const double seconds = bars_.back().elapsed_s - bars_.front().elapsed_s;
  constexpr double kEnoughSeconds = 20.0;
  if (steps > 0.0 && seconds < kEnoughSeconds) {
    throw std::invalid_argument(fmt::format(
        "its progress bar is {:g} s long, whose rate has the slow first steps "
        "in it: a log of {:g} s tells",
        seconds, kEnoughSeconds));
  }
  AddStep(steps > 0.0 ? seconds / steps : bars_.back().step_s);
}

// Lines of ranks differ by the name of the rank: those of the first one count.
void LogScanner::AddLoose() {
  std::map<std::string, int> lines;
  for (const auto& [line, step_s] : loose_) {
    ++lines[line];
  }
  const int most = lines[loose_.front().first];
  const bool are_ranks =
      lines.size() > 1 && most > 1 &&
      std::ranges::count(loose_.begin(), loose_.begin() + lines.size(),
                         loose_.front().first,
                         &std::pair<std::string, double>::first) == 1 &&
      std::ranges::all_of(lines, [most](const auto& line) {
        return line.second == most || line.second == most - 1;
      });
  for (const auto& [line, step_s] : loose_) {
    if (!are_ranks || line == loose_.front().first) {
      AddStep(step_s);
    }
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
  for (const double time_s : std::exchange(held_s_, {})) {
    if (!shortest_s_) {
      AddStep(time_s - std::exchange(last_step_s_, time_s));
    }
  }
  if (!loose_.empty()) {
    AddLoose();
    loose_.clear();
  }
  if (steps_ == 0 && !bars_.empty()) {
    AddBars();
  }
  if (steps_ == 0 && mean_of_run_s_) {
    AddStep(*mean_of_run_s_);
  }
  return Taken(std::nullopt);
}

std::string LogScanner::Note() const {
  const double each = steps_ == 0 ? 0.0 : static_cast<double>(lines_) / steps_;
  if (each == 0.0 && steps_ > 0 && !bars_.empty()) {
    return "an iteration of its progress bar counts as a step";
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
      steps.peak_memory_bytes = std::max(
          steps.peak_memory_bytes, report.peak_memory_bytes.value_or(0.0));
    }
  };
  std::string lines(text);
  std::ranges::replace(lines, '\r', '\n');
  for (const std::string_view line : common::Split(lines, '\n')) {
    take(scanner.Read(line, std::nullopt));
  }
  take(scanner.Finish());
  steps.note = scanner.Note();
  return steps;
}

}  // namespace trials
