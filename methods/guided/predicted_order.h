// PREDICTED ORDER: tries candidates in the order of predictions.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"

namespace methods {

// Tries candidates in the order of trials::Order: by predicted step time and by
// the probability that the predicted memory fits.
// It learns nothing from trials. It is the baseline for methods that correct
// predictions.
struct PredictedOrderOptions {
  std::string predictions;
};

[[nodiscard]] std::vector<Option> OptionsOf(PredictedOrderOptions& options);
[[nodiscard]] inline std::optional<std::string> PredictionsOf(
    const PredictedOrderOptions& options) {
  return options.predictions;
}

[[nodiscard]] std::unique_ptr<Method> MakePredictedOrder(
    const Problem& problem, const PredictedOrderOptions& options,
    std::uint64_t seed);

}  // namespace methods
