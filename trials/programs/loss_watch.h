// Whether the output of a training program says that it learns.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "trials/adapters/log_patterns.h"

namespace trials {

// Reads losses, and the steps that were not applied: those of a gradient that
// is not finite, and those that a loss scaler skips. A step was applied if it
// has a loss and, since the loss before, nothing says that it was skipped.
class LossWatch {
 public:
  // `patterns` must outlive the watch.
  explicit LossWatch(const LogPatterns& patterns) : patterns_(patterns) {}

  void Read(std::string_view line);
  // What a line or a report says: of its loss, if it has one.
  void Take(std::optional<bool> is_finite, bool is_skipped,
            std::string_view line);

  // The first line with a loss that is not finite; "" if there is none.
  [[nodiscard]] const std::string& not_finite() const { return not_finite_; }

  // Why `steps` steps have trained nothing; "" if they may have.
  [[nodiscard]] std::string WhyNothingIsLearnt(std::size_t steps) const;

 private:
  const LogPatterns& patterns_;
  std::string not_finite_;
  std::size_t skipped_ = 0;  // lines, since a step that was applied
  bool is_skipped_ = false;  // since the last loss
  std::string last_skipped_;
};

}  // namespace trials
