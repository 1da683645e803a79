#include "trials/simulator/gpu_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "common/error.h"

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

constexpr double kFlashBlock = 128.0;
constexpr double kHeadMultiple = 32.0;
constexpr double kReferenceHead = 128.0;

}  // namespace

double ElementBytes(Precision precision) {
  return precision == Precision::kFp32 ? 4.0 : 2.0;
}

GpuModel::GpuModel(const Gpu& gpu, Precision precision, double launch_s)
    : architecture_(FindGpuArchitecture(gpu.architecture)),
      single_flop_per_s_(gpu.single_flop_per_s * architecture_.single_fraction),
      bytes_per_s_(gpu.memory_bandwidth_bytes_per_s *
                   architecture_.memory_fraction),
      multiprocessors_(gpu.multiprocessors),
      element_bytes_(ElementBytes(precision)),
      launch_s_(launch_s) {
  // PyTorch leaves TF32 off for matrix products: fp32 runs on the fp32 units.
  const bool fp32 = precision == Precision::kFp32;
  flop_per_s_ = fp32 ? single_flop_per_s_
                     : gpu.half_flop_per_s * architecture_.tensor_fraction;
  flash_flop_per_s_ = flop_per_s_ * (fp32 ? 1.0 : gpu.attention_fraction);
  flop_per_s_ *= fp32 ? 1.0 : gpu.power_fraction;
  if (precision == Precision::kBf16 && gpu.no_bf16) {
    throw common::InputError(
        fmt::format("the GPU '{}' multiplies no bf16 on its tensor cores: use "
                    "--precision fp16, or precision = \"fp16\" in [workload]",
                    gpu.name));
  }
  if (precision == Precision::kFp8) {
    fp8_flop_per_s_ =
        gpu.fp8_flop_per_s * architecture_.fp8_fraction * gpu.power_fraction;
    if (!fp8()) {
      throw common::InputError(
          fmt::format("the GPU '{}' has no fp8: its file needs fp8_tflops and "
                      "its architecture '{}' fp8_fraction",
                      gpu.name, gpu.architecture));
    }
  }
}

double GpuModel::Rate(const Gemm& gemm) const {
  const double rate = gemm.fp8 ? fp8_flop_per_s_ : flop_per_s_;
  if (gemm.aligned) {
    return rate;
  }
  const double unaligned = rate * architecture_.unaligned_fraction;
  return gemm.batch > 1.0 ? std::min(unaligned, single_flop_per_s_) : unaligned;
}

double GpuModel::GemmTime(const Gemm& gemm) const {
  const double rate_per_sm = Rate(gemm) / multiprocessors_;
  const double result_bytes =
      (gemm.result_bytes > 0.0 ? gemm.result_bytes : element_bytes_) *
      (gemm.accumulate ? 2.0 : 1.0);
  const double io_bytes =
      gemm.batch *
      ((gemm.fp8 ? 1.0 : element_bytes_) * (gemm.m * gemm.k + gemm.k * gemm.n) +
       result_bytes * gemm.m * gemm.n);
  const double k_0 = architecture_.tile_overhead *
                     (gemm.fp8 ? fp8_flop_per_s_ / flop_per_s_ : 1.0);
  const double overlap = architecture_.wave_overlap;
  // The epilogue writes each element of a tile.
  const double epilogue_s = architecture_.epilogue_share * result_bytes *
                            multiprocessors_ / bytes_per_s_;
  double best_s = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles =
        gemm.batch * std::ceil(gemm.m / tile.m) * std::ceil(gemm.n / tile.n);
    for (const double splits : kSplits) {
      const double k = gemm.k / splits;
      if (splits > 1 && k < k_0) {
        break;
      }
      const double load = tiles * splits / multiprocessors_;
      const double waves =
          (1.0 - overlap) * std::ceil(load) + overlap * std::max(1.0, load);
      const double compute_s =
          waves * tile.m * tile.n *
          (2.0 * (k + k_0) / (rate_per_sm * tile.efficiency) + epilogue_s);
      // Partial sums of split K are written and read in fp32.
      const double split_bytes =
          splits > 1 ? 8.0 * splits * gemm.batch * gemm.m * gemm.n : 0.0;
      const double memory_s = (io_bytes + split_bytes) / bytes_per_s_;
      best_s = std::min(best_s, std::max(compute_s, memory_s));
    }
  }
  return best_s + launch_s_;
}

double GpuModel::FlashTime(const Attention& attention, bool backward) const {
  // Products of a score with the columns of its head: two forward, and backward
  // computes the score again and four gradients.
  const double products = backward ? 5.0 : 2.0;
  const double tail =
      backward ? architecture_.flash_backward_tail : architecture_.flash_tail;
  const double head =
      kHeadMultiple * std::ceil(attention.head_size / kHeadMultiple);
  const double columns = architecture_.softmax_columns;
  const double flash = backward ? architecture_.flash_backward_fraction
                                : architecture_.flash_fraction;
  const double cudnn = backward ? architecture_.cudnn_backward_fraction
                                : architecture_.cudnn_fraction;
  const double rate_per_sm = flash_flop_per_s_ / multiprocessors_ *
                             (attention.cudnn && cudnn > 0.0 ? cudnn : flash) *
                             (1.0 + columns / kReferenceHead) /
                             (1.0 + columns / head);
  const double blocks =
      attention.heads * std::ceil(attention.queries / kFlashBlock);
  const double keys = (attention.causal ? (attention.keys + kFlashBlock) / 2.0
                                        : attention.keys) +
                      architecture_.tile_overhead;
  const double compute_s =
      products * 2.0 * kFlashBlock * head *
      (blocks * keys / multiprocessors_ + tail * attention.keys) / rate_per_sm;
  const double bytes = products / 2.0 * attention.bytes;
  return std::max(compute_s, bytes / bytes_per_s_) + launch_s_;
}

double GpuModel::MemoryTime(double bytes, int kernels) const {
  return bytes / bytes_per_s_ + kernels * launch_s_;
}

}  // namespace trials
