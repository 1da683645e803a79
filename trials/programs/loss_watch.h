// Whether the output of a training program says that it learns, and its losses.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "trials/adapters/log_patterns.h"
#include "trials/measurement.h"

namespace trials {

// Reads losses, and the steps that were not applied: those of a gradient that
// is not finite, and those that a loss scaler skips. A step was applied if it
// has a loss and, since the loss before, nothing says that it was skipped.
class LossWatch {
 public:
  // `patterns` must outlive the watch.
  explicit LossWatch(const LogPatterns& patterns) : patterns_(patterns) {}

  // `steps`: that ended before the line.
  void Read(std::string_view line, int steps = 0);
  // What the program itself says of a step; NaN: its loss is not finite. After
  // a loss, those of lines do not count.
  void Report(std::optional<double> loss, bool is_skipped,
              std::string_view line, int step);

  // By the number of the step where the first line with a loss has one, else by
  // the steps that ended before. The first loss of a step counts: other ranks
  // and a summary print theirs later. All are finite.
  [[nodiscard]] const LossCurve& losses() const { return losses_; }

  // The first line with a loss that is not finite; "" if there is none.
  [[nodiscard]] const std::string& not_finite() const { return not_finite_; }

  // Why `steps` steps have trained nothing; "" if they may have.
  [[nodiscard]] std::string WhyNothingIsLearnt(std::size_t steps) const;

 private:
  void Take(std::optional<double> loss, bool is_skipped, std::string_view line);
  // The number of the step that a line with a loss is of, if it has one as
  // others have.
  [[nodiscard]] std::optional<int> StepOf(std::string_view text, int steps);

  const LogPatterns& patterns_;
  LossCurve losses_;
  bool reports_ = false;  // the program reports losses
  std::optional<bool> is_numbered_;
  std::string not_finite_;
  std::size_t skipped_ = 0;  // lines, since a step that was applied
  bool is_skipped_ = false;  // since the last loss
  std::string last_skipped_;
};

}  // namespace trials
