// What the simulator says about one configuration: where a step's time and a
// GPU's memory go.

#ifndef TRIALS_SIMULATOR_STEP_REPORT_H_
#define TRIALS_SIMULATOR_STEP_REPORT_H_

#include <string>

#include "trials/parallel_config.h"

namespace trials {

// The step of the critical rank (the one that ends last), cut into parts that
// add up to the step time. Communication counts where it is exposed: what
// hides behind compute costs nothing here.
struct StepParts {
  double forward_s = 0.0;    // blocks, forward
  double backward_s = 0.0;   // blocks, backward
  double recompute_s = 0.0;  // second forward under checkpointing
  double head_s = 0.0;       // embedding, vocabulary head and loss, both ways
  double optimizer_s = 0.0;
  double tensor_s = 0.0;    // tensor-parallel collectives
  double context_s = 0.0;   // keys and values between context-parallel ranks
  double expert_s = 0.0;    // all-to-alls between expert-parallel ranks
  double data_s = 0.0;      // gradients and ZeRO, exposed
  double pipeline_s = 0.0;  // stage-to-stage transfers, exposed
  double bubble_s = 0.0;    // waiting for other stages
  double overhead_s = 0.0;  // launch-bound time, buckets, the step's fixed cost

  [[nodiscard]] double Total() const;
  void Add(double times, const StepParts& other);
  friend bool operator==(const StepParts&, const StepParts&) = default;
};

// Memory of one rank at its peak, in bytes.
struct MemoryParts {
  double parameters_bytes = 0.0;
  double gradients_bytes = 0.0;
  double optimizer_bytes = 0.0;    // fp32 master weights, moments
  double activations_bytes = 0.0;  // saved for backward, all in flight
  double logits_bytes = 0.0;       // vocabulary head and loss
  double working_bytes = 0.0;      // temporaries of the running operator
  double buffers_bytes = 0.0;      // buckets, gathered parameters
  double pending_bytes = 0.0;      // freed, but not before the GPU is through
  double allocator_bytes = 0.0;    // rounding and fragmentation
  double context_bytes = 0.0;  // CUDA, cuBLAS and NCCL outside the allocator

  [[nodiscard]] double Total() const;
  friend bool operator==(const MemoryParts&, const MemoryParts&) = default;
};

struct StepReport {
  double step_time_s = 0.0;
  StepParts parts;  // of the critical rank
  int critical_rank = 0;
  MemoryParts memory;  // of the peak rank
  // Of the first and the last stage: a framework logs what one rank sees.
  MemoryParts first_stage_memory;
  MemoryParts last_stage_memory;
  double peak_memory_bytes = 0.0;
  double capacity_bytes = 0.0;
  int peak_rank = 0;
  bool fits = false;
  bool short_of_memory = false;  // the allocator has to wait and ask anew
  // The model states fit. If not, memory runs out during set-up; otherwise in
  // the first step.
  bool model_states_fit = false;

  friend bool operator==(const StepReport&, const StepReport&) = default;
};

// The part of the memory that is largest, by name: "activations".
[[nodiscard]] std::string LargestPart(const MemoryParts& memory);

// The table that `oppa simulate --pc` prints: every part in milliseconds or
// GB with its share, totals, critical rank, peak rank.
[[nodiscard]] std::string FormatReport(const ParallelConfig& config,
                                       const StepReport& report);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STEP_REPORT_H_
