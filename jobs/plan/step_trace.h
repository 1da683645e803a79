// A simulated step in the format of traces that Perfetto, chrome://tracing and
// PyTorch's profiler use.

#pragma once

#include <string>

#include "common/json.h"
#include "jobs/plan/forecast.h"

namespace jobs {

// A process for each stage, with a thread for the schedule and one for each
// stream: computation, exposed communication (waiting for another stage
// included, as in a profile), launches. Times are microseconds since the step
// began, and the last event ends with the predicted step. The simulator knows
// how long the parts of an action take and not their order within it:
// computation comes first here. CompareRun reads such traces.
// `most`: actions. Of a step with more, only every second or third stage has
// events and so on, besides the last one and the one that ends last: viewers
// open 20 MB in seconds, and 100 MB slowly.
//
// Source: "Trace Event Format" (Google, 2016), complete events and metadata.
[[nodiscard]] common::Json StepTrace(const Forecaster& forecaster,
                                     const Prediction& one, int most = 25'000);

}  // namespace jobs
