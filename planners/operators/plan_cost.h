// Aceso's performance model: time and memory of a plan.

#pragma once

#include <span>
#include <vector>

#include "planners/operators/link_table.h"
#include "planners/operators/operator_plan.h"
#include "planners/operators/operator_table.h"
#include "planners/operators/operator_traits.h"

namespace planners {

// Copies of the parameters that training keeps, in units of the profiled
// weights: master copy and optimizer state, in addition to weights and
// gradients. Mixed precision with Adam: 2 + 4; fp32: 0 + 2.
struct StateCopies {
  double master = 2.0;
  double optimizer = 4.0;
};

// The training job and its machine.
struct OperatorJob {
  int layers = 1;  // repetitions of the operators whose names begin with enc-
                   // or dec-
  int batch = 1;   // sequences per iteration
  int gpus = 1;
  int gpus_per_node = 1;
  double memory_limit_mb = 0.0;  // per GPU
  StateCopies copies;
};

// One stage of a plan, as far as its cost depends on it.
struct StageView {
  int begin = 0;  // its operators
  int end = 0;
  int behind = 0;  // stages after it
  int micro_batch = 1;
  bool input_between_hosts = false;
  bool output_between_hosts = false;
  std::span<const OperatorChoice> choices;  // of its operators
};

// Per microbatch. Infinite where an operator was not profiled.
struct StageCost {
  double compute_ms = 0.0;  // forward and backward
  double recompute_ms = 0.0;
  double communicate_ms = 0.0;  // input, output, conversions of layouts
  // compute_ms of the stage on one GPU without parallelism, over its GPUs.
  double ideal_ms = 0.0;
  double memory_mb = 0.0;    // peak of one GPU
  double reserved_mb = 0.0;  // the part that the allocator reserves in addition
  int gpus = 1;

  [[nodiscard]] double total_ms() const {
    return compute_ms + recompute_ms + communicate_ms;
  }
};

struct PlanCost {
  std::vector<StageCost> stages;
  std::vector<double> stage_iteration_ms;  // Eq. 2
  double iteration_ms = 0.0;               // of the slowest stage
  double memory_mb = 0.0;                  // of the fullest stage
};

// The model over profiled operators.
//
// Stage i of p (from 0) takes t_i per microbatch; with N microbatches, Eq. 2 is
//
//   T_i = sum_j t_j + (N - 1) t_i,   T = max_i T_i:
//
// warm-up and cool-down are one microbatch through all stages. Eq. 1 is
//
//   M_i = parameters + optimizer states + (p - i) activations
//         + the largest recomputed part + reserved,
//
// where reserved = max(largest forward + largest backward reservation of an
// operator, weights): an overestimate. The last operator of a stage does not
// count in it: with it, the model exceeds the published reserved memory of
// GPT-350M, 5,120 MB, by 576 MB. The gradients of data parallelism are
// not synchronized: neither Eq. 2 nor the published program has that time.
//
// Source: Aceso Sec. 3.3, Eqs. 1-2; its published program where the paper does
// not say (layout conversions, kept activations, bandwidth by size).
class OperatorModel {
 public:
  // Errors: throws InputError if no operator can be repeated (layers > 1).
  OperatorModel(OperatorTable table, LinkTable links, const OperatorJob& job);

  [[nodiscard]] const OperatorJob& job() const { return job_; }
  [[nodiscard]] const OperatorTable& table() const { return table_; }
  [[nodiscard]] const LinkTable& links() const { return links_; }
  // The number of operators of the whole model, and the name of each as an
  // index into table().names().
  [[nodiscard]] int operators() const {
    return static_cast<int>(sequence_.size());
  }
  [[nodiscard]] int NameOf(int op) const { return sequence_[op]; }
  [[nodiscard]] const OperatorTraits& TraitsOf(int op) const {
    return traits_[NameOf(op)];
  }
  // The profile of an operator with its choice; nullptr: not profiled.
  [[nodiscard]] const OperatorProfile* Profile(
      int op, int micro_batch, const OperatorChoice& choice) const {
    return table_.Find(NameOf(op), micro_batch >> choice.dp_log2,
                       choice.tp_log2, choice.variant);
  }

  [[nodiscard]] StageCost Cost(const StageView& stage) const;
  [[nodiscard]] double MemoryMb(const StageView& stage) const {
    return WithoutCommunication(stage).memory_mb;
  }
  [[nodiscard]] PlanCost Cost(const OperatorPlan& plan) const;

  // Time to convert the layout of a tensor, and that of its gradient, between
  // operator `op` with the choice `b` and its predecessor with `a`, which are
  // in one stage and profiled. 0 where both layouts are the same.
  [[nodiscard]] double ConversionUs(int op, int micro_batch,
                                    const OperatorChoice& a,
                                    const OperatorChoice& b) const;

  // A stage of a plan; the plan must outlive it.
  [[nodiscard]] StageView ViewOf(const OperatorPlan& plan, int stage) const;

 private:
  [[nodiscard]] StageCost WithoutCommunication(const StageView& stage) const;
  [[nodiscard]] double ConversionMs(const StageView& stage) const;
  [[nodiscard]] double TransferMs(const StageView& stage) const;

  OperatorTable table_;
  LinkTable links_;
  OperatorJob job_;
  std::vector<int> sequence_;
  std::vector<OperatorTraits> traits_;  // by name
};

}  // namespace planners
