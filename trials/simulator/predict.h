// Predictions of candidates by simulation.

#ifndef TRIALS_SIMULATOR_PREDICT_H_
#define TRIALS_SIMULATOR_PREDICT_H_

#include <string>
#include <vector>

#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/workload.h"

namespace trials {

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

// On up to `threads` threads; the result does not depend on them.
[[nodiscard]] SimulatedCosts PredictCosts(const SimulatedTraining& training,
                                          int threads);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_PREDICT_H_
