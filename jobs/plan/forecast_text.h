// A plan as text, JSON and CSV.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.h"
#include "jobs/plan/forecast.h"
#include "trials/objective.h"

namespace jobs {

// The job and its machine in two lines.
[[nodiscard]] std::string JobText(const Job& job);

// The first `most` layouts, one a line; the fastest configuration with its
// error band and AdviceText; what was excluded, and why. JSON also has the job
// and its machine.
[[nodiscard]] std::string ForecastText(const Forecaster& planner,
                                       const Forecast& plan, int most);

[[nodiscard]] common::Json ForecastJson(const Forecaster& planner,
                                        const Forecast& plan, int most);

// A header, and one row for each of the first `most` layouts.
[[nodiscard]] std::string ForecastCsvHeader();
[[nodiscard]] std::string ForecastCsv(const Forecaster& planner,
                                      const Forecast& plan, int most);

// The bands of the prediction of a configuration, in lines.
[[nodiscard]] std::string BandText(const Forecaster& planner,
                                   const Prediction& best);

// What a calibration learned, in one or two lines.
[[nodiscard]] std::string ToString(const Calibration& calibration);

// The best layout of a job on a machine of one of several sizes.
struct ScalePoint {
  MachineSize size;
  std::optional<Prediction> best;
  std::string problem;  // why there is none
  // Throughput per GPU over that of the first that fits.
  double efficiency = 0.0;
};

// With the cost of a billion tokens where `valuation` knows it.
[[nodiscard]] std::string ScaleText(const std::vector<ScalePoint>& points,
                                    const trials::Valuation& valuation);
// Of a step and a billion tokens, in a line; "" without a price or a layout.
[[nodiscard]] std::string CostText(const ScalePoint& point,
                                   const trials::Valuation& valuation);
[[nodiscard]] common::Json CostJson(const ScalePoint& point,
                                    const trials::Valuation& valuation);
[[nodiscard]] common::Json ScaleJson(const std::vector<ScalePoint>& points,
                                     const trials::Valuation& valuation);

}  // namespace jobs
