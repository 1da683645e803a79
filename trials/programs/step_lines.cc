#include "trials/programs/step_lines.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

#include "common/text.h"
#include "trials/programs/log_number.h"

namespace trials {
namespace {

// Lines that arrive within this part of a step are of one step.
constexpr double kPartOfStep = 0.25;

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
  constexpr double kMostLag = 16.0;
  const bool is_new =
      *number > last_ || (pattern.empty() && *number + kMostLag < last_);
  last_ = is_new ? *number : last_;
  return is_new;
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

void StepClock::Take(std::string_view line, std::optional<double> now_s,
                     std::optional<double> number, double step_s) {
  constexpr double kResolutions = 4.0;  // of a clock, in a gap
  const auto time_s = now_s ? std::pair(*now_s, 0.0) : TimeOfDay(line);
  if (!time_s) {
    return;
  }
  const auto last =
      std::exchange(last_, std::pair(time_s->first, number.value_or(0.0)));
  if (last) {
    const double gap_s = time_s->first - last->first;
    const double steps = number ? *number - last->second : 1.0;
    is_clear_ = is_clear_ && steps > 0.0 && gap_s > 0.0 &&
                gap_s >= kResolutions * time_s->second;
    is_numbered_ = is_numbered_ && number;
    resolution_s_ = time_s->second;
    gaps_s_.push_back(gap_s / steps);
    steps_s_.push_back(step_s);
  }
}

std::string StepClock::WhyOther() const {
  constexpr std::size_t kFewest = 2;
  constexpr double kFar = 2.0;
  // Output may come late, all at once; and short steps have other work around.
  constexpr double kAlike = 2.0;
  constexpr double kLeastSeconds = 0.2;
  if (!is_clear_ || gaps_s_.size() < kFewest) {
    return "";
  }
  const auto [least_s, most_s] = std::ranges::minmax(gaps_s_);
  const auto [short_s, long_s] = std::ranges::minmax(steps_s_);
  const bool is_part = is_numbered_ && least_s > kFar * long_s + kLeastSeconds;
  // To the millisecond on whole seconds: a ticker's lines, or made up.
  const bool is_ticker = resolution_s_ < 1.0 &&
                         most_s - least_s < 0.5 * resolution_s_ &&
                         std::abs(most_s - std::round(most_s)) < resolution_s_;
  if (is_ticker) {
    return "";
  }
  const bool is_several = kFar * most_s < short_s &&
                          most_s < kAlike * least_s && least_s > kLeastSeconds;
  return is_part || is_several
             ? fmt::format(
                   "the log has a step each {:.3g} s, and the pattern "
                   "finds {:.3g} s, the time of {}: name the time of "
                   "one whole step",
                   most_s, short_s,
                   is_part ? "a part of a step" : "several steps")
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
    }
  }
  return steps_s;
}

void ProgressBar::Take(const std::vector<std::string_view>& match) {
  const auto number = [&match](int group) {
    return common::NumberOrNan(match[group]);
  };
  double elapsed_s = 0.0;
  for (const std::string_view part : common::Split(match[3], ':')) {
    elapsed_s = 60.0 * elapsed_s + common::NumberOrNan(part);
  }
  const Bar bar = {number(1), number(2), elapsed_s,
                   match[5] == "s/it" ? number(4) : 1.0 / number(4)};
  if (!last_ || (bar.total == last_->total && bar.count > last_->count)) {
    last_ = bar;
    first_ = first_.value_or(bar);
  }
}

double ProgressBar::StepTime() const {
  const double steps = last_->count - first_->count;
  const double seconds = last_->elapsed_s - first_->elapsed_s;
  constexpr double kEnoughSeconds = 20.0;
  if (steps > 0.0 && seconds < kEnoughSeconds) {
    throw std::invalid_argument(fmt::format(
        "its progress bar is {:g} s long, whose rate has the slow first steps "
        "in it: a log of {:g} s tells",
        seconds, kEnoughSeconds));
  }
  return steps > 0.0 ? seconds / steps : last_->step_s;
}

}  // namespace trials
