// The result of a simulation: time of a step and memory of a GPU by component.

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trials {

// The step of the critical rank (the one that ends last). The components add up
// to the step time. Communication counts where it is exposed: hidden behind
// computation it costs nothing here.
struct TimeBreakdown {
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
  void Add(double times, const TimeBreakdown& other);
  friend bool operator==(const TimeBreakdown&, const TimeBreakdown&) = default;
};

// What a peak counts: model states and saved activations (as formulas do), the
// bytes that PyTorch's allocator has handed out, those that it has reserved, or
// all bytes of the process on the device, which are those that must fit.
enum class PeakMemory { kComputed, kAllocated, kReserved, kDevice };

// Memory of one rank at its peak, in bytes.
struct MemoryBreakdown {
  double parameters_bytes = 0.0;
  double gradients_bytes = 0.0;
  double optimizer_bytes = 0.0;    // fp32 master weights, moments
  double activations_bytes = 0.0;  // saved for backward, all in flight
  double logits_bytes = 0.0;       // vocabulary head and loss
  double working_bytes = 0.0;      // temporaries of the running operator
  double buffers_bytes = 0.0;      // buckets, gathered parameters
  double pending_bytes = 0.0;      // freed, but still in use by the GPU
  double allocator_bytes = 0.0;    // rounding and fragmentation
  double context_bytes = 0.0;  // CUDA, cuBLAS and NCCL outside the allocator

  [[nodiscard]] double Total() const;
  [[nodiscard]] double Bytes(PeakMemory counted) const;
  friend bool operator==(const MemoryBreakdown&,
                         const MemoryBreakdown&) = default;
};

// The memory of the rank that fills its GPU most.
struct MemoryReport {
  MemoryBreakdown memory;  // of the peak rank
  // The first and the last stage: a framework logs the memory of one rank.
  MemoryBreakdown first_stage_memory;
  MemoryBreakdown last_stage_memory;
  double peak_memory_bytes = 0.0;
  double capacity_bytes = 0.0;
  int peak_rank = 0;
  bool fits = false;
  double host_bytes = 0.0;  // of all hosts, for what is offloaded
  double retry_s = 0.0;     // of an allocator that is short of memory
  // The model states fit. If not, memory runs out during set-up; otherwise in
  // the first step.
  bool model_states_fit = false;

  friend bool operator==(const MemoryReport&, const MemoryReport&) = default;
};

struct StepReport : MemoryReport {
  double step_time_s = 0.0;
  TimeBreakdown time;  // of the critical rank
  int critical_rank = 0;
  // Of the rank that waits least, until the step ends: why it takes so long.
  TimeBreakdown busiest;

  friend bool operator==(const StepReport&, const StepReport&) = default;
};

// All components with their names, in the order of the members.
using Components = std::vector<std::pair<std::string_view, double>>;
[[nodiscard]] Components ComponentsOf(const TimeBreakdown& time);
[[nodiscard]] Components ComponentsOf(const MemoryBreakdown& memory);

// The name of the largest component: "activations".
[[nodiscard]] std::string LargestComponent(const MemoryBreakdown& memory);

// The table that `oppa simulate --pc` prints below the name of what was
// simulated: every component in milliseconds or GB with its share, totals,
// critical rank, peak rank.
[[nodiscard]] std::string FormatReport(std::string_view simulated,
                                       const StepReport& report);

}  // namespace trials
