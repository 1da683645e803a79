#include "common/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "common/error.h"
#include "common/output.h"
#include "common/ranges.h"

namespace common {

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

std::string Printable(std::string_view text) {
  return PrintableText().Take(text);
}

std::string Shortened(std::string message) {
  constexpr std::size_t kBegin = 1200;
  constexpr std::size_t kEnd = 600;
  if (message.size() <= kBegin + kEnd) {
    return message;
  }
  const auto is_inside_of_a_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(message[at]) & 0xC0U) == 0x80U;
  };
  std::size_t begin = kBegin;
  std::size_t end = message.size() - kEnd;
  while (begin > 0 && is_inside_of_a_character(begin)) {
    --begin;
  }
  while (end < message.size() && is_inside_of_a_character(end)) {
    ++end;
  }
  return message.replace(begin, end - begin,
                         fmt::format(" [... {} bytes ...] ", end - begin));
}

bool IsTooDeep(std::string_view text) {
  int depth = 0;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\' && quote == '"') {
        ++i;
      } else if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestNesting) {
        return true;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> distance(a.size() + 1,
                                         std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        distance[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      distance[i][j] = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                                 distance[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

std::string DidYouMean(std::string_view name,
                       std::span<const std::string> known) {
  // Nobody mistypes a longer name, and the distance takes time and memory in
  // proportion to the product of the lengths.
  constexpr std::size_t kLongest = 200;
  if (name.size() > kLongest) {
    return "";
  }
  const std::string* best = nullptr;
  int best_distance = std::numeric_limits<int>::max();
  for (const std::string& candidate : known) {
    const int distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  const int limit = std::max(1, static_cast<int>(name.size()) / 3);
  if (best == nullptr || best_distance > limit) {
    return "";
  }
  return fmt::format(" (did you mean '{}'?)", *best);
}

std::string UnknownName(std::string_view what, std::string_view name,
                        std::span<const std::string> known) {
  return fmt::format("unknown {} '{}'{}; known: {}", what, name,
                     DidYouMean(name, known), fmt::join(known, ", "));
}

void RequireKnown(std::string_view name, std::span<const std::string> known,
                  std::string_view what) {
  if (!common::Contains(known, name)) {
    throw InputError(UnknownName(what, name, known));
  }
}

void RequireKnown(std::span<const std::string> names,
                  std::span<const std::string> known, std::string_view what) {
  for (const std::string& name : names) {
    RequireKnown(name, known, what);
  }
}

std::string ExactText(double value) {
  if (std::isnan(value)) {
    return "";
  }
  std::array<char, 32> buffer{};
  const auto result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

double ParseDouble(std::string_view text) {
  text = Trim(text);
  if (text.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value = 0.0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument(fmt::format("'{}' is not a number", text));
  }
  return value;
}

double NumberOrNan(std::string_view text) {
  try {
    return ParseDouble(text);
  } catch (const std::invalid_argument&) {
    return std::numeric_limits<double>::quiet_NaN();
  }
}

std::optional<std::int64_t> ParseInt64(std::string_view text, std::int64_t low,
                                       std::int64_t high) {
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
                 value >= low && value <= high
             ? std::optional(value)
             : std::nullopt;
}

std::optional<int> ParseInt(std::string_view text, int low, int high) {
  const std::optional<std::int64_t> value = ParseInt64(text, low, high);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

std::string Thousands(double value) {
  constexpr double kFewDigits = 100.0;
  if (std::abs(value) < kFewDigits) {
    return fmt::format("{:.3g}", value);
  }
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

}  // namespace common
