// A term of the analytical cost model: one row contains all of its properties.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trials/objective.h"
#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace surrogates {

// The machine in the cost model: only its shape, neither speeds nor sizes.
struct ClusterShape {
  int gpus = 1;
  int gpus_per_node = 1;
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  // Configurations use dp * tp * pp * cp of the GPUs instead of all.
  bool in_parts = false;

  // The shape of the GPUs that a configuration uses.
  [[nodiscard]] ClusterShape Of(const trials::ParallelConfig& config) const {
    ClusterShape part = *this;
    part.gpus = in_parts ? trials::GpusOf(config) : gpus;
    return part;
  }

  [[nodiscard]] bool multi_node() const { return gpus > gpus_per_node; }
};

// Sizes of a training job: facts of its model and batch, no speeds. The shared
// scales of the physical form start at them, and they turn learned coefficients
// into bandwidths, latencies and bytes. 0: unknown.
struct JobSizes {
  double capacity_bytes = 0.0;  // memory of a GPU
  double parameters = 0.0;
  double active_parameters = 0.0;  // that a token goes through
  double bytes_per_value = 0.0;    // of parameters and activations in compute
  double layers = 0.0;
  double hidden_size = 0.0;
  double tokens = 0.0;  // of a step, over all ranks

  [[nodiscard]] bool known() const {
    return capacity_bytes > 0.0 && parameters > 0.0;
  }
};

[[nodiscard]] JobSizes SizesOf(const trials::Workload& workload,
                               double capacity_bytes);

// FLOP of a step without those of attention, and the bytes of a replica's
// parameters, gradients and optimizer state in mixed precision.
[[nodiscard]] double FlopOfStep(const JobSizes& sizes);
[[nodiscard]] double StateBytes(const JobSizes& sizes);

// A coefficient's typical value before the first trial and the deviation of its
// logarithm. Two kinds hold from one training job to another:
//
//   relative  a ratio to the job's size. For step time the size is C, the GPU
//             seconds of computation of a step; the ratio is bytes per FLOP
//             over bandwidth per FLOP/s. For memory it is M, the bytes of an
//             unsharded replica's state (16 per parameter) in GPUs.
//   absolute  a latency in s, or a share of the GPU's memory, which does not
//             depend on the model.
//
// The sizes themselves differ by 10^4 between jobs. Where the job is known they
// start at its sizes (JobSizes); the first measurements correct them
// (shared_scale.h).
//
// Source: docs/decisions/0009-typical-values.md derives and checks them.
struct TypicalValue {
  enum class Kind {
    kShare,        // of a step or of the capacity, at the term's largest value;
                   // for the printed form only
    kRatio,        // relative, to C or M
    kPerStep,      // relative, to C / S with S the sequences of a step: moves
                   // or updates parameters once per step
    kPerSequence,  // relative, to M S: grows with the batch
    kAbsolute,
  };
  Kind kind = Kind::kShare;
  double value = 0.1;       // > 0
  double log_stddev = 1.5;  // > 0

  // The prior center of the coefficient's logarithm, where S is `sequences` and
  // the largest value of the feature in the space `largest`.
  [[nodiscard]] double LogCenter(double sequences, double largest) const;
};

// How a coefficient c is converted to a physical number, given an amount.
struct Reading {
  enum class Kind {
    kPlain,      // c, in the term's own unit
    kBandwidth,  // amount (bytes) / c
    kFlopRate,   // amount (FLOP) / c
    kLatency,    // c / amount (collectives in sequence)
    kMemory,     // c times the capacity; `amount` is the expected bytes
  };
  Kind kind = Kind::kPlain;
  double (*amount)(const JobSizes&) = nullptr;  // null: not known
};

// One term of a sum. Terms of step time are in s, terms of memory in units of
// the GPU's capacity.
struct CostTerm {
  std::string name;     // in records
  std::string meaning;  // for display
  std::function<double(const trials::ParallelConfig&)> feature;
  TypicalValue typical;
  Reading reading;
};

// What takes t_c of Eq. 10, "the total time to perform the forward and backward
// passes". One term of the sum differs by a factor of mb.
enum class ComputeTime { kOfBatch, kOfMicrobatch };

// The terms of Eqs. 10-19 as the paper prints them; see cost_model.h.
[[nodiscard]] std::vector<CostTerm> PrintedTimeTerms(
    const ClusterShape& shape, ComputeTime t_comp = ComputeTime::kOfBatch);
// The terms of Eq. 21 as printed.
[[nodiscard]] std::vector<CostTerm> PrintedMemoryTerms(
    const ClusterShape& shape);

// These mechanisms with their dependence on every size; see cost_model.h.
// "compute" is the first.
[[nodiscard]] std::vector<CostTerm> PhysicalTimeTerms(
    const ClusterShape& shape);
// What the knobs of a space tell about activations.
struct ActivationKnobs {
  // It sets sp within tensor-parallel groups, so that sp = 1 keeps norms and
  // residuals whole; else tensor-parallel ranks split these too.
  bool sp = false;
  // It recomputes the core of attention alone, so that what recomputes nothing
  // keeps the scores; else nobody can tell them from the other activations.
  bool attention = false;
};
[[nodiscard]] std::vector<CostTerm> PhysicalMemoryTerms(
    const ActivationKnobs& sets = {});

// Whether sp is within the tensor-parallel group: its ranks are some of the tp.
[[nodiscard]] bool SplitsWithinTp(const trials::ParallelConfig& config,
                                  const ClusterShape& shape);

// The configuration with sequence-parallel ranks outside of the tensor-parallel
// group (DeepSpeed-Ulysses) as context-parallel ones, which is what they cost:
// ranks of their own if dp * tp * pp * cp * sp is the number of GPUs, otherwise
// ranks that dp counts.
[[nodiscard]] trials::ParallelConfig WithSequenceRanks(
    trials::ParallelConfig config, const ClusterShape& shape);

// Ring all-reduce over `ranks`: messages in sequence, and the fraction of the
// data that each rank sends once. Source: OPPA Eq. 11.
[[nodiscard]] inline double RingLatency(double ranks) {
  return 2.0 * (ranks - 1.0);
}
[[nodiscard]] inline double RingVolume(double ranks) {
  return (ranks - 1.0) / ranks;
}

}  // namespace surrogates
