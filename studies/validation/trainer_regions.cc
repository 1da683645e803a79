#include "studies/validation/trainer_regions.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "trials/simulator/trainer_memory.h"

namespace studies {
namespace {

constexpr std::size_t kRegions = trials::kTrainerRegions.size();

TrainerPeaks Simulated(const MeasuredRow& row) {
  TrainerPeaks peaks;
  for (int stage = 0; stage < row.config.pp; ++stage) {
    const trials::TrainerLedger ledger =
        trials::TrainerMemory(row.workload, row.config, stage, row.framework);
    const auto keep_most = [&peaks](std::size_t i, std::int64_t bytes) {
      peaks.simulated_bytes[i] =
          std::max(peaks.simulated_bytes[i], static_cast<double>(bytes));
    };
    for (std::size_t i = 0; i < kRegions; ++i) {
      keep_most(i, ledger.peak[i]);
    }
    keep_most(kRegions, ledger.total_peak);
  }
  return peaks;
}

}  // namespace

std::string TrainerPeakName(std::size_t peak) {
  return peak < kRegions ? std::string(trials::kTrainerRegions[peak])
                         : "all regions";
}

std::vector<TrainerPeaks> CompareTrainerPeaks(const MeasuredTable& table) {
  std::vector<TrainerPeaks> all;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    TrainerPeaks peaks = Simulated(table.rows[r]);
    const trials::TableRow cells{table.csv, table.csv.rows()[r]};
    for (std::size_t i = 0; i < kRegions; ++i) {
      const std::string column = TrainerPeakName(i) + "_bytes";
      peaks.measured_bytes[i] = cells.Number(column);
      if (std::isnan(peaks.measured_bytes[i])) {
        table.csv.Fail(cells.csv.line,
                       fmt::format("there is no value in column {}; "
                                   "scripts/measure-trainer writes it",
                                   column));
      }
    }
    peaks.measured_bytes[kRegions] = table.rows[r].peak_memory_bytes;
    all.push_back(peaks);
  }
  return all;
}

double PeakError(const TrainerPeaks& row, std::size_t peak) {
  const double measured = row.measured_bytes[peak];
  const double simulated = row.simulated_bytes[peak];
  if (measured == 0.0) {
    return simulated == 0.0 ? 0.0 : 1.0;
  }
  return std::abs(simulated - measured) / measured;
}

Output TrainerMemoryOutput(const MeasuredTable& table) {
  Output output{.name = "memory"};
  output.table.header = {"model", "configurations"};
  for (std::size_t i = 0; i < kTrainerPeaks; ++i) {
    output.table.header.push_back(TrainerPeakName(i));
  }
  output.csv = "model,row,peak,simulated_bytes,measured_bytes\n";
  const std::vector<TrainerPeaks> rows = CompareTrainerPeaks(table);
  std::map<std::string, std::pair<int, std::array<double, kTrainerPeaks>>> most;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string& model = table.rows[r].workload.model.name;
    auto& [count, errors] = most[model];
    ++count;
    for (std::size_t i = 0; i < kTrainerPeaks; ++i) {
      errors[i] = std::max(errors[i], PeakError(rows[r], i));
      output.csv += fmt::format("{},{},{},{:.0f},{:.0f}\n", model, r + 1,
                                TrainerPeakName(i), rows[r].simulated_bytes[i],
                                rows[r].measured_bytes[i]);
    }
  }
  for (const auto& [model, found] : most) {
    std::vector<std::string> cells = {model, std::to_string(found.first)};
    for (const double error : found.second) {
      cells.push_back(fmt::format("{:.2f}%", 100.0 * error));
    }
    output.table.rows.push_back(std::move(cells));
  }
  output.conclusion =
      "The largest error of the peak of each region, and of the peak of the "
      "fullest rank, over all configurations of a model.";
  return output;
}

}  // namespace studies
