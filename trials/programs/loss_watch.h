// Whether the output of a training program says that it learns, and its losses.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "trials/measurement.h"

namespace trials {

// Reads the loss in the lines of training frameworks ("lm loss: NAN",
// "{'loss': nan, ...", "train_loss=nan.0"), and the steps that were not
// applied: those of a gradient that is not finite, and those that a loss scaler
// skips. Losses of validation are not looked at.
class LossWatch {
 public:
  // `steps`: that ended before the line.
  void Read(std::string_view line, int steps = 0);
  // A loss that the program reports; from then on, lines have none.
  void Report(int step, double loss);

  // By the number of the step where the first line with a loss has one, else by
  // the steps that ended before. The first loss of a step counts: other ranks
  // and a summary print theirs later.
  [[nodiscard]] const LossCurve& losses() const { return losses_; }

  // The first line with a loss that is not finite; "" if there is none.
  [[nodiscard]] const std::string& not_finite() const { return not_finite_; }

  // Why `steps` steps have trained nothing; "" if they may have.
  [[nodiscard]] std::string WhyNothingIsLearnt(std::size_t steps) const;

 private:
  void ReadLoss(std::string_view text, int steps);

  LossCurve losses_;
  bool reports_ = false;
  std::optional<bool> is_numbered_;
  std::string not_finite_;
  std::size_t skipped_ = 0;  // lines, since a step that was applied
  std::string last_skipped_;
};

}  // namespace trials
