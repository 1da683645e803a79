// The configuration that named values stand for.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jobs/plan/forecast.h"
#include "trials/knobs.h"

namespace jobs {

using Settings = std::vector<std::pair<const trials::Knob*, int>>;

struct Completed {
  trials::ParallelConfig config;
  bool is_candidate = false;  // of the plan
  Settings settings;          // the named values that have an effect
  std::string notes;          // lines about the others
};

// The best configuration that has the named values ("dp=8,tp=2", or a layout as
// printed, "dp=8 tp=2 ZeRO-1"). Where the plan has none, the best with values
// that it does not vary, completed as a candidate is; else one that breaks the
// fewest constraints and rules.
// Errors: throws std::invalid_argument for text that is not a configuration.
[[nodiscard]] Completed CompleteSettings(const Forecaster& forecaster,
                                         const Forecast& forecast,
                                         const std::string& text);

// The offered layout that differs in the fewest of the settings.
// Precondition: there is one.
[[nodiscard]] const Prediction& NearestLayout(const Job& job,
                                              const Forecast& forecast,
                                              const Settings& settings);

// The constraints and rules that a configuration breaks, a sentence each: the
// microbatch size that does not divide the batch, constraints, and rules.
[[nodiscard]] std::vector<std::string> Violations(
    const Job& job, const trials::ParallelConfig& config,
    const std::vector<trials::Rule>& rules);

}  // namespace jobs
