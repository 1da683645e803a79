// Trials for methods to observe.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"

namespace tests {

inline trials::Measurement Completed(std::vector<double> step_times_s,
                                     std::optional<double> memory_bytes = {}) {
  return {.outcome = trials::Outcome::kCompleted,
          .step_times_s = std::move(step_times_s),
          .peak_memory_bytes = memory_bytes};
}

// Of four equal steps.
inline trials::Measurement Completed(double step_s,
                                     std::optional<double> memory_bytes = {}) {
  return Completed(std::vector<double>(4, step_s), memory_bytes);
}

inline trials::Measurement OutOfMemory() {
  return {.outcome = trials::Outcome::kOutOfMemory};
}

// A plan outside of the space that ran.
inline trials::Trial CompletedPlan(double step_s) {
  trials::Trial plan = MakeTrial(-1, {}, Completed(step_s));
  plan.plan = "layers=8 dp=8 tp=1";
  return plan;
}

// Predicts what `of(candidate)` says: seconds of a step and bytes of memory.
template <typename Of>
std::function<trials::Predictions(const std::string&)> PredictionsBy(
    int candidates, Of of,
    double memory_log_stddev = trials::kMemoryLogStddev) {
  return [=](const std::string& source) {
    trials::Predictions predictions{.source = source};
    predictions.memory_log_stddev = memory_log_stddev;
    for (int i = 0; i < candidates; ++i) {
      const auto [step_time_s, memory_bytes] = of(i);
      predictions.step_time_s.push_back(step_time_s);
      predictions.peak_memory_bytes.push_back(memory_bytes);
    }
    return predictions;
  };
}

// Tries all that a method suggests, with what `measure` says of a candidate.
// Returns the candidates in their order.
template <typename Measure>
std::vector<int> TryAll(methods::Method& method,
                        const trials::SearchSpace& space,
                        const Measure& measure) {
  std::vector<int> tried;
  while (const auto suggestion = method.Suggest()) {
    const int candidate = suggestion->candidate;
    tried.push_back(candidate);
    method.Observe(MakeTrial(candidate, space[candidate], measure(candidate)));
  }
  return tried;
}

}  // namespace tests
