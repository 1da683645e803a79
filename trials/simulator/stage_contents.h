// The tensors on a rank of a stage.

#ifndef TRIALS_SIMULATOR_STAGE_CONTENTS_H_
#define TRIALS_SIMULATOR_STAGE_CONTENTS_H_

#include <vector>

#include "trials/simulator/stage_cost.h"

namespace trials {

// Adds the modules of a stage, their optimizer and the memory to its cost.
// Shapes: chunks and backward (their actions) [pp * model_chunks].
void AddContents(const StageContext& stage, const std::vector<Chunk>& chunks,
                 const std::vector<TimeBreakdown>& backward, StageCost& cost);

// Elements of the embedding table on one rank of the stage, if first and last
// stage both hold it (tied weights and a pipeline); otherwise 0.
[[nodiscard]] double SharedTableElements(const StageContext& stage);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_CONTENTS_H_
