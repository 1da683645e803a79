// How long a trial may be silent, by what trials have shown.

#pragma once

namespace trials {

// What completed trials have shown of the next ones.
struct TrialPace {
  double first_step_s = 0.0;  // the longest time to the end of it; 0: unknown
  bool prints_tracebacks = false;  // and trains nevertheless
};

// A time without a report after which a trial hangs, and where it comes from.
struct SilenceLimit {
  double seconds = 0.0;
  const char* why = "";  // for display
};

// `silence_s`, which the user sets, or less: 20 of the trial's longest steps,
// or before the first one (longest_step_s = 0) ten times what other trials
// needed for it; these are at least 60 s.
[[nodiscard]] SilenceLimit SilenceLimitOf(double silence_s,
                                          double longest_step_s,
                                          const TrialPace& pace);

// A time in which nothing is printed after a traceback, which has failed then:
// 15 s where trials are known to train without one, else 60; at least two
// steps.
[[nodiscard]] double TracebackLimit(double longest_step_s,
                                    const TrialPace& pace);

}  // namespace trials
