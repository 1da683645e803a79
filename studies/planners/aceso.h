// Aceso on its published profiles.

#ifndef STUDIES_PLANNERS_ACESO_H_
#define STUDIES_PLANNERS_ACESO_H_

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

}  // namespace studies

#endif  // STUDIES_PLANNERS_ACESO_H_
