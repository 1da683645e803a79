// Aceso on its published profiles; Astra's efficiencies, plans and cost mode.

#ifndef STUDIES_PLANNERS_PLANNERS_H_
#define STUDIES_PLANNERS_PLANNERS_H_

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/error.h"
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

// On published profiles; `folder` has aceso_v100_op_profiles.csv and
// aceso_v100_collectives.csv. Errors: throw InputError for a missing file.
//
// Estimates, ours and published, of 15 models next to those of the baselines,
// and the cost of the searches: Exps. 1, 2, 4.
[[nodiscard]] std::vector<Output> AcesoSearches(
    const std::filesystem::path& folder);
// 8 to 1,024 layers on 8 GPUs: Exp. 3.
[[nodiscard]] Output AcesoLayers(const std::filesystem::path& folder);
// Hops and bottlenecks of improving iterations, limits of hops, random
// primitives, other starts: Exps. 5 to 7.
[[nodiscard]] Output AcesoHeuristics(const std::filesystem::path& folder);
// Published predictions and measurements: Exps. 8, 9.
[[nodiscard]] Output AcesoAccuracy();
// The size of the search space: Fig. 1.
[[nodiscard]] Output AcesoSpace();

// The error of efficiencies of matrix products, in ten-fold cross-validation.
// `folder` has simumax_operators.csv.
// Errors: throws InputError for a missing file.
[[nodiscard]] Output AstraEfficiency(const std::filesystem::path& folder);

// The optimal pool of Llama-2-7B on 2 to 1,024 A100.
[[nodiscard]] Output AstraMoney();

// Astra's plans on clusters of one and of two GPU types, simulated, next to its
// Table 2.
[[nodiscard]] Output AstraClusters();

// Astra's plans on 64 to 4,096 GPUs, next to its Table 1, data parallelism
// alone, communication without overlap and rules of thumb: Figs. 5, 8, 9, 11.
[[nodiscard]] Output AstraScale();

// Astra's plans on two GPU types next to equal stages: Fig. 6.
[[nodiscard]] Output AstraMixed();

// Published steps on mixed GPUs, next to the simulator and to Astra's model of
// plans: results/published/sailor2025.csv.
[[nodiscard]] Output MixedMeasured();

// Astra's plans on a small cluster of two GPU types and on each half of it.
[[nodiscard]] Output AstraHalves();

// What uniform recomputation in groups and an optimizer on the host add to
// Astra's search, by its own model.
[[nodiscard]] Output AstraOffload();

}  // namespace studies

#endif  // STUDIES_PLANNERS_PLANNERS_H_
