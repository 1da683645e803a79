#include "trials/simulator/error_band.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "common/statistics.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "trials/data_folder.h"

namespace trials {
namespace {

constexpr std::string_view kAll = "all";  // kinds

// The quantile of Student's t distribution that z is of the normal one, within
// 0.3% for 95% from 3 degrees of freedom. Source: Abramowitz and Stegun (1964),
// 26.7.5.
double StudentQuantile(double z, double n) {
  const double z2 = z * z;
  return z + z * (z2 + 1.0) / (4.0 * n) +
         z * ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n) +
         z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) /
             (384.0 * n * n * n);
}

// Half of a band, in logarithms.
double HalfWidth(const ErrorBand& band, double z = common::kNormalQuantile95) {
  return std::hypot(StudentQuantile(z, band.freedom) * std::sqrt(band.between),
                    z * std::sqrt(band.within));
}

ErrorBands::ByKind ReadBands(const common::TomlTable& table) {
  ErrorBands::ByKind bands;
  for (const std::string& kind : table.Keys()) {
    const common::TomlTable row = table.RequireTable(kind);
    ErrorBand& band = bands[kind];
    band = {.mean = row.RequireDouble("mean"),
            .between = row.RequirePositive("between"),
            .within = row.RequirePositive("within"),
            .freedom = row.RequirePositive("freedom"),
            .rows = row.RequireIntIn("rows", 1),
            .sources = row.RequireIntIn("sources", 1)};
    band.SetInterval();
  }
  return bands;
}

std::string BandsText(std::string_view quantity,
                      const ErrorBands::ByKind& bands) {
  std::string text;
  for (const auto& [kind, band] : bands) {
    text += fmt::format(
        "\n[{}.\"{}\"]  # {:.2f} to {:.2f}\nmean = {:.4g}\nbetween = {:.4g}\n"
        "within = {:.4g}\nfreedom = {:g}\nrows = {}\nsources = {}\n",
        quantity, kind, band.low, band.high, band.mean, band.between,
        band.within, band.freedom, band.rows, band.sources);
  }
  return text;
}

ErrorBands::Guesses ReadGuesses(const common::TomlTable& table) {
  ErrorBands::Guesses variances;
  for (const std::string& kind : table.Keys()) {
    variances[kind] = table.GetNotNegative(kind, 0.0);
  }
  return variances;
}

std::string GuessesText(std::string_view quantity,
                        const ErrorBands::Guesses& variances) {
  std::string text =
      fmt::format("\n[guess.{}]  # added to between\n", quantity);
  for (const auto& [kind, variance] : variances) {
    text += fmt::format("\"{}\" = {:.4g}\n", kind, variance);
  }
  return text;
}

std::string Line(std::string_view quantity, std::string_view unit, double value,
                 const ErrorBands::ByKind& bands, const std::string& kind) {
  const auto [name, band] = ErrorBands::Of(bands, kind);
  const std::string text = fmt::format("{} {:.3g} {}: ", quantity, value, unit);
  if (band.rows == 0) {
    return text + "no comparable published rows\n";
  }
  return text + fmt::format(
                    "{:.3g} to {:.3g} {} in nine of ten cases ({} published "
                    "rows of {} source{}: {}code)\n",
                    band.low * value, band.high * value, unit, band.rows,
                    band.sources, band.sources == 1 ? "" : "s",
                    name == "all" ? "all kinds of " : name + " ");
}

}  // namespace

void ErrorBand::SetInterval() {
  low = std::min(1.0, std::exp(mean - HalfWidth(*this)));
  high = std::max(1.0, std::exp(mean + HalfWidth(*this)));
}

std::pair<double, double> ErrorBand::Limits() const {
  constexpr double kNineInTen = 0.9;
  const double inside = 0.5 + 0.5 * std::pow(kNineInTen, 1.0 / sources);
  double z = 0.0;
  double high_z = 10.0;
  while (high_z - z > 1e-9) {
    const double middle = 0.5 * (z + high_z);
    (common::NormalProbability(middle) < inside ? z : high_z) = middle;
  }
  return {std::exp(mean - HalfWidth(*this, z)),
          std::exp(mean + HalfWidth(*this, z))};
}

ErrorBand ErrorBand::Wider(double variance) const {
  ErrorBand band = *this;
  band.between += variance;
  band.SetInterval();
  return band;
}

ErrorBand ErrorBand::After(std::span<const double> own_logs) const {
  const auto count = static_cast<double>(own_logs.size());
  const double sum = std::accumulate(own_logs.begin(), own_logs.end(), 0.0);
  ErrorBand band = *this;
  band.between = 1.0 / (1.0 / between + count / within);
  band.mean = band.between * (mean / between + sum / within);
  band.low = std::exp(band.mean - HalfWidth(band));
  band.high = std::exp(band.mean + HalfWidth(band));
  return band;
}

std::pair<std::string, ErrorBand> ErrorBands::Of(const ByKind& bands,
                                                 const std::string& kind) {
  for (const std::string& name : {kind, std::string("all")}) {
    const auto found = bands.find(name);
    if (found != bands.end() && found->second.rows >= kFewestRows &&
        (found->second.sources >= kFewestSources || name == "all")) {
      return *found;
    }
  }
  return {};
}

std::pair<double, double> ErrorBands::Limits(const ByKind& bands) {
  std::pair<double, double> limits = {1.0, 1.0};
  for (const auto& [kind, band] : bands) {
    if (band.rows >= kFewestRows && band.sources >= kFewestSources) {
      const auto [low, high] = band.Limits();
      limits = {std::min(limits.first, low), std::max(limits.second, high)};
    }
  }
  return limits;
}

std::filesystem::path ErrorBandsPath() {
  return ExperimentsFolder() / "validation/bands/error_bands.toml";
}

ErrorBands ReadErrorBands(const std::filesystem::path& path) {
  const common::TomlTable table = common::TomlTable::ParseFile(path);
  ErrorBands bands;
  bands.step_time = ReadBands(table.GetTable("step_time"));
  bands.peak_memory = ReadBands(table.GetTable("peak_memory"));
  const common::TomlTable guess = table.GetTable("guess");
  bands.guess_step_time = ReadGuesses(guess.GetTable("step_time"));
  bands.guess_peak_memory = ReadGuesses(guess.GetTable("peak_memory"));
  table.RejectUnknownKeys();
  return bands;
}

std::vector<Guess> GuessesOf(const Workload& workload, const Gpu& gpu,
                             const Framework& framework) {
  std::vector<Guess> guesses;
  const auto add = [&guesses](bool holds, const char* kind, std::string what) {
    if (holds) {
      guesses.push_back({kind, std::move(what)});
    }
  };
  const std::string parts = NotValidated(workload);
  add(!parts.empty(), "parts", parts);
  add(workload.model.experts > 0, "experts", "experts");
  add(workload.sequence_length >= kLongSequence, "long sequences",
      fmt::format("sequences of {} tokens", workload.sequence_length));
  add(gpu.validated.empty(), "GPU", gpu.name);
  const bool fp32 = workload.precision == Precision::kFp32;
  add((fp32 || gpu.no_bf16) &&
          !StoresScores(framework, workload.precision, gpu),
      "fused attention",
      fmt::format("fused attention {} {}", fp32 ? "in" : "on",
                  fp32 ? "fp32" : gpu.name));
  add(framework.compared_with.empty(), "framework", "its framework");
  return guesses;
}

double VarianceOf(const std::vector<Guess>& guesses,
                  const ErrorBands::Guesses& variances) {
  double largest = 0.0;
  for (const Guess& guess : guesses) {
    auto found = variances.find(guess.kind);
    found = found == variances.end() ? variances.find(kAll) : found;
    largest = std::max(largest, found == variances.end() ? 0.0 : found->second);
  }
  return largest;
}

ErrorBands Widened(ErrorBands bands, const std::vector<Guess>& guesses) {
  for (const auto& [of, variances] :
       {std::pair{&bands.step_time, &bands.guess_step_time},
        std::pair{&bands.peak_memory, &bands.guess_peak_memory}}) {
    for (auto& [kind, band] : *of) {
      band = band.Wider(VarianceOf(guesses, *variances));
    }
  }
  return bands;
}

std::string ToToml(const ErrorBands& bands) {
  return "# Intervals for the ratio measured / predicted of another source "
         "(nine in ten), by\n# kind of code, from published rows, each source "
         "predicted without the constants\n# fitted to it. Generated by make "
         "validate-leave-one-out; do not edit.\n# Meaning: "
         "docs/validation.md.\n" +
         BandsText("step_time", bands.step_time) +
         BandsText("peak_memory", bands.peak_memory) +
         GuessesText("step_time", bands.guess_step_time) +
         GuessesText("peak_memory", bands.guess_peak_memory);
}

std::string FormatBands(const ErrorBands& bands, const std::string& kind,
                        const StepReport& report) {
  using common::kGiga;
  return Line("step time", "s", report.step_time_s, bands.step_time, kind) +
         Line("peak memory", "GB", report.peak_memory_bytes / kGiga,
              bands.peak_memory, kind);
}

}  // namespace trials
