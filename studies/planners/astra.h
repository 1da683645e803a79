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

}  // namespace studies

#endif  // STUDIES_PLANNERS_ASTRA_H_
