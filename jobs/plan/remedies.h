// What to change in a request of which nothing is offered.

#pragma once

#include <string>
#include <vector>

#include "jobs/plan/forecast.h"

namespace jobs {

// A change of a request, and the fastest configuration that it makes possible.
struct Remedy {
  std::string options;  // "--seq 4096"
  Prediction best;
};

// The smallest change of each kind that makes a layout possible; if there is
// none, the first that works of changing framework, batch and GPUs at once.
[[nodiscard]] std::vector<Remedy> Remedies(const Job& job,
                                           const ForecastOptions& options);

// The remedies in a line, "--seq 4096 (dp=16 ZeRO-3, 4.1 s per step)", or what
// to do where there are none.
[[nodiscard]] std::string RemediesText(const Job& job,
                                       const ForecastOptions& options);

}  // namespace jobs
