// A method for tests that tries a list of candidates in order.

#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "methods/method.h"

namespace fakes {

// Suggests each candidate of `script`, then nothing. From the second trial on
// it reports a fit, and stops trials that are slower than `stop_below`.
struct FakeMethod final : public methods::Method {
  explicit FakeMethod(std::vector<int> candidates)
      : Method(/*candidates=*/1000), script(std::move(candidates)) {}

  std::vector<int> script;
  std::optional<double> stop_below_steps_per_s;
  std::vector<double> gains;  // expected gain before trial 2, 3, ...

  [[nodiscard]] std::optional<methods::Suggestion> Suggest() override {
    const auto next = static_cast<std::size_t>(history_.turn());
    if (next == script.size()) {
      return std::nullopt;
    }
    methods::Suggestion suggestion;
    suggestion.candidate = script[next];
    suggestion.chosen_by =
        next == 0 ? trials::ChosenBy::kRandom : trials::ChosenBy::kModel;
    if (stop_below_steps_per_s) {
      suggestion.stop = trials::StopRule{
          .q_min = 3, .best_steps_per_s = *stop_below_steps_per_s};
    }
    if (history_.size() > 0) {
      surrogates::FitSummary summary;
      summary.parameters = {
          {"mean", history_.trials().back().measurement.duration_s},
          {"count", static_cast<double>(next)}};
      suggestion.fits.push_back({"throughput", summary});
      if (next <= gains.size()) {
        suggestion.remaining = trials::Remaining{
            .expected_gain = gains[next - 1], .candidate = script[next]};
      }
    }
    return suggestion;
  }
};

}  // namespace fakes
