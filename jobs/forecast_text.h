// A plan as text, JSON and CSV.

#ifndef JOBS_FORECAST_TEXT_H_
#define JOBS_FORECAST_TEXT_H_

#include <string>
#include <vector>

#include "common/json.h"
#include "jobs/forecast.h"

namespace jobs {

// The job and its machine in two lines.
[[nodiscard]] std::string JobText(const Job& job);

// The first `most` layouts, one a line; the fastest configuration with its
// error band; what was excluded, and why.
[[nodiscard]] std::string ForecastText(const Forecaster& planner,
                                       const Forecast& plan, int most);

[[nodiscard]] common::Json ForecastJson(const Forecaster& planner,
                                        const Forecast& plan, int most);

// A header, and one row per layout.
[[nodiscard]] std::string ForecastCsvHeader();
[[nodiscard]] std::string ForecastCsv(const Forecaster& planner,
                                      const Forecast& plan);

// What a calibration learned, in one or two lines.
[[nodiscard]] std::string ToString(const Calibration& calibration);

// The best layout of a job on machines of several sizes.
struct ScalePoint {
  MachineSize size;
  int gpus = 0;
  bool fits = false;
  Prediction best;
  double tokens_per_s = 0.0;
  double efficiency =
      0.0;  // throughput per GPU over that of the first that fits
  double mfu = 0.0;
  std::string problem;  // why there is none
};

// `price_per_hour`: of a GPU; 0: unknown.
[[nodiscard]] std::string ScaleText(const std::vector<ScalePoint>& points,
                                    double price_per_hour);
[[nodiscard]] common::Json ScaleJson(const std::vector<ScalePoint>& points,
                                     double price_per_hour);

}  // namespace jobs

#endif  // JOBS_FORECAST_TEXT_H_
