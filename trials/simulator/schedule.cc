#include "trials/simulator/schedule.h"

#include <algorithm>
#include <cstddef>
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
  return {forward,
          group * shape.stages + within % shape.stages,
          forward ? chunk : shape.chunks - 1 - chunk};
}

}  // namespace

void CheckShape(const PipelineShape& shape) {
  if (shape.stages < 1 || shape.microbatches < 1 || shape.chunks < 1) {
    throw std::invalid_argument(fmt::format(
        "a pipeline of {} stages, {} microbatches and {} chunks: each must be "
        "at least 1",
        shape.stages,
        shape.microbatches,
        shape.chunks));
  }
  if (shape.chunks > 1 && shape.microbatches % shape.stages != 0) {
    throw std::invalid_argument(fmt::format(
        "interleaving with {} microbatches on {} stages deadlocks: the "
        "microbatches must be a multiple of the stages",
        shape.microbatches,
        shape.stages));
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
  const int count = 2 * shape.microbatches * shape.chunks;
  std::vector<Action> actions;
  actions.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    actions.push_back(ActionAt(shape, stage, i));
  }
  return actions;
}

std::vector<int> DistributeLayers(int layers, int virtual_stages) {
  std::vector<int> result(static_cast<std::size_t>(virtual_stages),
                          layers / virtual_stages);
  const int remainder = layers % virtual_stages;
  const int first = virtual_stages / 2 - remainder / 2;
  for (int i = first; i < first + remainder; ++i) {
    ++result[static_cast<std::size_t>(i)];
  }
  return result;
}

}  // namespace trials
