// The entry of the module: libtrainer_cuda.so and libtrainer_emulated.so.

#include "trainer/module.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/cuda/card_fabric.h"
#include "trainer/cuda/cores.h"
#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/gpus.h"
#include "trainer/cuda/nccl_fabric.h"

namespace trainer::cuda {
namespace {

// Of a card, beside the arenas of its ranks: the context of CUDA, workspaces,
// and the buffers of NCCL.
constexpr std::int64_t kOutsideBytes = std::int64_t{1} << 30;

int WidthOf(const std::string& precision) {
  if (precision.empty() || precision == "bf16") {
    return 2;
  }
  if (precision == "float") {
    return 4;
  }
  throw std::invalid_argument(fmt::format(
      "invalid precision '{}' for a GPU; known: bf16, float", precision));
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const LaunchOptions& options)
      : width_(WidthOf(options.precision)),
        local_ranks_(std::max(options.local_ranks, 1)),
        // Now, before ranks that share the card reserve their memory.
        bytes_(ShareOfFreeBytes()) {
    KeepToCores(CoresNextTo(Gpu()));  // also the threads of NCCL
    const bool threads = options.communication.empty()
                             ? options.local_ranks == options.world_size
                             : options.communication == "threads";
    if (threads) {
      fabric_ =
          std::make_unique<CardFabric>(options.world_size, options.timeout_s);
      return;
    }
    if (options.local_ranks != 1) {
      throw std::invalid_argument(
          "NCCL needs a process for each rank (ranks = \"per-gpu\")");
    }
    if (options.rendezvous.empty()) {
      throw std::invalid_argument(
          "NCCL needs --rendezvous, a path that all hosts share");
    }
    fabric_ =
        std::make_unique<NcclFabric>(options.rendezvous, options.timeout_s);
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("{}, {}", GpuName(Gpu()),
                       width_ == 2 ? "bf16" : "float");
  }
  [[nodiscard]] std::unique_ptr<Device> MakeDevice(int /*rank*/) override {
    return std::make_unique<CudaDevice>(
        Gpu(), width_,
        CudaDevice::HostWaits{
            [this] { return fabric_->BeginWait("the device"); },
            [this] { fabric_->Check(); }});
  }
  [[nodiscard]] Fabric& fabric() override { return *fabric_; }
  [[nodiscard]] std::int64_t MemoryBytes(int /*rank*/) override {
    // What NCCL has taken for groups of a rank of its own is no longer free.
    return local_ranks_ == 1 ? ShareOfFreeBytes() : bytes_;
  }

 private:
  // The GPU of this process.
  [[nodiscard]] int Gpu() const { return LocalRank() % GpuCount(); }
  [[nodiscard]] std::int64_t ShareOfFreeBytes() const {
    return std::max<std::int64_t>(FreeBytes(Gpu()) - kOutsideBytes, 0) /
           local_ranks_;
  }

  int width_;
  int local_ranks_;
  std::int64_t bytes_;  // of a rank
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace
}  // namespace trainer::cuda

extern "C" trainer::Backend* OppaTrainerBackend(
    const trainer::LaunchOptions& options, const char** error) {
  static std::string message;
  try {
    const std::string problem = trainer::cuda::NoGpuMessage();
    if (problem.empty()) {
      return new trainer::cuda::CudaBackend(options);
    }
    message = problem;
  } catch (const std::exception& e) {
    message = e.what();
  }
  *error = message.c_str();
  return nullptr;
}
