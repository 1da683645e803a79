// Forecasts of a job beside the one that was asked for.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jobs/plan/forecast.h"
#include "jobs/plan/forecast_request.h"
#include "trials/cluster.h"

namespace jobs {

// Values of an option, ascending, among them that of the request.
struct GridAxis {
  std::string option;  // "--batch"
  std::string name;
  std::string unit;
  std::vector<std::string> values;  // as the option takes them
  int present = 0;                  // which of them the request has
};

struct PlanGrid {
  struct Point {
    int gpus = 0;
    std::vector<std::optional<Prediction>> fastest;  // [framework]
  };

  std::vector<GridAxis> axes;
  // Of all values, those of the last axis alternate; without a GPU where more
  // axes than `together` differ from the request.
  std::vector<Point> points;
  int together = 0;
};

// The forecasters of a request, one for each framework; null where no
// configuration is valid.
// Errors: throws InputError for a request that is not valid.
using ForecastersOf = std::function<std::vector<std::unique_ptr<Forecaster>>(
    const ForecastRequest&)>;

// Halves and doubles of the bandwidths, the batch, the length of sequences and
// the GPUs of a request, as far as each alone is a valid request, in all
// combinations of as many of them as forecasts of about `most` configurations
// allow, at least each alone. Every point is the answer to a request.
// `cluster`: of the request. `candidates`: of its forecasts.
[[nodiscard]] PlanGrid MakeGrid(const ForecastRequest& request,
                                const trials::Cluster& cluster,
                                std::int64_t candidates,
                                const ForecastersOf& forecasters_of,
                                std::int64_t most = 1'300'000);

}  // namespace jobs
