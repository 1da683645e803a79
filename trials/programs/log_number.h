// The text of log lines and numbers in it: where they begin and end, their
// decimal mark and unit.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trials/adapters/log_patterns.h"

namespace trials {

// The beginning of a line, up to 4096 bytes, without the codes that color it;
// its spaces are those of ASCII.
[[nodiscard]] std::string PlainText(std::string_view line);

// The whole number of which a pattern found `group`, a part of `line`: a
// pattern that takes the "5" of "12.5", or the "1" of "1,050K", means all of
// it. Empty if there is none, or a part of a clock time or of a percentage.
[[nodiscard]] std::string_view NumberAround(std::string_view line,
                                            std::string_view group);

// The line as an error shows it.
[[nodiscard]] std::string ShownLine(std::string_view line);

// The unit of time that a line writes next to `number`, a part of it: "812 ms",
// "time (ms): 812", "1.6 s/it", "2.5 it/s".
struct StepUnit {
  double seconds = 1.0;
  bool is_rate = false;  // steps in that time
};
// Errors: throws std::invalid_argument for two units, for one that is not of a
// step ("tokens/s") and for an unknown one of time ("cs", "days").
[[nodiscard]] std::optional<StepUnit> UnitNextTo(std::string_view line,
                                                 std::string_view number);

// The seconds of a time in parts, "1h 2m 3.5s", of which `number` is one;
// nothing for other numbers. Errors: throws std::invalid_argument for parts
// that it does not know ("2m45").
[[nodiscard]] std::optional<double> TimeInParts(std::string_view line,
                                                std::string_view number);

// Whether the lines of a log have units. A line without one is cut off where a
// line before it has another one than seconds.
class UnitOfLog {
 public:
  // False: the line is cut off. Errors: throws std::invalid_argument for a unit
  // after several lines without one.
  [[nodiscard]] bool Agrees(std::string_view line,
                            const std::optional<StepUnit>& unit);

 private:
  bool has_unit_ = false;
  int without_ = 0;
};

// What a comma means in the numbers of a log. It is a decimal mark or separates
// thousands where a number proves it: "0,8" and "1,2345", or "1,050.5",
// "1,050,000" and "0.8". "1,050" alone proves nothing.
class CommaMeaning {
 public:
  using Comma = LogPatterns::Comma;

  // `known`: then nothing is learned.
  explicit CommaMeaning(Comma known)
      : comma_(known), is_known_(known != Comma::kUnsettled) {}

  // Errors: throws std::invalid_argument for a log with both.
  void Learn(std::string_view number);
  // Whether only another number can tell the value.
  [[nodiscard]] bool IsOpen(std::string_view number) const;
  // "7,020", "1.22K", "0.5", "2.4e3"; nothing for other text and an open one.
  [[nodiscard]] std::optional<double> Value(std::string_view number) const;

 private:
  Comma comma_;
  bool is_known_;
};

}  // namespace trials
