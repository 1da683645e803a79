// Whether the output of a training program says that it learns.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trials {

// Reads the loss in the lines of training frameworks ("lm loss: NAN",
// "{'loss': nan, ...", "train_loss=nan.0"), and the steps that were not
// applied: those of a gradient that is not finite, and those that a loss scaler
// skips. Losses of validation are not looked at.
class LossWatch {
 public:
  void Read(std::string_view line);

  // The first line with a loss that is not finite; "" if there is none.
  [[nodiscard]] const std::string& not_finite() const { return not_finite_; }

  // Why `steps` steps have trained nothing; "" if they may have.
  [[nodiscard]] std::string WhyNothingIsLearnt(std::size_t steps) const;

 private:
  std::string not_finite_;
  std::size_t skipped_ = 0;  // lines, since a step that was applied
  std::string last_skipped_;
};

}  // namespace trials
