#include "trials/simulator/gpu_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trials/text.h"

namespace trials {
namespace {

// Sources.
// tensor_fraction: GA100 reaches 271 of 312 TFLOPS and GH100 794 of 989 in the
//   best GEMM of a wide sweep (Bekman, "Machine Learning Engineering", maximum
//   achievable matmul FLOPS); the shapes of training are not the best ones,
//   so 0.84 and 0.74. V100: 0.80 of 125 (NVIDIA's GEMM figures, large sizes).
//   GA102: the A5000's 111 TFLOPS assume 1.70 GHz, but its 230 W hold about
//   1.3 GHz under tensor load (an RTX A6000 with 300 W holds 1.5 to 1.6):
//   0.70, an estimate. GeForce GA102 cards run fp32 accumulation at half rate,
//   so power does not limit them: ga102_geforce 0.92, as an RTX 3090 reaches
//   65 to 70 of 71.
// memory_fraction: streaming copies reach 0.86 on an RTX A5000 (659 of 768
//   GB/s, published MATLAB gpuBench run) and 0.85 to 0.93 elsewhere.
// flash_fraction: FlashAttention-2 reports up to 230 of 312 TFLOPS forward
//   and 196 backward on A100, and a lower share on H100.
constexpr std::array<GpuArchitecture, 5> kArchitectures = {{
    {"volta", 0.80, 0.90, 0.85, 0.55},
    {"ampere_ga100", 0.84, 0.90, 0.87, 0.70},
    {"ampere_ga102", 0.70, 0.85, 0.86, 0.75},
    {"ampere_ga102_geforce", 0.92, 0.85, 0.86, 0.75},
    {"hopper", 0.74, 0.90, 0.88, 0.55},
}};

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
constexpr double kTileOverhead = 96.0;  // k_0: filling and draining, store

}  // namespace

const GpuArchitecture& FindGpuArchitecture(std::string_view name) {
  std::vector<std::string> known;
  for (const GpuArchitecture& architecture : kArchitectures) {
    if (architecture.name == name) {
      return architecture;
    }
    known.emplace_back(architecture.name);
  }
  throw InputError(fmt::format("unknown GPU architecture '{}'{}; known: {}",
                               name,
                               DidYouMean(name, known),
                               fmt::join(known, ", ")));
}

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
}

double GpuModel::GemmTime(const Gemm& gemm) const {
  const double rate_per_sm = flop_per_s_ / multiprocessors_;
  const double io_bytes = element_bytes_ * gemm.batch *
                          (gemm.m * gemm.k + gemm.k * gemm.n + gemm.m * gemm.n);
  double best_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles =
        gemm.batch * std::ceil(gemm.m / tile.m) * std::ceil(gemm.n / tile.n);
    for (const double splits : kSplits) {
      const double k = gemm.k / splits;
      if (splits > 1 && k < kTileOverhead) {
        break;
      }
      const double waves = std::ceil(tiles * splits / multiprocessors_);
      const double compute_s = waves * tile.m * tile.n * 2.0 *
                               (k + kTileOverhead) /
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

double GpuModel::FlashTime(double flop, double bytes) const {
  return std::max(flop / (flop_per_s_ * flash_fraction_),
                  bytes / bytes_per_s_) +
         launch_s_;
}

double GpuModel::MemoryTime(double bytes, int kernels) const {
  return bytes / bytes_per_s_ + kernels * launch_s_;
}

}  // namespace trials
