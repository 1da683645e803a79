// Aceso on its published profiles; Astra's efficiencies, plans and cost mode.

#ifndef STUDIES_PLANNERS_PLANNERS_H_
#define STUDIES_PLANNERS_PLANNERS_H_

#include <filesystem>
#include <vector>

#include "common/error.h"
#include "studies/output.h"

namespace studies {

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

// Astra's plans on a small cluster of two GPU types and on each half of it.
[[nodiscard]] Output AstraHalves();

// What uniform recomputation in groups and an optimizer on the host add to
// Astra's search, by its own model.
[[nodiscard]] Output AstraOffload();

}  // namespace studies

#endif  // STUDIES_PLANNERS_PLANNERS_H_
