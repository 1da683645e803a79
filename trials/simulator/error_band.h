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

// The interval that a ratio measured / predicted of another source is in with a
// probability of nine in ten,
//
//   measured in [low, high] * predicted,  low <= 1 <= high,
//   [low, high] = exp(m -+ t sqrt(b (1 + 1/S) + w)),
//
// from the published rows of a regime. Every one of the S sources is predicted
// without the constants that were fitted to it, and has the same weight,
// whatever its number of rows: m is the mean over sources of the mean of
// log(measured / predicted) in a source, b the variance of these means, w the
// mean over sources of the variance within one, and t the 95% quantile of
// Student's t with S - 1 degrees of freedom.
//
// Source: the prediction interval of a random-effects model, for a row instead
// of the mean of a source: Higgins, Thompson and Spiegelhalter, "A
// re-evaluation of random-effects meta-analysis" (2009). Units: ratios.
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
                                     std::string_view framework, int hosts,
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
