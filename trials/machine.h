// The machine that the candidates of a problem run on.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "trials/cluster.h"
#include "trials/parallel_config.h"

namespace trials {

// The GPUs of one type, as their data sheet describes them.
struct GpuType {
  std::string name;  // of the group of hosts
  int gpus = 1;
  int gpus_per_node = 1;
  double memory_bytes = 0.0;     // per GPU
  double half_flop_per_s = 0.0;  // dense, in 16 bits
};

// GPUs of one type or of several, without their links: the view that methods
// have of a cluster. Candidates use all GPUs or, on a resizable machine, a part
// of them. Only a machine with one type is resizable.
class Machine {
 public:
  Machine() : Machine(GpuType{}) {}
  // `sizes`: the numbers of GPUs that candidates use, ascending; none: all.
  // NOLINTNEXTLINE(google-explicit-constructor): GPUs are a machine.
  Machine(GpuType gpus, std::vector<int> sizes = {});
  // Precondition: at least one type.
  explicit Machine(std::vector<GpuType> gpu_types);
  explicit Machine(std::span<const Cluster> gpu_types,
                   std::vector<int> sizes = {});

  // As PlanStage::gpu_type numbers them; at least one.
  [[nodiscard]] const std::vector<GpuType>& gpu_types() const {
    return gpu_types_;
  }
  // At least one, ascending.
  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }
  // The configurations have stages of different types.
  [[nodiscard]] bool mixed() const { return gpu_types_.size() > 1; }
  // "2 GPU types: choose one, gpu_type = "a100"", for errors; "" of one type.
  [[nodiscard]] std::string SeveralTypes() const;
  // Candidates use different numbers of GPUs.
  [[nodiscard]] bool resizable() const { return sizes_.size() > 1; }

  [[nodiscard]] int gpus() const;  // of all types
  [[nodiscard]] std::vector<int> GpusByType() const;
  // The number of the type that has least.
  [[nodiscard]] int gpus_per_node() const;
  [[nodiscard]] double memory_bytes() const;  // per GPU

  // The configuration uses this one of the sizes.
  [[nodiscard]] bool Uses(const ParallelConfig& config, int gpus) const;
  // The machine at each of its sizes.
  [[nodiscard]] std::vector<Machine> Parts() const;

 private:
  std::vector<GpuType> gpu_types_;
  std::vector<int> sizes_;
};

}  // namespace trials
