#include "trials/simulator/schedule.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace trials {
namespace {

// The k-th forward (or backward) of a stage.
Action KthAction(const PipelineShape& shape, int k, bool forward) {
  const int group = k / (shape.stages * shape.chunks);
  const int within = k % (shape.stages * shape.chunks);
  const int chunk = within / shape.stages;
  return {forward,
          group * shape.stages + within % shape.stages,
          forward ? chunk : shape.chunks - 1 - chunk};
}

void Check(const PipelineShape& shape) {
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

}  // namespace

std::vector<Action> StageActions(const PipelineShape& shape, int stage) {
  Check(shape);
  const int total = shape.microbatches * shape.chunks;
  int warmup = shape.stages - stage - 1;
  if (shape.chunks > 1) {
    warmup = 2 * warmup + (shape.chunks - 1) * shape.stages;
  }
  warmup = std::min(warmup, total);

  // With one chunk the k-th action is the k-th microbatch, whatever the group.
  const PipelineShape order =
      shape.chunks > 1 ? shape : PipelineShape{1, shape.microbatches, 1};
  std::vector<Action> actions;
  actions.reserve(2 * static_cast<std::size_t>(total));
  for (int k = 0; k < warmup; ++k) {
    actions.push_back(KthAction(order, k, true));
  }
  for (int k = warmup; k < total; ++k) {
    actions.push_back(KthAction(order, k, true));
    actions.push_back(KthAction(order, k - warmup, false));
  }
  for (int k = total - warmup; k < total; ++k) {
    actions.push_back(KthAction(order, k, false));
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
