// Execution of a pipeline schedule, event by event.

#pragma once

#include <vector>

#include "trials/schedule.h"

namespace trials {

// Duration of the actions and transfers of a pipeline.
struct PipelineTimes {
  std::vector<double> forward_s;   // [stages * chunks], by virtual stage
  std::vector<double> backward_s;  // [stages * chunks]
  // Transfer of one microbatch's hidden states from stage s to stage s + 1
  // (the last sends to the first when interleaved), and of gradients back
  // from stage s + 1 to s. [stages]
  std::vector<double> send_forward_s;
  std::vector<double> send_backward_s;
  // True: a send overlaps with the next action. False: the sender waits for it.
  bool overlap = false;
  // Gradients of weights, not included in backward_s; with a split backward
  // pass only. [stages]
  std::vector<double> weights_s = {};
};

// One stage until the end of its last action.
struct StageTimeline {
  double begin_s = 0.0;     // start of the first action
  double end_s = 0.0;       // end of the last action, its send included
  double busy_s = 0.0;      // in actions
  double transfer_s = 0.0;  // sending, or waiting for bytes in transit
  double bubble_s = 0.0;    // waiting for another stage
  // Invariant: end_s = busy_s + transfer_s + bubble_s.
};

// Runs the actions of all stages: a forward starts when the stage is free and
// the hidden states have arrived, a backward when the gradient has arrived;
// gradients of weights need nothing else.
//
// A filled pipeline is periodic, with a period of one microbatch (interleaved:
// `stages` microbatches). Once the run has become periodic, the remaining
// periods are added up instead of run; the result is the same up to rounding.
// Stages that are almost equally slow become periodic late or never; then all
// actions are run.
//
// Source: docs/simulator.md, "Pipeline"; Baccelli et al. (1992), event graphs
// become periodic after a finite time.
// Errors: throws std::logic_error if the schedule deadlocks (no schedule of
// StageActions does; a test runs them all).
[[nodiscard]] std::vector<StageTimeline> RunPipeline(
    const PipelineShape& shape, const PipelineTimes& times);

// An action of a stage as it ran.
struct ActionRecord {
  Action action;
  double begin_s = 0.0;
  double end_s = 0.0;
  double received_s = 0.0;  // of the time before it: its input was in transit
  double free_s = 0.0;      // end of its send, where the stage waits for that
  bool critical = false;    // on the longest path, see MarkCriticalPath
};
using PipelineRecord = std::vector<std::vector<ActionRecord>>;

// Every action of RunPipeline. Shapes: [stages][ActionCount(shape)].
[[nodiscard]] PipelineRecord RecordPipeline(const PipelineShape& shape,
                                            const PipelineTimes& times);

// Marks the actions that the end of a stage has waited for: before an action
// that its stage was ready for, the one that sent its input, else the stage's
// action before it.
void MarkCriticalPath(const PipelineShape& shape, int stage,
                      PipelineRecord& record);

// The peak of the saved activations on a stage, in bytes, if one microbatch
// saves `saved_bytes_per_chunk` in the stage's chunks. A split backward pass
// keeps all of them for the gradients of weights: an upper limit, since scores
// and norms are not needed any more.
[[nodiscard]] double PeakActivationBytes(
    const PipelineShape& shape, int stage,
    const std::vector<double>& saved_bytes_per_chunk);

}  // namespace trials
