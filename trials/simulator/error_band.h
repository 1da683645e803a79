// How far measurements are from the simulator's predictions, by regime.

#ifndef TRIALS_SIMULATOR_ERROR_BAND_H_
#define TRIALS_SIMULATOR_ERROR_BAND_H_

#include <array>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "trials/simulator/step_report.h"

namespace trials {

// What an error depends on: whether published rows cover the architecture of
// the GPU and the framework, the number of hosts, and whether parameters are
// sharded.
struct ErrorRegime {
  bool gpu_seen = false;
  bool framework_validated = false;
  int hosts = 1;
  int zero_stage = 0;

  // Its name, then those of the coarser regimes that contain it, "all" last:
  // "seen GPU, validated framework, one host, ZeRO 3"; "..., one host"; ...
  static constexpr std::size_t kLevels = 5;
  [[nodiscard]] std::array<std::string, kLevels> Names() const;
};

// The interval that contains nine of ten ratios measured / predicted of the
// published rows of a regime,
//
//   measured in [low, high] * predicted,  low <= 1 <= high,
//
// between two quantiles, q and 1 - q. Every source has the same weight in a
// regime, whatever its number of rows. Predictions of a source are made without
// the constants that were fitted to it, and q is such that nine of ten rows of
// a source are inside the bands of the other sources, in the mean over sources.
//
// Source: leave-one-out (jackknife) prediction intervals: Barber, Candes,
// Ramdas and Tibshirani, "Predictive inference with the jackknife+" (2021),
// with sources instead of points. Units: ratios.
struct ErrorBand {
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
  int rows = 0;
  int sources = 0;
  // Set by ErrorBands::Of: the regime that the rows belong to, and whether the
  // finest one has any.
  std::string regime;
  bool validated = false;
};

// The bands of step_time and peak_memory.
class ErrorBands {
 public:
  // A regime with fewer rows or sources has the band of the next coarser one;
  // the errors of one source say little about another.
  static constexpr int kFewestRows = 20;
  static constexpr int kFewestSources = 4;

  using ByRegime = std::map<std::string, ErrorBand, std::less<>>;

  std::vector<std::string> architectures;  // with published rows
  std::vector<std::string> frameworks;
  ByRegime step_time;
  ByRegime peak_memory;

  [[nodiscard]] ErrorRegime RegimeOf(std::string_view architecture,
                                     std::string_view framework,
                                     int hosts,
                                     int zero_stage) const;
  // A band without rows if even "all" has too few rows.
  [[nodiscard]] static ErrorBand Of(const ByRegime& bands,
                                    const ErrorRegime& regime);
};

// The file that `oppa validate --bands` writes.
[[nodiscard]] std::filesystem::path ErrorBandsPath();
// Errors: throws InputError with file:line:column.
[[nodiscard]] ErrorBands ReadErrorBands(const std::filesystem::path& path);
[[nodiscard]] std::string ToToml(const ErrorBands& bands);

// Two lines for a report: the bands of its step time and its peak.
[[nodiscard]] std::string FormatBands(const ErrorBands& bands,
                                      const ErrorRegime& regime,
                                      const StepReport& report);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_ERROR_BAND_H_
