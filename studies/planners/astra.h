// Astra's efficiencies and its cost mode.

#ifndef STUDIES_PLANNERS_ASTRA_H_
#define STUDIES_PLANNERS_ASTRA_H_

#include <filesystem>

#include "common/error.h"
#include "studies/output.h"

namespace studies {

// The error of efficiencies of matrix products, in ten-fold cross-validation.
// `folder` has simumax_operators.csv.
// Errors: throws InputError for a missing file.
[[nodiscard]] Output AstraEfficiency(const std::filesystem::path& folder);

// The optimal pool of Llama-2-7B on 2 to 1,024 A100.
[[nodiscard]] Output AstraMoney();

// Astra's plans on clusters of one and of two GPU types, simulated, next to its
// Table 2.
[[nodiscard]] Output AstraClusters();

// Astra's plans on a small cluster of two GPU types and on each half of it.
[[nodiscard]] Output AstraHalves();

// What uniform recomputation in groups and an optimizer on the host add to
// Astra's search, by its own model.
[[nodiscard]] Output AstraOffload();

}  // namespace studies

#endif  // STUDIES_PLANNERS_ASTRA_H_
