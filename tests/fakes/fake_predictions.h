// Predictions of a search space without a simulator.

#pragma once

#include <functional>
#include <string>

#include "trials/predictions.h"
#include "trials/search_space.h"

namespace fakes {

// Any source: steps take longer with microbatches and stages, and data
// parallelism takes memory. `space` must outlive the result.
[[nodiscard]] inline std::function<trials::Predictions(const std::string&)>
PredictionsOf(const trials::SearchSpace& space) {
  return [&space](const std::string& source) {
    trials::Predictions predictions{.source = "fake " + source};
    for (const trials::ParallelConfig& config : space.configs()) {
      predictions.step_time_s.push_back(1.0 + 0.1 * config.microbatches +
                                        0.3 * config.pp);
      predictions.peak_memory_bytes.push_back(4e9 * config.dp);
    }
    return predictions;
  };
}

}  // namespace fakes
