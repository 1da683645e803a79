// Aceso on its published profiles; Astra's efficiencies, plans and cost mode.

#ifndef STUDIES_PLANNERS_PLANNERS_H_
#define STUDIES_PLANNERS_PLANNERS_H_

#include <filesystem>
#include <string>

#include "common/error.h"
#include "methods/planners/operators/plan_cost.h"
#include "studies/output.h"

namespace studies {

// The model of a published problem: a name in the profiles, on V100-32GB with 8
// GPUs per host and a limit of 28,000 MB, as the published program has it.
// `folder` has aceso_v100_op_profiles.csv and aceso_v100_collectives.csv.
// Errors: throws InputError for a missing file or an unknown name.
[[nodiscard]] methods::OperatorModel PublishedModel(
    const std::filesystem::path& folder, const std::string& name, int layers,
    int gpus);

// Published estimates, ours, and those of the baselines: Exps. 1, 2, 4.
[[nodiscard]] Output AcesoSearches(const std::filesystem::path& folder);
// 8 to 1,024 layers on 8 GPUs: Exp. 3.
[[nodiscard]] Output AcesoLayers(const std::filesystem::path& folder);
// Hops and bottlenecks of improving iterations, limits of hops, random
// primitives: Exps. 5, 6.
[[nodiscard]] Output AcesoHeuristics(const std::filesystem::path& folder);

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

#endif  // STUDIES_PLANNERS_PLANNERS_H_
