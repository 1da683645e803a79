// Peak memory of oppa-train by region: simulated and measured.

#ifndef STUDIES_VALIDATION_TRAINER_REGIONS_H_
#define STUDIES_VALIDATION_TRAINER_REGIONS_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "studies/output.h"
#include "studies/validation/measured_table.h"
#include "trials/simulator/trainer_ledger.h"

namespace studies {

// Peaks of each region, the largest of all ranks, then the peak of the fullest
// rank.
inline constexpr std::size_t kTrainerPeaks = trials::kTrainerRegions.size() + 1;
struct TrainerPeaks {
  std::array<double, kTrainerPeaks> simulated_bytes{};
  std::array<double, kTrainerPeaks> measured_bytes{};
};

// "parameters", ..., "all regions".
[[nodiscard]] std::string TrainerPeakName(std::size_t peak);

// One for each row of a table of scripts/measure-trainer.
// Errors: throws InputError with file and line for a row without the columns
// <region>_bytes.
[[nodiscard]] std::vector<TrainerPeaks> CompareTrainerPeaks(
    const MeasuredTable& table);

// |simulated - measured| / measured; where nothing was measured, 0 or 1.
[[nodiscard]] double PeakError(const TrainerPeaks& row, std::size_t peak);

// Errors of the peaks by model. (`oppa validate` has those of step times.)
[[nodiscard]] Output TrainerMemoryOutput(const MeasuredTable& table);

}  // namespace studies

#endif  // STUDIES_VALIDATION_TRAINER_REGIONS_H_
