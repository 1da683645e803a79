// The analytical performance model of a textbook, with its constraints and its
// rules for a first configuration.

#pragma once

#include <vector>

#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace planners {

// The machine as data sheets describe it.
struct TextbookMachine {
  int gpus_per_node = 8;
  double memory_bytes = 80e9;             // per GPU
  double flops_per_s = 989e12;            // dense, in 16 bits
  double intra_node_bytes_per_s = 300e9;  // per GPU
  double inter_node_bytes_per_s = 100e9;  // per GPU
};

// The parts of a step, in s.
struct TextbookStep {
  double compute_s = 0.0;
  double tensor_s = 0.0;  // all-reduces of tensor parallelism
  double data_s = 0.0;    // reduction of gradients that is not hidden
  double bubble_s = 0.0;

  [[nodiscard]] double Communication() const { return tensor_s + data_s; }
  [[nodiscard]] double Total() const {
    return compute_s + tensor_s + data_s + bubble_s;
  }
};

// Memory of one GPU, in bytes.
struct TextbookMemory {
  double parameters = 0.0;
  double gradients = 0.0;
  double optimizer = 0.0;
  double activations = 0.0;

  // What does not depend on the batch.
  [[nodiscard]] double Static() const {
    return parameters + gradients + optimizer;
  }
  [[nodiscard]] double Total() const { return Static() + activations; }
};

// A job, whose predictions depend on few numbers. With P parameters, L layers,
// hidden size H, sequence length S, microbatches m of b sequences and v model
// chunks,
//
//   compute   6 P m b S / (tp pp) / (e F), e = min(1, sqrt(b S / 2048)) / 2
//   tensor    m 2 (L / pp) 2 (2 b S H / tp) / intra               for tp > 1
//   data      2 (dp - 1) / dp 2 P / (tp pp) / x, less 0.8 compute, x the link
//             within hosts if dp tp <= gpus_per_node, else between them
//   bubble    compute (pp - 1) / (m v)
//
// and in bytes
//
//   parameters 2 P / (tp pp), gradients the same, optimizer 12 P / (tp pp),
//   each over dp from ZeRO stage 3, 2 and 1 on; activations
//   34 b S H / tp for each layer of a stage, or for two with recomputation.
//
// Source: "Configuration search" (textbook chapter), cost models and exercises
// 2 and 5. The listing there has the tensor-parallel traffic of one microbatch
// per step; here it is that of all. Its activations differ between listing and
// exercises; these are those of the exercises.
class TextbookModel {
 public:
  TextbookModel(const trials::Workload& workload,
                const TextbookMachine& machine)
      : workload_(workload), machine_(machine) {}

  [[nodiscard]] TextbookStep Step(const trials::ParallelConfig& config) const;
  [[nodiscard]] TextbookMemory Memory(
      const trials::ParallelConfig& config) const;

  // The share of communication in a step without a bubble, which the textbook
  // limits to 0.2.
  [[nodiscard]] double CommunicationShare(
      const trials::ParallelConfig& config) const;

  // The rules of thumb for a first configuration on `gpus` GPUs: tp until half
  // of a GPU's memory holds 16 bytes per parameter, at most a host; stages of
  // deep models; data parallelism for the rest; ZeRO 1, or more if the states
  // exceed 0.8 of the memory; the largest microbatch whose inputs fit into a
  // fifth of it; two model chunks from four stages on; recomputation from a
  // billion parameters on. It need not be valid in a search space.
  [[nodiscard]] trials::ParallelConfig Advise(int gpus) const;

 private:
  [[nodiscard]] double Sequences(const trials::ParallelConfig& config) const;
  [[nodiscard]] double ParametersPerGpu(
      const trials::ParallelConfig& config) const;

  trials::Workload workload_;
  TextbookMachine machine_;
};

// Factors of computation, bubble included, and of communication.
struct TextbookFactors {
  double compute = 1.0;
  double communication = 1.0;

  [[nodiscard]] double StepTime(const TextbookStep& step) const {
    return compute * (step.compute_s + step.bubble_s) +
           communication * step.Communication();
  }
};

// A measured step and its prediction.
struct TextbookMeasurement {
  TextbookStep predicted;
  double step_time_s = 0.0;
};

// The factors >= 0 with the least sum of squared relative errors. With one
// measurement, both factors are the same.
[[nodiscard]] TextbookFactors Calibrate(
    const std::vector<TextbookMeasurement>& measurements);

}  // namespace planners
