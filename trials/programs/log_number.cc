#include "trials/programs/log_number.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"

namespace trials {
namespace {

using Comma = LogPatterns::Comma;

constexpr std::size_t kLongestLine = 4096;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The parts of a number: digits and marks, exponent, suffix.
std::vector<std::string_view> PartsOf(std::string_view number) {
  static const common::Pattern parts(
      "^([0-9.,]*[0-9][0-9.,]*?)([eE][-+]?[0-9]+)?([KMBTPE])?[.,]*$");
  return parts.Find(number);
}

// Digits and marks: "1050"; "1,050"; "1,050.5", "1,050,000" and "0.8"; "0,8"
// and "1.050,8"; and others.
enum class Form { kInteger, kOpen, kPoint, kComma, kNone };

Form FormOf(std::string_view digits) {
  static const std::array<std::pair<common::Pattern, Form>, 4> forms = {
      {{common::Pattern(R"(^\d+$)"), Form::kInteger},
       {common::Pattern(R"(^[1-9]\d{0,2},\d{3}$)"), Form::kOpen},
       {common::Pattern(R"(^(\d*|[1-9]\d{0,2}(,\d{3})+)\.\d+$|)"
                        R"(^[1-9]\d{0,2}(,\d{3}){2,}$)"),
        Form::kPoint},
       {common::Pattern(R"(^(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+$)"),
        Form::kComma}}};
  for (const auto& [pattern, form] : forms) {
    if (pattern.IsIn(digits)) {
      return form;
    }
  }
  return Form::kNone;
}

// "ms", "s/it", "steps/s". Errors: throws for a rate of something else.
std::optional<StepUnit> UnitCalled(std::string_view word) {
  static const common::Pattern unit(
      "^(?:((?:it|iter|iteration|step)s?)/)?(?:(ns|nsecs?|nanoseconds?)|"
      "(us|\xC2\xB5s|\xCE\xBCs|usecs?|microseconds?)|"
      "(ms|msecs?|millis(?:econds?)?)|(s|secs?|seconds?)|(m|mins?|minutes?)|"
      "(h|hrs?|hours?))(?:/(?:it|iter|iteration|step))?$");
  static const common::Pattern other(
      "^(?:[cdfkp]s|(?:centi|deci|kilo|pico)seconds?|days?|weeks?|ticks?|"
      "cycles?|jiffies)$");
  constexpr std::array kSeconds = {1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0};
  const auto match = unit.Find(word);
  for (std::size_t i = 0; !match.empty() && i < kSeconds.size(); ++i) {
    if (!match[i + 2].empty()) {
      return StepUnit{kSeconds[i], !match[1].empty()};
    }
  }
  if (word.find('/') != std::string_view::npos || other.IsIn(word)) {
    throw std::invalid_argument(fmt::format(
        "the log has '{}' next to what the pattern takes for the time of a "
        "step: name a time in h, min, s, ms, us or ns",
        word));
  }
  return std::nullopt;
}

}  // namespace

std::string PlainText(std::string_view line) {
  static const common::Pattern code(
      R"(\x1b\[[0-9;]*[A-Za-z]|(\xC2\xA0|\xE2\x80[\x89\xAF]))");
  line = line.substr(0, kLongestLine);
  std::string text;
  while (!line.empty()) {
    const auto found = code.Find(line);
    const std::size_t length =
        found.empty() ? line.size() : found[0].data() - line.data();
    text += line.substr(0, length);
    text += found.empty() || found[1].empty() ? "" : " ";
    line.remove_prefix(found.empty() ? length : length + found[0].size());
  }
  return text;
}

std::string_view NumberAround(std::string_view line, std::string_view group) {
  const auto is_part = [](char c) {
    return IsDigit(c) || c == '.' || c == ',';
  };
  const auto digit = std::ranges::find_if(group, IsDigit);
  if (digit == group.end() || group.starts_with('-')) {
    return {};
  }
  std::size_t begin = digit - line.begin();
  while (begin > 0 && is_part(line[begin - 1])) {
    --begin;
  }
  static const common::Pattern rest(
      R"(^[.,]*([0-9.,]*[0-9](?:[eE][-+]?[0-9]+)?(?:[KMBTPE]\b)?)(:[0-9]|%)?)");
  const auto whole = rest.Find(line.substr(begin));
  if (whole.empty() || !whole[2].empty() ||
      (begin > 1 && line[begin - 1] == ':' && IsDigit(line[begin - 2]))) {
    return {};
  }
  // "(0.9,0.8)" is no number; then the pattern knows better.
  const CommaMeaning any(Comma::kUnsettled);
  return any.IsOpen(whole[1]) || any.Value(whole[1]) ? whole[1] : group;
}

std::string ShownLine(std::string_view line) {
  constexpr std::size_t kLongest = 160;  // bytes
  return common::Printable(line.substr(0, kLongest));
}

std::optional<StepUnit> UnitNextTo(std::string_view line,
                                   std::string_view number) {
  static const common::Pattern before(
      R"([ _(\['"]([a-z]+)[)\]]?['"]?[:=] *['"]?$)");
  static const common::Pattern after(
      R"(^(?:['"]? ?\(?([a-zA-Z\x80-\xff]+(?:/[a-zA-Z]+)?)(?:[^a-zA-Z/:=]|$)|)"
      R"(([a-zA-Z\x80-\xff]+(?:/[a-zA-Z]+)?)[:=]))");
  const std::size_t begin = number.data() - line.data();
  const auto ahead = before.Find(line.substr(0, begin));
  const auto behind = after.Find(line.substr(begin + number.size()));
  const std::string_view word =
      behind.empty() ? "" : behind[behind[1].empty() ? 2 : 1];
  const auto unit = UnitCalled(word);
  const auto label = ahead.empty() || ahead[1] == "m" || ahead[1] == "h"
                         ? std::nullopt
                         : UnitCalled(ahead[1]);
  if (unit && label && (unit->seconds != label->seconds || unit->is_rate)) {
    throw std::invalid_argument(
        fmt::format("the log has both '{}' and '{}' next to the time of a step",
                    ahead[1], word));
  }
  return unit ? unit : label;
}

std::optional<double> TimeInParts(std::string_view line,
                                  std::string_view number) {
  static const common::Pattern ahead(
      R"((?:^|[^\w.,])((?:\d+ ?(?:h|hrs?|hours?|m|mins?|minutes?|s) ?)+)$)");
  static const common::Pattern parts(
      R"(^(?:(\d+) ?(?:h|hrs?|hours?) ?)?(?:(\d+) ?(?:m|mins?|minutes?) ?)?)"
      R"((?:(\d+) ?s ?(\d+) ?ms|(\d+(?:\.\d+)?) ?(?:s|secs?|seconds?))?)"
      R"((?:[^\w/]|$))");
  static const common::Pattern cut(
      R"(^\d[\d.]* ?(?:h|hrs?|hours?|m|mins?|minutes?)(?:\d|,? ?(?:and )?\d)"
      R"([\d.,]* ?(?:m|mins?|minutes?|s|secs?|seconds?)(?:[^\w/]|$)))");
  std::size_t begin = number.data() - line.data();
  if (const auto before = ahead.Find(line.substr(0, begin)); !before.empty()) {
    begin -= before[1].size();
  }
  const auto match = parts.Find(line.substr(begin));
  constexpr std::array kSeconds = {3600.0, 60.0, 1.0, 1e-3, 1.0};
  int count = 0;
  double seconds = 0.0;
  for (std::size_t i = 0; !match.empty() && i < kSeconds.size(); ++i) {
    count += match[i + 1].empty() ? 0 : 1;
    seconds += match[i + 1].empty()
                   ? 0.0
                   : kSeconds[i] * common::NumberOrNan(match[i + 1]);
  }
  if (count > 1) {
    return seconds;
  }
  if (cut.IsIn(line.substr(begin))) {
    throw std::invalid_argument(fmt::format(
        "'{}' has a time in parts: print it in seconds, or as '1h 2m 3.5s'",
        ShownLine(line)));
  }
  return std::nullopt;
}

bool UnitOfLog::Agrees(std::string_view line,
                       const std::optional<StepUnit>& unit) {
  if (!unit) {
    ++without_;
    return !has_unit_;
  }
  if (unit->seconds != 1.0 || unit->is_rate) {
    if (!has_unit_ && without_ > 1) {
      throw std::invalid_argument(fmt::format(
          "'{}' has a unit, and {} lines before it have none: print it in each",
          ShownLine(line), without_));
    }
    has_unit_ = true;
  }
  return true;
}

void CommaMeaning::Learn(std::string_view number) {
  const auto parts = PartsOf(number);
  const Form form = parts.empty() ? Form::kNone : FormOf(parts[1]);
  if (is_known_ || (form != Form::kPoint && form != Form::kComma)) {
    return;
  }
  const Comma proven =
      form == Form::kPoint ? Comma::kThousands : Comma::kDecimal;
  if (comma_ != Comma::kUnsettled && comma_ != proven) {
    throw std::invalid_argument(fmt::format(
        "'{}': a decimal {} where other numbers of the log have a decimal {}",
        number, form == Form::kPoint ? "point" : "comma",
        form == Form::kPoint ? "comma" : "point"));
  }
  comma_ = proven;
}

bool CommaMeaning::IsOpen(std::string_view number) const {
  const auto parts = PartsOf(number);
  return comma_ == Comma::kUnsettled && !parts.empty() &&
         FormOf(parts[1]) == Form::kOpen;
}

std::optional<double> CommaMeaning::Value(std::string_view number) const {
  const auto parts = PartsOf(number);
  const Form form = parts.empty() ? Form::kNone : FormOf(parts[1]);
  if (form == Form::kNone ||
      (form == Form::kOpen && comma_ == Comma::kUnsettled) ||
      (form == Form::kComma && comma_ == Comma::kThousands)) {
    return std::nullopt;
  }
  std::string digits(parts[1]);
  if (form == Form::kComma ||
      (form == Form::kOpen && comma_ == Comma::kDecimal)) {
    std::erase(digits, '.');
    std::ranges::replace(digits, ',', '.');
  }
  std::erase(digits, ',');
  constexpr std::string_view kSuffixes = "KMBTPE";
  const double power =
      parts[3].empty()
          ? 0.0
          : static_cast<double>(kSuffixes.find(parts[3].front())) + 1.0;
  const double value = common::NumberOrNan(digits.append(parts[2]));
  return std::isnan(value) ? std::nullopt
                           : std::optional(value * std::pow(1e3, power));
}

}  // namespace trials
