#include "trials/programs/step_lines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/statistics.h"
#include "common/text.h"
#include "trials/programs/log_number.h"

namespace trials {
namespace {

// Lines that arrive within this part of a step are of one step.
constexpr double kPartOfStep = 0.25;

// The time of a bar has whole seconds.
constexpr double kLeastSecondsOfBar = 4.0;
constexpr double kEnoughSecondsOfBar = 20.0;

// The time of day that a line begins with, or has somewhere, and its
// resolution.
std::optional<std::pair<double, double>> TimeOfDay(std::string_view line) {
  static const common::Pattern stamp(
      R"((?:^|\D)(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?)");
  const auto match = stamp.Find(line);
  if (match.empty()) {
    return std::nullopt;
  }
  const auto number = [&](int group) {
    return common::ParseDouble(match[group]);
  };
  const double seconds = 3600.0 * number(1) + 60.0 * number(2) + number(3);
  return match[4].empty()
             ? std::pair(seconds, 1.0)
             : std::pair(
                   seconds + common::ParseDouble("0." + std::string(match[4])),
                   0.001);
}

}  // namespace

std::optional<bool> NumberedSteps::IsNew(
    const LogPatterns::Expressions& pattern, std::string_view line,
    std::string_view value) {
  const auto match =
      Find(pattern.empty() ? UsualLogPatterns().step : pattern, line);
  if (match.empty() || (match[1].data() < value.data() + value.size() &&
                        value.data() < match[1].data() + match[1].size())) {
    return std::nullopt;
  }
  const auto number = CommaMeaning(LogPatterns::Comma::kThousands)
                          .Value(NumberAround(line, match[1]));
  if (!number) {
    return std::nullopt;
  }
  number_ = *number;
  constexpr double kMostLag = 16.0;
  const bool is_new =
      *number > last_ || (pattern.empty() && *number + kMostLag < last_);
  last_ = is_new ? *number : last_;
  return is_new;
}

std::size_t RunsOfFile::LastRun() const {
  constexpr double kAlike = 1.25;  // times of ranks
  std::map<double, std::vector<double>> times_s;
  std::vector<double> ratios;
  const auto add = [&ratios](const std::vector<double>& of_step_s) {
    const auto [least_s, most_s] = std::ranges::minmax(of_step_s);
    ratios.push_back(most_s / least_s);
  };
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    times_s[lines_[i].number].push_back(lines_[i].step_s);
    if (i > 0 && lines_[i].number < lines_[i - 1].number) {
      begins.push_back(i);
      add({lines_[i].step_s, lines_[i - 1].step_s});
    }
  }
  for (const auto& [number, of_step_s] : times_s) {
    if (of_step_s.size() > 1) {
      add(of_step_s);
    }
  }
  if (ratios.empty() || common::Median(ratios) < kAlike) {
    return 0;
  }
  if (begins.empty() || 4 * begins.size() > lines_.size()) {
    throw std::invalid_argument(
        "its lines of one step have times that differ by more than those of "
        "ranks, as if two runs wrote at the same time: a log of one run tells");
  }
  if (begins.back() + 1 == lines_.size()) {
    throw std::invalid_argument(
        "its last run has one step, and the first step of a run is slow: cut "
        "the log to the lines of one run");
  }
  return lines_[begins.back()].line;
}

std::optional<bool> TimedSteps::IsNew(std::string_view line,
                                      std::optional<double> now_s,
                                      double step_s) {
  const auto time_s = now_s ? std::pair(*now_s, 0.0) : TimeOfDay(line);
  if (!time_s) {
    return std::nullopt;
  }
  const auto last_s = std::exchange(last_s_, time_s->first);
  const double gap_s = time_s->first - last_s.value_or(0.0);
  const bool is_new =
      !last_s || gap_s < 0.0 || gap_s >= kPartOfStep * step_s - time_s->second;
  tell_ |= is_new && last_s;
  return is_new;
}

void StepGaps::Take(double time_s, double number, double enough_s) {
  const double gap_s = from_ ? time_s - from_->first : -1.0;
  const double steps = from_ ? number - from_->second : -1.0;
  last_ = {time_s, number};
  if (gap_s >= 0.0 && steps >= 0.0) {
    if (gap_s < enough_s || steps == 0.0) {
      return;
    }
    Add(gap_s, steps);
  }
  from_ = last_;
}

void StepGaps::Restart(double least_s) {
  if (from_ && last_.first - from_->first >= least_s) {
    Add(last_.first - from_->first, last_.second - from_->second);
  }
  from_.reset();
}

void StepGaps::Add(double gap_s, double steps) {
  each_s_.push_back(gap_s / steps);
  counts_.push_back(steps);
  seconds_ += gap_s;
  steps_ += steps;
  most_steps_ = std::max(most_steps_, steps);
}

double StepGaps::Typical() const {
  constexpr double kAlike = 1.75;
  const double median_s = common::Median(each_s_);
  double seconds = 0.0;
  double steps = 0.0;
  for (std::size_t i = 0; i < each_s_.size(); ++i) {
    if (each_s_[i] <= kAlike * median_s && median_s <= kAlike * each_s_[i]) {
      seconds += counts_[i] * each_s_[i];
      steps += counts_[i];
    }
  }
  return steps > 0.0 ? seconds / steps : median_s;
}

void StepClock::Take(std::string_view line, std::optional<double> now_s,
                     std::optional<double> number, double step_s) {
  constexpr double kResolutions = 4.0;  // of a clock, in a gap
  // Lines of one piece of output are read in much less.
  constexpr double kLeastSeconds = 0.01;
  const auto time_s = now_s ? std::pair(*now_s, 0.0) : TimeOfDay(line);
  if (time_s) {
    steps_s_.push_back(step_s);
    now_s_ = now_s;
    is_numbered_ = is_numbered_ && number;
    resolution_s_ = time_s->second;
    gaps_.Take(time_s->first,
               number.value_or(static_cast<double>(steps_s_.size())),
               std::max(kLeastSeconds, kResolutions * resolution_s_));
  }
}

std::string StepClock::WhyMoreThanTheTrial(double found_s) const {
  constexpr double kMore = 1.25;
  constexpr double kStartSeconds = 1.0;  // which take longer
  const auto lines = static_cast<double>(steps_s_.size());
  return now_s_ &&
                 lines * found_s > kMore * (*now_s_ - begin_s_) + kStartSeconds
             ? fmt::format(
                   "the pattern finds {:g} steps of {:.3g} s in a trial of "
                   "{:.3g} s: another unit, a mean with slow first steps, or "
                   "the time of several steps; name the time of one step, and "
                   "print its unit",
                   lines, found_s, *now_s_ - begin_s_)
             : "";
}

std::string StepClock::WhyOther() const {
  constexpr std::size_t kFewest = 2;
  constexpr double kFar = 2.0;
  constexpr double kNumberedFar = 1.4;     // no line leaves a step out
  constexpr double kAroundSeconds = 0.02;  // what steps have around them
  // More than the clock has is impossible.
  constexpr double kMore = 1.08;
  const double found_s = common::Median(steps_s_);
  const auto lines = static_cast<double>(steps_s_.size());
  if (std::string why = WhyMoreThanTheTrial(found_s); !why.empty()) {
    return why;
  }
  const std::vector<double>& each_s = gaps_.each_s();
  if (each_s.size() < kFewest) {
    return "";
  }
  const double clock_s = common::Median(each_s);
  const auto [least_s, most_s] = std::ranges::minmax(each_s);
  // To the millisecond on whole seconds: a ticker's lines, or made up.
  const bool is_ticker = resolution_s_ < 1.0 &&
                         most_s - least_s < 0.5 * resolution_s_ &&
                         std::abs(most_s - std::round(most_s)) < resolution_s_;
  if (is_ticker) {
    return "";
  }
  const bool is_part =
      clock_s > (is_numbered_ ? kNumberedFar : kFar) * found_s + kAroundSeconds;
  // Lines that come together are late, as are the last ones of a log. A few
  // slow steps, such as the first, are no more than there was.
  const double usual_s =
      std::min(found_s, common::Mean({steps_s_.begin() + 1, steps_s_.end()}));
  const bool is_several =
      (gaps_.steps() - gaps_.most_steps()) * usual_s >
          kMore * gaps_.seconds() + resolution_s_ ||
      (2.0 * static_cast<double>(each_s.size()) >= lines - 1.0 &&
       found_s > kFar * clock_s && gaps_.steps() * found_s > gaps_.seconds());
  return is_part || is_several
             ? fmt::format(
                   "the log has a step each {:.3g} s, and the pattern finds "
                   "{:.3g} s, the time of {}: name the time of one whole step"
                   "{}",
                   clock_s, found_s,
                   is_part ? "a part of a step"
                           : "several steps or a mean with slow first steps",
                   is_part && !is_numbered_
                       ? ", or print the number of the step, too, if lines "
                         "leave steps out"
                       : "")
             : "";
}

std::vector<double> EveryLine::Steps() const {
  std::map<std::string_view, int> counts;
  for (const auto& [line, step_s] : lines) {
    ++counts[line];
  }
  const std::string first = lines.empty() ? "" : lines.front().first;
  const int most = counts[first];
  const bool are_ranks =
      counts.size() > 1 && most > 1 &&
      std::ranges::count(lines.begin(), lines.begin() + counts.size(), first,
                         &std::pair<std::string, double>::first) == 1 &&
      std::ranges::all_of(counts, [most](const auto& line) {
        return line.second == most || line.second == most - 1;
      });
  std::vector<double> steps_s;
  for (const auto& [line, step_s] : lines) {
    if (!are_ranks || line == first) {
      steps_s.push_back(step_s);
    }
  }
  return steps_s;
}

std::vector<double> EndedSteps::Take(double now_s) {
  // Slower lines need not be held, and none for longer.
  constexpr double kShortStepSeconds = 0.05;
  constexpr double kLongestHoldSeconds = 2.0;
  const double gap_s = now_s - std::exchange(last_line_s_, now_s);
  const bool is_held = shortest_s_
                           ? gap_s < kPartOfStep * *shortest_s_
                           : !is_first_ && gap_s < kShortStepSeconds &&
                                 now_s - last_step_s_ < kLongestHoldSeconds;
  if (!is_held && (shortest_s_ || longest_held_s_ < kPartOfStep * gap_s)) {
    held_s_.clear();
  }
  held_s_.push_back(now_s);
  if (is_held) {
    longest_held_s_ = std::max(longest_held_s_, gap_s);
    return {};
  }
  std::optional<double> shortest_s = std::exchange(shortest_s_, std::nullopt);
  const std::vector<double> steps_s = Finish();
  if (!std::exchange(is_first_, false)) {
    shortest_s_ = std::min(shortest_s.value_or(steps_s.front()),
                           *std::ranges::min_element(steps_s));
  }
  return steps_s;
}

std::vector<double> EndedSteps::Finish() {
  std::vector<double> steps_s;
  for (const double time_s : std::exchange(held_s_, {})) {
    if (!shortest_s_) {
      steps_s.push_back(time_s - std::exchange(last_step_s_, time_s));
      least_s_ = std::min(least_s_, steps_s.back());
    }
  }
  return steps_s;
}

void EndedSteps::TakeOther(double now_s) {
  if (now_s - last_step_s_ > kPartOfStep * least_s_) {
    held_s_.clear();
    last_line_s_ = last_step_s_ = now_s;
  }
}

void ProgressBar::Take(const std::vector<std::string_view>& match) {
  const auto number = [&match](int group) {
    return common::NumberOrNan(match[group]);
  };
  double elapsed_s = 0.0;
  for (const std::string_view part : common::Split(match[3], ':')) {
    elapsed_s = 60.0 * elapsed_s + common::NumberOrNan(part);
  }
  const double total = number(2);
  auto bar = std::ranges::find(bars_, total, &Bar::total);
  if (bar == bars_.end()) {
    if (has_ended_ && bars_.empty()) {
      return;
    }
    bar = bars_.insert(bar, {.total = total, .first = number(1)});
  }
  bar->seconds = std::max(bar->seconds, elapsed_s);
  const bool is_back = std::exchange(total_, total) != total;
  if (is_back) {
    bar->gaps.Restart(kLeastSecondsOfBar);
  }
  bar->goes_on |= is_back && bar->count > 0.0 && number(1) >= bar->count;
  if (number(1) > bar->count) {
    bar->count = number(1);
    bar->step_s = match[5] == "s/it" ? number(4) : 1.0 / number(4);
    bar->gaps.Take(elapsed_s, bar->count, kEnoughSecondsOfBar);
  }
}

void ProgressBar::TakeOther() {
  for (Bar& bar : bars_) {
    bar.gaps.Restart(kLeastSecondsOfBar);
    bar.is_other |= bars_.size() > 1 && bar.total == total_ &&
                    bar.count == bar.total && !bar.goes_on;
  }
}

double ProgressBar::StepTime() const {
  std::vector<Bar> bars = bars_;
  std::erase_if(bars, [](Bar& bar) {
    bar.gaps.Restart(kLeastSecondsOfBar);
    return bar.is_other;
  });
  const auto is_short = [](const Bar& bar) {
    return bar.gaps.seconds() < kEnoughSecondsOfBar;
  };
  // A bar after one that has ended may be the one of training, too.
  if (bars.size() > 1 &&
      (is_short(bars[0]) || bars[0].goes_on || bars[0].count < bars[0].total) &&
      !std::ranges::all_of(bars, is_short)) {
    std::erase_if(bars, is_short);
  }
  if (bars.size() > 1 && std::ranges::count(bars, true, &Bar::goes_on) == 1) {
    std::erase_if(bars, [](const Bar& bar) { return !bar.goes_on; });
  }
  if (bars.size() > 1) {
    throw std::invalid_argument(fmt::format(
        "it has progress bars of {:g} and of {:g}, either of which may be that "
        "of training: cut the log to the lines of one",
        bars[0].total, bars[1].total));
  }
  const Bar& bar = bars.empty() ? bars_.front() : bars.front();
  const bool has_gap = !bars.empty() && !is_short(bar);
  if (!has_gap && (bar.count > bar.first || bar.count <= 1.0)) {
    throw std::invalid_argument(fmt::format(
        "its progress bar is at {:g} of {:g} after {:g} s, and its rate has "
        "the slow first steps in it: {:g} s of steps between its lines, with "
        "no other loop among them, tell",
        bar.count, bar.total, bar.seconds, kEnoughSecondsOfBar));
  }
  return has_gap ? bar.gaps.Typical() : bar.step_s;
}

}  // namespace trials
