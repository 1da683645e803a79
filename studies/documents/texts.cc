#include "studies/documents/texts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "common/text.h"

namespace studies {
namespace {

double NumberIn(const Record& record, std::string_view column) {
  return common::NumberOrNan(TextIn(record, column));
}

bool IsExtreme(std::string_view condition) {
  return condition.ends_with("=max") || condition.ends_with("=min");
}

bool MeetsOne(const Record& record, std::string_view condition) {
  const std::size_t at = condition.find_first_of("=~");
  const char before = condition[at - 1];
  const bool one_sign = before != '!' && before != '>';
  const auto found = record.find(condition.substr(0, at - (one_sign ? 0 : 1)));
  if (found == record.end()) {
    return false;
  }
  const std::string_view text = condition.substr(at + 1);
  if (condition[at] == '~') {
    return common::Pattern(text).IsIn(found->second);
  }
  if (before == '>') {
    const double other = NumberIn(record, text);
    return common::NumberOrNan(found->second) >=
           (std::isnan(other) ? common::NumberOrNan(text) : other);
  }
  return common::Contains(common::Split(text, '|'),
                          std::string_view(found->second)) == one_sign;
}

// The records with a text in the column that meet the conditions.
Records Choose(const Records& records, std::string_view column,
               std::string_view conditions) {
  Records chosen;
  std::ranges::copy_if(
      records, std::back_inserter(chosen), [&](const Record* record) {
        return !TextIn(*record, column).empty() && Meets(*record, conditions);
      });
  for (const std::string_view each : common::Split(conditions, '&')) {
    if (IsExtreme(each) && !chosen.empty()) {
      const double sign = each.ends_with("=max") ? 1.0 : -1.0;
      chosen = {*std::ranges::max_element(chosen, {}, [&](const auto* record) {
        return sign * NumberIn(*record, each.substr(0, each.find('=')));
      })};
    }
  }
  return chosen;
}

std::string NumberText(double value, std::string_view format) {
  if (!std::isfinite(value)) {
    return std::isinf(value) ? "never" : "";
  }
  const double scale = format.ends_with('%')   ? 100.0
                       : format.ends_with('k') ? 1000.0
                                               : 1.0;
  return fmt::format("{:.{}f}", scale * value, format.front() - '0');
}

// The text of a placeholder; "" if it is unknown.
std::string Shown(const Records& chosen, const std::string& column,
                  const std::string& format) {
  const auto number = [&](const std::string& name) {
    return NumberIn(*chosen.front(), name);
  };
  const auto all = [&](const auto& of) {
    return common::Map(chosen,
                       [&](const auto* one) { return of(*one, column); });
  };
  if (format == "#" || chosen.empty()) {
    return format == "#" ? std::to_string(chosen.size()) : "";
  }
  if (format.empty() || format == "~") {
    return std::string(TextIn(*chosen.front(), column));
  }
  const std::string digits = format.substr(1);
  switch (format.front()) {
    case ',':
      return fmt::format("{}", fmt::join(all(TextIn), ", "));
    case 'p':
      return number(column) < 0.001 ? "< 0.001"
                                    : NumberText(number(column), "3");
    case 'm':
      return NumberText(common::Mean(all(NumberIn)), digits);
    case 'i': {
      const std::string low = NumberText(number(column + "_low"), digits);
      const std::string high = NumberText(number(column + "_high"), digits);
      return NumberText(number(column), digits) +
             (low.empty() || high.empty()
                  ? ""
                  : fmt::format(" [{}, {}]", low, high));
    }
    default:
      return NumberText(number(column), format);
  }
}

}  // namespace

std::string_view TextIn(const Record& record, std::string_view column) {
  const auto found = record.find(column);
  return found == record.end() ? std::string_view() : found->second;
}

bool Meets(const Record& record, std::string_view conditions) {
  return conditions.empty() ||
         std::ranges::all_of(common::Split(conditions, '&'),
                             [&](std::string_view each) {
                               return IsExtreme(each) || MeetsOne(record, each);
                             });
}

Filled Fill(const std::vector<std::string>& patterns, const Records& records) {
  static const common::Pattern placeholder(
      R"(\{([^:?}]+)(?::([^?}]+))?(?:\?([^}]*))?\})");
  Filled filled;
  for (const std::string& pattern : patterns) {
    filled = {};
    std::size_t end = 0;
    for (auto found = placeholder.Find(pattern); !found.empty();
         found = placeholder.Find(pattern, end)) {
      const std::string column(found[1]);
      const std::string value = Shown(Choose(records, column, found[3]), column,
                                      std::string(found[2]));
      const auto begin =
          static_cast<std::size_t>(found[0].data() - pattern.data());
      filled.text += pattern.substr(end, begin - end) + value;
      end = begin + found[0].size();
      if (found[2] != "~") {
        filled.known += value.empty() ? 0 : 1;
        filled.unknown += value.empty() ? 1 : 0;
      }
    }
    filled.text += pattern.substr(end);
    if (filled.unknown == 0) {
      return filled;
    }
  }
  filled.text = filled.known == 0 ? "" : filled.text;
  return filled;
}

}  // namespace studies
