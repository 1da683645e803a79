// The texts of numbers and outcomes on the result page.

#include "common/text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "plots/page/parts.h"

namespace plots {

using trials::Outcome;

std::string PageNumber(double value, int digits) {
  if (!std::isfinite(value)) {
    return "–";
  }
  const double size = std::abs(value);
  if (size == 0.0) {
    return "0";
  }
  if (size > 0.0 && size < 1e-4) {
    return fmt::format("{:.{}g}", value, digits);
  }
  const int before =
      size < 1.0 ? 0 : static_cast<int>(std::floor(std::log10(size))) + 1;
  const int lead = size > 0.0 && size < 1.0
                       ? static_cast<int>(-std::floor(std::log10(size))) - 1
                       : 0;
  return fmt::format("{:.{}f}", value, std::max(digits - before + lead, 0));
}

std::string OutcomeWords(Outcome outcome) {
  if (outcome == Outcome::kTerminatedEarly) {
    return "stopped early";
  }
  std::string words(ToString(outcome));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<std::string> ConfigParts(const trials::Trial& trial) {
  std::vector<std::string> parts;
  const std::string label = trials::CandidateLabel(trial);
  for (const std::string_view part : common::Split(label, ',')) {
    parts.emplace_back(part);
  }
  return parts;
}

std::string Duration(double seconds) {
  if (std::isnan(seconds)) {
    return "–";
  }
  return seconds < 90.0 ? fmt::format("{} s", PageNumber(seconds, 3))
         : seconds < 5400.0
             ? fmt::format("{} min", PageNumber(seconds / 60, 3))
             : fmt::format("{} h", PageNumber(seconds / 3600, 3));
}

double HeadroomPercent(const PageRun& run, const trials::Trial& trial) {
  const auto& capacity = run.problem->info.memory_capacity_bytes;
  return capacity && trial.measurement.peak_memory_bytes
             ? 100.0 * (1.0 - *trial.measurement.peak_memory_bytes / *capacity)
             : trials::kUnknown;
}

}  // namespace plots
