#include "trials/programs/trial_pace.h"

#include <algorithm>

namespace trials {

SilenceLimit SilenceLimitOf(double silence_s, double longest_step_s,
                            const TrialPace& pace) {
  constexpr double kSteps = 20.0;
  constexpr double kStarts = 10.0;
  constexpr double kLeast = 60.0;
  const bool steps = longest_step_s > 0.0;
  const double seen_s =
      steps ? kSteps * longest_step_s : kStarts * pace.first_step_s;
  if (seen_s == 0.0 || std::max(kLeast, seen_s) >= silence_s) {
    return {silence_s, "backend.silence_s"};
  }
  return {std::max(kLeast, seen_s),
          steps ? "at least 60, and 20 of its longest steps"
                : "at least 60, and 10 starts of other trials"};
}

double TracebackLimit(double longest_step_s, const TrialPace& pace) {
  constexpr double kSure = 15.0;
  constexpr double kUnsure = 60.0;
  constexpr double kSteps = 2.0;
  const bool sure = pace.first_step_s > 0.0 && !pace.prints_tracebacks;
  return std::max(sure ? kSure : kUnsure, kSteps * longest_step_s);
}

}  // namespace trials
