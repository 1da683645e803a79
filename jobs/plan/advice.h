// What a reader of a plan does next: why a configuration is not offered, what
// to change where none is, and how sure the first one is.

#pragma once

#include <string>

#include "jobs/plan/forecast.h"

namespace jobs {

// About the best configuration that has the named values ("dp=8,tp=2", or a
// layout as printed, "dp=8 tp=2 ZeRO-1"): whether, and why not, it is in the
// plan, in sentences: the rule that excludes it, its memory, or how much slower
// it is than the fastest; and the nearest that is offered.
// Errors: throws InputError for text that is not a configuration.
[[nodiscard]] std::string Why(const Forecaster& planner, const Forecast& plan,
                              const std::string& config);

// For a job of which nothing is offered: changes of the request, one at a time,
// each with the fastest configuration that it makes possible. A sentence with a
// newline.
[[nodiscard]] std::string WorkingChanges(const Job& job,
                                         const ForecastOptions& options);

// The memory of a configuration as PyTorch's allocator hands it out, as it
// reserves it, and as the device sees it, which must fit; what decides it.
[[nodiscard]] std::string MemoryText(const Forecaster& planner,
                                     const Prediction& one);

// About the fastest layout: what a step in one parameter costs, which unknown
// changes the choice and from which value on, where more sharding needs more
// memory, and what the layout changes besides speed.
// Precondition: the plan has a layout.
[[nodiscard]] std::string AdviceText(const Forecaster& planner,
                                     const Forecast& plan);

}  // namespace jobs
