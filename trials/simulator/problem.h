// The inputs of a simulation other than the plan.

#ifndef TRIALS_SIMULATOR_PROBLEM_H_
#define TRIALS_SIMULATOR_PROBLEM_H_

#include <vector>

#include "trials/cluster.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/gpu_model.h"
#include "trials/workload.h"

namespace trials {

struct Problem {
  Workload workload;
  std::vector<Cluster> gpu_types;  // one for each GPU type
  Framework framework;
  std::vector<GpuModel> gpus;  // of each gpu_type

  [[nodiscard]] std::vector<int> GpusOfTypes() const {
    std::vector<int> numbers;
    for (const Cluster& gpu_type : gpu_types) {
      numbers.push_back(gpu_type.gpus());
    }
    return numbers;
  }
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_PROBLEM_H_
