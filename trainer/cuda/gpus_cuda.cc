#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>

#include "trainer/cuda/gpus.h"
#include "trainer/cuda/platform.h"

namespace trainer::cuda {

std::string NoGpuMessage() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    return fmt::format("no usable GPU: {}", cudaGetErrorString(error));
  }
  if (count == 0) {
    return "no usable GPU: CUDA finds none";
  }
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (properties.major < 8) {
    return fmt::format(
        "no usable GPU: {} has compute capability {}.{}, and bf16 needs 8.0",
        properties.name, properties.major, properties.minor);
  }
  return "";
}

int GpuCount() {
  int count = 0;
  Check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

std::string GpuName(int gpu) {
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, gpu), "cudaGetDeviceProperties");
  return properties.name;
}

std::int64_t FreeBytes(int gpu) {
  std::size_t free = 0;
  std::size_t total = 0;
  Check(cudaSetDevice(gpu), "cudaSetDevice");
  Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free);
}

std::string CoresNextTo(int gpu) {
  char bus[32] = "";
  Check(cudaDeviceGetPCIBusId(bus, sizeof(bus), gpu), "cudaDeviceGetPCIBusId");
  std::string name = bus;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::ifstream in("/sys/bus/pci/devices/" + name + "/local_cpulist");
  std::string list;
  std::getline(in, list);
  return list;
}

int LocalRank() {
  const char* text = std::getenv("SLURM_LOCALID");
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace trainer::cuda
