// Plans as JSON files.

#ifndef TRIALS_PLAN_FILE_H_
#define TRIALS_PLAN_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "common/error.h"
#include "trials/plan.h"

namespace trials {

// Reads a plan:
//
//   {"shared": "zero_stage=1,microbatches=16",
//    "stages": [{"layers": 10, "dp": 2, "tp": 1},
//               {"layers": 14, "dp": 1, "tp": 2, "recomputed_layers": 7}]}
//
// `shared` has the knobs of all stages; dp, tp and pp belong to the stages.
// `layers` is a list, one number for each model chunk, if there are several.
// `recomputed_layers` is 0, and so is `gpu_type`, an index into the clusters of
// a heterogeneous simulation. Errors: throw InputError with the file, the stage
// and the key for a missing, unknown or wrong key.
[[nodiscard]] Plan ParsePlanText(std::string_view text,
                                 const std::string& source);
[[nodiscard]] Plan ReadPlanFile(const std::filesystem::path& path);

}  // namespace trials

#endif  // TRIALS_PLAN_FILE_H_
