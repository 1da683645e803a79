// Why a configuration is not offered.

#pragma once

#include <string>

#include "jobs/plan/forecast.h"

namespace jobs {

// About the best configuration that has the named values ("dp=8,tp=2", or a
// layout as printed, "dp=8 tp=2 ZeRO-1"): whether, and why not, it is in the
// plan, in sentences: the rule that excludes it, its memory, or how much slower
// it is than the fastest; and the nearest that is offered.
// Errors: throws InputError for text that is not a configuration.
[[nodiscard]] std::string Why(const Forecaster& forecaster,
                              const Forecast& forecast,
                              const std::string& config);

}  // namespace jobs
