#include "trials/simulator/gpu_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "trials/gpu_architecture.h"

namespace trials {
namespace {

struct Tile {
  double m;
  double n;
  // Share of the large tile's rate: data reuse falls with the tile's edge.
  double efficiency;
};
constexpr std::array<Tile, 6> kTiles = {{{256, 128, 1.0},
                                         {128, 256, 1.0},
                                         {128, 128, 0.96},
                                         {128, 64, 0.82},
                                         {64, 128, 0.82},
                                         {64, 64, 0.64}}};
constexpr std::array<double, 4> kSplits = {1, 2, 4, 8};

}  // namespace

double ElementBytes(Precision precision) {
  return precision == Precision::kFp32 ? 4.0 : 2.0;
}

GpuModel::GpuModel(const Gpu& gpu, Precision precision, double launch_s)
    : multiprocessors_(gpu.multiprocessors),
      element_bytes_(ElementBytes(precision)),
      launch_s_(launch_s) {
  const GpuArchitecture& architecture = FindGpuArchitecture(gpu.architecture);
  // PyTorch leaves TF32 off for matrix products: fp32 runs on the fp32 units.
  flop_per_s_ = precision == Precision::kFp32
                    ? gpu.single_flop_per_s * architecture.single_fraction
                    : gpu.half_flop_per_s * architecture.tensor_fraction;
  bytes_per_s_ =
      gpu.memory_bandwidth_bytes_per_s * architecture.memory_fraction;
  flash_fraction_ = architecture.flash_fraction;
  flash_backward_fraction_ = architecture.flash_backward_fraction;
  tile_overhead_ = architecture.tile_overhead;
  unaligned_fraction_ = architecture.unaligned_fraction;
}

double GpuModel::GemmTime(const Gemm& gemm) const {
  const double rate_per_sm = flop_per_s_ / multiprocessors_ *
                             (gemm.aligned ? 1.0 : unaligned_fraction_);
  const double io_bytes = element_bytes_ * gemm.batch *
                          (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n);
  double best_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles =
        gemm.batch * std::ceil(gemm.m / tile.m) * std::ceil(gemm.n / tile.n);
    for (const double splits : kSplits) {
      const double k = gemm.k / splits;
      if (splits > 1 && k < tile_overhead_) {
        break;
      }
      const double waves = std::ceil(tiles * splits / multiprocessors_);
      const double compute_s = waves * tile.m * tile.n * 2.0 *
                               (k + tile_overhead_) /
                               (rate_per_sm * tile.efficiency);
      // Partial sums of split K are written and read in fp32.
      const double split_bytes =
          splits > 1 ? 8.0 * splits * gemm.batch * gemm.m * gemm.n : 0.0;
      const double memory_s = (io_bytes + split_bytes) / bytes_per_s_;
      best_s = std::min(best_s, std::max(compute_s, memory_s));
    }
  }
  return best_s + launch_s_;
}

double GpuModel::FlashTime(double flop, double bytes, bool backward) const {
  const double fraction = backward ? flash_backward_fraction_ : flash_fraction_;
  return std::max(flop / (flop_per_s_ * fraction), bytes / bytes_per_s_) +
         launch_s_;
}

double GpuModel::MemoryTime(double bytes, int kernels) const {
  return bytes / bytes_per_s_ + kernels * launch_s_;
}

}  // namespace trials
