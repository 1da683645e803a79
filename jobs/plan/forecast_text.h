// A plan as text, JSON and CSV.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json.h"
#include "jobs/plan/forecast.h"
#include "trials/objective.h"

namespace jobs {

// The job and its machine in two lines.
[[nodiscard]] std::string JobText(const Job& job);

// How a forecast is printed.
struct TextStyle {
  int most = 5;             // layouts
  bool details = false;     // all that is known of the fastest one
  std::size_t columns = 0;  // of the terminal; 0: lines of any length
};

// The fastest layout of each kind, one a line; the fastest configuration with
// its error band, and its command. Details: what shares its step has, releases,
// memory, RobustnessText; what was excluded, and why. JSON also has the job and
// its machine.
[[nodiscard]] std::string ForecastText(const Forecaster& forecaster,
                                       const Forecast& forecast,
                                       const TextStyle& style);

[[nodiscard]] common::Json ForecastJson(const Forecaster& forecaster,
                                        const Forecast& forecast, int most);

// A header, and one row for each of the first `most` layouts.
[[nodiscard]] std::string ForecastCsvHeader();
[[nodiscard]] std::string ForecastCsv(const Forecaster& forecaster,
                                      const Forecast& forecast, int most);

// The step times where the measurement is expected with 90%, relative to that
// predicted: below and above it.
[[nodiscard]] std::pair<double, double> StepBand(const Forecaster& forecaster,
                                                 const Prediction& one);

// "13.4 s per step (11.2 to 17.6 in nine of ten cases)", the same of the
// memory, and what of the job was not compared with measurements.
[[nodiscard]] std::string SummaryText(const Forecaster& forecaster,
                                      const Forecast& forecast,
                                      const Prediction& best);

// The bands of the prediction of a configuration, in lines.
[[nodiscard]] std::string BandText(const Forecaster& forecaster,
                                   const Prediction& best);

// The memory of a configuration as PyTorch's allocator hands it out, as it
// reserves it, and as the device sees it, which must fit; its parts.
[[nodiscard]] std::string MemoryText(const Forecaster& forecaster,
                                     const Prediction& one);

// What a calibration learned, in one or two lines.
[[nodiscard]] std::string ToString(const Calibration& calibration);

// The best layout of a job on a machine of one of several sizes.
struct ScalePoint {
  MachineSize size;
  std::optional<Prediction> best;
  std::string problem;                    // why there is none
  std::vector<std::string> guesses = {};  // what no measurement was like
  // Throughput per GPU over that of the first that fits.
  double efficiency = 0.0;
};

// A table with the cost of a billion tokens where `valuation` knows it.
[[nodiscard]] std::string ScaleText(const std::vector<ScalePoint>& points,
                                    const trials::Valuation& valuation);
// The cost of a step and a billion tokens, in a line; "" without a price or a
// layout.
[[nodiscard]] std::string CostText(const ScalePoint& point,
                                   const trials::Valuation& valuation);
[[nodiscard]] common::Json CostJson(const ScalePoint& point,
                                    const trials::Valuation& valuation);
[[nodiscard]] common::Json ScaleJson(const std::vector<ScalePoint>& points,
                                     const trials::Valuation& valuation);

}  // namespace jobs
