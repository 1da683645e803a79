// Aceso on its published profiles; Astra's efficiencies, plans and cost mode.

#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "studies/output.h"
#include "trials/data_folder.h"
#include "trials/workload.h"

namespace studies {

// Values that a paper prints: results/published/PAPER.csv.
class Published {
 public:
  // Errors: throws InputError for a file that cannot be read.
  explicit Published(const std::string& paper)
      : table_(
            common::CsvTable::Read(trials::ExperimentsFolder().parent_path() /
                                   "results/published" / (paper + ".csv"))) {}

  // As printed; "" where the paper has no value.
  [[nodiscard]] std::string Text(std::string_view place,
                                 std::string_view series,
                                 std::string_view x) const {
    for (const common::CsvTable::Row& row : table_.rows()) {
      if (table_.Cell(row, "figure_or_table") == place &&
          table_.Cell(row, "series") == series && table_.Cell(row, "x") == x) {
        return std::string(table_.Cell(row, "value"));
      }
    }
    return "";
  }

  // NaN where the paper has no value.
  [[nodiscard]] double Value(std::string_view place, std::string_view series,
                             std::string_view x) const {
    const std::string text = Text(place, series, x);
    return text.empty() ? std::nan("") : std::strtod(text.c_str(), nullptr);
  }

 private:
  common::CsvTable table_;
};

// A number for people; "none" where it is not finite.
[[nodiscard]] inline plots::Cell Decimals(double value, int decimals = 2) {
  return plots::Figures(
      std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : "none");
}

// A job of a model in experiments/workloads.
[[nodiscard]] inline trials::Workload WorkloadOf(const std::string& model,
                                                 int batch, int length) {
  trials::Workload workload;
  workload.model = trials::ReadModel(trials::ExperimentsFolder() / "workloads" /
                                     (model + ".json"));
  workload.batch_size = batch;
  workload.sequence_length = length;
  return workload;
}

// Aceso's experiments: `folder` has aceso_v100_op_profiles.csv and
// aceso_v100_collectives.csv.
// Errors: throws InputError for a missing file, here and below.
[[nodiscard]] std::vector<Output> AcesoOutputs(
    const std::filesystem::path& folder);

// Astra's efficiencies, whose measurements are in simumax_operators.csv of the
// folder, and its cost mode.
[[nodiscard]] std::vector<Output> AstraOutputs(
    const std::filesystem::path& folder);

// Astra's plans, simulated on clusters of one and of two GPU types; published
// steps on mixed GPUs.
[[nodiscard]] std::vector<Output> AstraPlanOutputs();

}  // namespace studies
