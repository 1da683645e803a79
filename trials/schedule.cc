#include "trials/schedule.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace trials {
namespace {

// The k-th forward (or backward) of a stage.
Action KthAction(const PipelineShape& shape, int k, bool forward) {
  if (shape.chunks == 1) {
    return {forward, k, 0};
  }
  const int group = k / (shape.stages * shape.chunks);
  const int within = k % (shape.stages * shape.chunks);
  const int chunk = within / shape.stages;
  return {forward, group * shape.stages + within % shape.stages,
          forward ? chunk : shape.chunks - 1 - chunk};
}

// Action i of a stage of ZB-H1: warm-up; forward and backward; the same with
// gradients of weights; backward and gradients of weights; the rest of these.
Action ZeroBubbleActionAt(const PipelineShape& shape, int stage, int i) {
  const int warmup = WarmupActions(shape, stage);
  const int alternating = shape.microbatches - warmup;
  const int delay = std::min(alternating, stage);  // of weights, microbatches
  if (i < warmup) {
    return {true, i, 0};
  }
  i -= warmup;
  if (i < 2 * delay) {
    return i % 2 == 0 ? Action{true, warmup + i / 2, 0}
                      : Action{false, i / 2, 0};
  }
  i -= 2 * delay;
  const int filled = alternating - delay;
  if (i < 3 * filled) {
    const int k = i / 3;
    return i % 3 == 0   ? Action{true, warmup + delay + k, 0}
           : i % 3 == 1 ? Action{false, delay + k, 0}
                        : Action{false, k, 0, true};
  }
  i -= 3 * filled;
  if (i < 2 * warmup) {
    return i % 2 == 0 ? Action{false, alternating + i / 2, 0}
                      : Action{false, filled + i / 2, 0, true};
  }
  return {false, filled + i - warmup, 0, true};
}

}  // namespace

void CheckShape(const PipelineShape& shape) {
  if (shape.stages < 1 || shape.microbatches < 1 || shape.chunks < 1) {
    throw std::invalid_argument(fmt::format(
        "a pipeline of {} stages, {} microbatches and {} chunks: each must be "
        "at least 1",
        shape.stages, shape.microbatches, shape.chunks));
  }
  if (shape.zero_bubble && shape.chunks > 1) {
    throw std::invalid_argument(
        "the zero-bubble schedule has one chunk per stage");
  }
  if (shape.chunks > 1 && shape.microbatches % shape.stages != 0) {
    throw std::invalid_argument(fmt::format(
        "interleaving with {} microbatches on {} stages deadlocks: the "
        "microbatches must be a multiple of the stages",
        shape.microbatches, shape.stages));
  }
}

int WarmupActions(const PipelineShape& shape, int stage) {
  int warmup = shape.stages - stage - 1;
  if (shape.chunks > 1) {
    warmup = 2 * warmup + (shape.chunks - 1) * shape.stages;
  }
  return std::min(warmup, shape.microbatches * shape.chunks);
}

Action ActionAt(const PipelineShape& shape, int stage, int i) {
  if (shape.zero_bubble) {
    return ZeroBubbleActionAt(shape, stage, i);
  }
  const int total = shape.microbatches * shape.chunks;
  const int warmup = WarmupActions(shape, stage);
  if (i < warmup) {
    return KthAction(shape, i, true);
  }
  const int after = i - warmup;
  const int alternating = 2 * (total - warmup);
  if (after < alternating) {
    return after % 2 == 0 ? KthAction(shape, warmup + after / 2, true)
                          : KthAction(shape, after / 2, false);
  }
  return KthAction(shape, total - warmup + (after - alternating), false);
}

std::vector<Action> StageActions(const PipelineShape& shape, int stage) {
  CheckShape(shape);
  const int count = ActionCount(shape);
  std::vector<Action> actions;
  actions.reserve(count);
  for (int i = 0; i < count; ++i) {
    actions.push_back(ActionAt(shape, stage, i));
  }
  return actions;
}

}  // namespace trials
