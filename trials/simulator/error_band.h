// How far measurements are from the simulator's predictions, by kind of code.

#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trials/cluster.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/step_report.h"
#include "trials/workload.h"

namespace trials {

// The interval that a ratio measured / predicted of another source is in with a
// probability of nine in ten,
//
//   measured in [low, high] * predicted,  low <= 1 <= high,
//   [low, high] = exp(m -+ sqrt(t^2 b (1 + 1/S) + z^2 w)),
//
// from the published rows of frameworks of one kind (Framework::kind). Every
// one of the S sources is predicted without the constants that were fitted to
// it, and has the same weight, whatever its number of rows: m is the mean over
// sources of the mean of log(measured / predicted) in a source, b the variance
// of these means, w the geometric mean over sources of the variance within one,
// t the 95% quantile of Student's t with the degrees of freedom of b, and z
// that of the normal distribution. The variances of a kind are moderated by
// those of all sources, b0 and w0, which count as kPrior further sources:
//
//   b = (kPrior b0 + (S - 1) b') / (kPrior + S - 1), which is its freedom, too.
//
// k rows of the source itself, whose logarithms have the mean r, tell its own
// mean. Then, with B = b (1 + 1/S),
//
//   [low, high] = exp(p -+ sqrt(t^2 v + z^2 w)),
//   v = 1 / (1 / B + k / w),  p = v (m / B + k r / w).
//
// Sources: the prediction interval of a random-effects model, for a row instead
// of the mean of a source: Higgins, Thompson and Spiegelhalter, "A
// re-evaluation of random-effects meta-analysis" (2009); moderated variances:
// Smyth, "Linear models and empirical Bayes methods" (2004). Units: ratios.
struct ErrorBand {
  static constexpr double kPrior = 4.0;

  double mean = 0.0;     // m
  double between = 0.0;  // b (1 + 1/S), a variance of logarithms
  double within = 0.0;   // w
  double freedom = 1.0;  // of b
  int rows = 0;
  int sources = 0;
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();

  // Sets low and high.
  void SetInterval();
  // The limits that the ratios of S further sources, one row of each, keep
  // together with a probability of nine in ten, by Sidak's correction.
  [[nodiscard]] std::pair<double, double> Limits() const;
  // The band of a guess, which adds this variance.
  [[nodiscard]] ErrorBand Wider(double variance) const;
  // The band after rows of the source itself, given log(measured / predicted).
  // Precondition: between, within > 0.
  [[nodiscard]] ErrorBand After(std::span<const double> own_logs) const;
};

// The bands of step_time and peak_memory, by kind of code, and of "all".
struct ErrorBands {
  // A kind with fewer rows or sources has the band of all.
  static constexpr int kFewestRows = 20;
  static constexpr int kFewestSources = 2;
  using ByKind = std::map<std::string, ErrorBand, std::less<>>;

  ByKind step_time;
  ByKind peak_memory;
  // The variance that a guess adds to `between`, by its kind (Guess::kind), and
  // "all" for kinds without rows.
  using Guesses = std::map<std::string, double, std::less<>>;
  Guesses guess_step_time;
  Guesses guess_peak_memory;

  // The name of the band for a kind, and the band: "all" if the kind has too
  // few rows. No rows if all have.
  [[nodiscard]] static std::pair<std::string, ErrorBand> Of(
      const ByKind& bands, const std::string& kind);
  // Outside of these, a ratio is none that sources of any kind show: the lowest
  // and the highest ErrorBand::Limits of kinds with enough rows.
  [[nodiscard]] static std::pair<double, double> Limits(const ByKind& bands);
};

// The file that `oppa validate --bands` writes.
[[nodiscard]] std::filesystem::path ErrorBandsPath();
// Errors: throws InputError with file:line:column.
[[nodiscard]] ErrorBands ReadErrorBands(const std::filesystem::path& path);
// Something of a forecast that no or few published measurements were compared
// with. Its rows deviate by more than those of usual forecasts: the excess of
// their mean square deviation from m over b + w is a mean over groups of rows
// of a source on a GPU type with equal guesses; that of a kind of guess is
// moderated by that of all kinds as variances are (ErrorBand). Of several
// guesses, the one with the largest excess counts.
struct Guess {
  std::string kind;  // "parts", "experts", "long sequences", "GPU",
                     // "framework", "fused attention" where no table has it
  std::string what;  // in words
};
// "long sequences" have as many tokens.
inline constexpr int kLongSequence = 32768;
[[nodiscard]] std::vector<Guess> GuessesOf(const Workload& workload,
                                           const Gpu& gpu,
                                           const Framework& framework);
// The largest of the variances of guesses; 0 without any.
[[nodiscard]] double VarianceOf(const std::vector<Guess>& guesses,
                                const ErrorBands::Guesses& variances);
// The bands of a forecast with guesses.
[[nodiscard]] ErrorBands Widened(ErrorBands bands,
                                 const std::vector<Guess>& guesses);
[[nodiscard]] std::string ToToml(const ErrorBands& bands);

// Two lines for a report: the bands of its step time and its peak.
[[nodiscard]] std::string FormatBands(const ErrorBands& bands,
                                      const std::string& kind,
                                      const StepReport& report);

}  // namespace trials
