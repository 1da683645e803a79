// The order of the actions of a pipeline's stages.

#pragma once

#include <compare>
#include <vector>

namespace trials {

// One entry of a stage's list: the forward or backward pass of one microbatch
// through one of the stage's model chunks. With a split backward pass, the
// gradients of inputs, or of weights.
struct Action {
  bool forward = true;
  int microbatch = 0;
  int chunk = 0;
  bool weights = false;

  friend auto operator<=>(const Action&, const Action&) = default;
};

// Shape of a pipeline. Chunk c of stage s is virtual stage c * stages + s; a
// microbatch passes the virtual stages in order.
struct PipelineShape {
  int stages = 1;
  int microbatches = 1;
  int chunks = 1;  // > 1: interleaved; then microbatches % stages == 0
  // The backward pass is split: ZB-H1. One chunk only.
  bool zero_bubble = false;
};

// The actions of each stage.
[[nodiscard]] inline int ActionCount(const PipelineShape& shape) {
  return (shape.zero_bubble ? 3 : 2) * shape.microbatches * shape.chunks;
}

// The number of forwards of a stage before forward and backward alternate.
[[nodiscard]] int WarmupActions(const PipelineShape& shape, int stage);

// Action i of StageActions, without the list.
[[nodiscard]] Action ActionAt(const PipelineShape& shape, int stage, int i);

// Errors: throws std::invalid_argument for interleaving with
// microbatches % stages != 0 (it would deadlock) or with a split backward pass,
// and for sizes < 1.
void CheckShape(const PipelineShape& shape);

// The actions of one stage in order: 1F1B for one chunk, interleaved 1F1B for
// more. A stage starts with
//
//   w = stages - stage - 1                             (one chunk)
//   w = 2 (stages - stage - 1) + (chunks - 1) stages   (more)
//
// forwards, alternates, and ends with the backwards that remain. Interleaved,
// it takes `stages` microbatches through chunk 0, the same through chunk 1,
// and so on; backwards start at the last chunk.
//
// ZB-H1 is 1F1B with a split backward pass: stage s computes the gradients of
// weights s microbatches after those of inputs, so that they fill the end of
// the step, and no stage holds more microbatches than the first one does in
// 1F1B.
//
// Source: Narayanan et al. (2021), Sec. 2.2; Megatron-LM's schedule, which
// Colossal-AI follows. Qi et al., "Zero bubble pipeline parallelism" (ICLR
// 2024), Sec. 2.
// Errors: as CheckShape.
[[nodiscard]] std::vector<Action> StageActions(const PipelineShape& shape,
                                               int stage);

}  // namespace trials
