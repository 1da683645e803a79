// What a device module (a shared library that oppa-train loads, such as
// libtrainer_cuda.so) exports.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/communicator.h"
#include "trainer/device.h"

namespace trainer {

struct LaunchOptions {
  int world_size = 1;
  int first_rank = 0;   // ranks of this process: first_rank .. + local_ranks
  int local_ranks = 1;  // > 1: threads of this process
  std::string communication;  // "threads" or "nccl"; "": what fits
  std::string rendezvous;     // a file of a shared file system, for the NCCL id
  double timeout_s = 600.0;   // of an operation that a rank does not enter
  std::string precision;      // "bf16" or "float"; "": bf16
};

// Made once per process, destroyed after all ranks have ended.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual std::string description() const = 0;  // "CPU, float"
  [[nodiscard]] virtual std::unique_ptr<Device> MakeDevice(int rank) = 0;
  [[nodiscard]] virtual Fabric& fabric() = 0;
  // Bytes that one rank can have at most (its share of a card).
  [[nodiscard]] virtual std::int64_t MemoryBytes(int rank) = 0;
};

// The exported symbol: `extern "C"`, this name and this type. Returns null and
// sets *error (static storage) where there is no usable device.
inline constexpr const char* kModuleEntry = "OppaTrainerBackend";
using ModuleEntry = Backend* (*)(const LaunchOptions& options,
                                 const char** error);

}  // namespace trainer
