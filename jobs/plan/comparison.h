// Two configurations side by side: layouts, machines or frameworks.

#pragma once

#include <cstddef>
#include <string>

#include "common/json.h"
#include "jobs/plan/forecast.h"

namespace jobs {

struct ComparedSide {
  std::string name;  // "torchtitan, dp=64 ZeRO-3"
  Prediction one;
  trials::StepReport report;
  double allowed_bytes = 0.0;  // of a GPU, with the headroom free
  std::string notes;           // lines on words without effect

  [[nodiscard]] bool Fits() const {
    return one.peak_memory_bytes <= allowed_bytes;
  }
};

// The configuration that the words name, or the fastest one for "".
// Errors: throws InputError, which names --compare, for words that name no
// configuration, for one that the framework cannot run, and if nothing fits.
[[nodiscard]] ComparedSide SideOf(const Forecaster& forecaster,
                                  const std::string& words);

// A table of the two with the difference of each part of step and memory, and a
// sentence about the largest ones; of tokens per second per GPU, as machines
// may have more GPUs or batches.
[[nodiscard]] std::string ComparisonText(const ComparedSide& first,
                                         const ComparedSide& second,
                                         std::size_t columns);
[[nodiscard]] common::Json ComparisonJson(const ComparedSide& first,
                                          const ComparedSide& second);

}  // namespace jobs
