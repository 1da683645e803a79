#include "trainer/schedule.h"

#include <algorithm>
#include <stdexcept>

namespace trainer {

std::vector<Action> Schedule(int stages, int stage, int microbatches,
                             int chunks) {
  if (chunks > 1 && microbatches % stages != 0) {
    throw std::invalid_argument(
        "the interleaved schedule needs microbatches to be a multiple of the "
        "stages");
  }
  // Groups of `stages` microbatches go through chunk after chunk.
  const int total = microbatches * chunks;
  const auto action = [&](bool forward, int i) {
    if (chunks == 1) {
      return Action{forward, i, 0};
    }
    const int group = i / (stages * chunks);
    const int chunk = i / stages % chunks;
    return Action{forward, group * stages + i % stages,
                  forward ? chunk : chunks - 1 - chunk};
  };
  int warm_up = stages - stage - 1;
  if (chunks > 1) {
    warm_up = 2 * warm_up + (chunks - 1) * stages;
  }
  warm_up = std::min(warm_up, total);
  std::vector<Action> actions;
  for (int i = 0; i < warm_up; ++i) {
    actions.push_back(action(true, i));
  }
  for (int i = warm_up; i < total; ++i) {
    actions.push_back(action(true, i));
    actions.push_back(action(false, i - warm_up));
  }
  for (int i = total - warm_up; i < total; ++i) {
    actions.push_back(action(false, i));
  }
  return actions;
}

}  // namespace trainer
