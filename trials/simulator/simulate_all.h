// Simulation of many configurations on several threads.

#pragma once

#include <functional>
#include <span>
#include <vector>

#include "trials/simulator/simulator.h"

namespace trials {

// The reports of all configurations, in their order, on up to `threads` threads
// with a simulator each; the result does not depend on their number.
// Errors: rethrows the first exception of a simulation after all threads have
// ended.
[[nodiscard]] std::vector<StepReport> SimulateAll(
    std::span<const ParallelConfig> configs, int threads,
    const std::function<Simulator()>& make);

// Training of a workload on a machine, in several configurations.
struct SimulatedTraining {
  Workload workload;
  Cluster cluster;
  Framework framework;
  std::vector<ParallelConfig> configs;
};

// Costs as simulated, NaN for a configuration that the simulator rejects: it is
// invalid, or the framework does not support it. A configuration that does not
// fit in memory has a time and a peak, too: those on a GPU with more memory.
//
// Note: a framework that refuses fewer microbatches than stages
// (Framework::pipeline.full_pipeline) is simulated without that rule, because a
// prediction is not a permission.
// Shapes: [N], the number of configurations. Units: s; bytes per GPU.
struct SimulatedCosts {
  std::vector<double> step_time_s;
  std::vector<double> peak_memory_bytes;
};

// Threads are those of SimulateAll.
[[nodiscard]] SimulatedCosts PredictCosts(const SimulatedTraining& training,
                                          int threads);

}  // namespace trials
