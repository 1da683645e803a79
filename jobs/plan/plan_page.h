// A plan as one HTML file without references to others.

#pragma once

#include <string>
#include <vector>

#include "common/json.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/plan_grid.h"

namespace jobs {

// The plan of one framework. `json`: of all layouts, as ForecastJson. Without a
// forecaster, `problem` says why.
struct PagePlan {
  const Forecaster* forecaster = nullptr;
  const Forecast* forecast = nullptr;
  common::Json json;
  std::string label;
  std::string problem;
};

// The kinds of layouts of each framework, up to `most`, side by side: a table,
// the step by part, memory by stage, the simulated step as a timeline,
// placement; and the grid, whose steps are answers. The numbers of layouts are
// those of `json`, and everything else is drawn from Forecaster::Record. Text
// is escaped. `header`: lines about the job.
// `per_gpu_hour`: what it costs, or 0.
[[nodiscard]] std::string PlanPage(const std::string& header,
                                   const std::vector<PagePlan>& plans,
                                   const PlanGrid& grid, double per_gpu_hour,
                                   int most);

// The actions of a stage in the order in which they ran, as the page's script
// reads them: "f" (forward), "b" (backward) or "w" (gradients of weights) with
// the chunk, the time that the stage had waited, and the part of it in which
// the input was in transit, in units of `unit_s` in base 36; "!" where
// critical. "3*4" before four actions: they happen three times. The i-th action
// of a kind and chunk is that of microbatch i.
[[nodiscard]] std::string ActionsText(
    const std::vector<trials::ActionRecord>& actions, int period,
    double unit_s);

}  // namespace jobs
