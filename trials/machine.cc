#include "trials/machine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "trials/objective.h"

namespace trials {

Machine::Machine(GpuType gpus, std::vector<int> sizes)
    : gpu_types_{std::move(gpus)}, sizes_(std::move(sizes)) {
  if (sizes_.empty()) {
    sizes_ = {gpu_types_.front().gpus};
  }
}

Machine::Machine(std::vector<GpuType> gpu_types)
    : gpu_types_(std::move(gpu_types)) {
  sizes_ = {gpus()};
}

Machine::Machine(std::span<const Cluster> gpu_types, std::vector<int> sizes)
    : sizes_(std::move(sizes)) {
  for (const Cluster& cluster : gpu_types) {
    gpu_types_.push_back({cluster.name, cluster.gpus(), cluster.gpus_per_node,
                          cluster.gpu.memory_bytes,
                          cluster.gpu.half_flop_per_s});
  }
  if (sizes_.empty()) {
    sizes_ = {gpus()};
  }
}

std::string Machine::SeveralTypes() const {
  return mixed() ? fmt::format("{} GPU types: choose one, gpu_type = \"{}\"",
                               gpu_types_.size(), gpu_types_.front().name)
                 : "";
}

int Machine::gpus() const {
  const std::vector<int> by_type = GpusByType();
  return std::accumulate(by_type.begin(), by_type.end(), 0);
}

std::vector<int> Machine::GpusByType() const {
  return common::Map(gpu_types_, &GpuType::gpus);
}

int Machine::gpus_per_node() const {
  return std::ranges::min(gpu_types_, {}, &GpuType::gpus_per_node)
      .gpus_per_node;
}

double Machine::memory_bytes() const {
  return std::ranges::min(gpu_types_, {}, &GpuType::memory_bytes).memory_bytes;
}

bool Machine::Uses(const ParallelConfig& config, int gpus) const {
  return !resizable() || GpusOf(config) == gpus;
}

std::vector<Machine> Machine::Parts() const {
  if (!resizable()) {
    return {*this};
  }
  std::vector<Machine> parts;
  for (const int gpus : sizes_) {
    GpuType part = gpu_types_.front();
    part.gpus = gpus;
    part.gpus_per_node = std::min(gpus, part.gpus_per_node);
    parts.emplace_back(std::move(part));
  }
  return parts;
}

}  // namespace trials
