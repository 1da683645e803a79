// The fraction of its datasheet rates that a GPU architecture achieves.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trials {

// Properties of an architecture, from experiments/hardware/<name>.toml, where
// each number is next to its source or to the fit that produced it.
struct GpuArchitecture {
  std::string name;
  double tensor_fraction = 0.0;  // of the dense half-precision rate, large
                                 // GEMMs, at the clock that the power allows
  double single_fraction = 0.0;  // of the fp32 rate
  double memory_fraction = 0.0;  // of the memory bandwidth, streaming
  // The share of the dense 8-bit rate that large GEMMs reach. 0: no 8-bit
  // tensor cores.
  double fp8_fraction = 0.0;
  // Relative to the rate of a large GEMM, in fused attention with a head size
  // of 128. Above 1 where the power limit slows GEMMs more than attention.
  double flash_fraction = 0.0;
  double flash_backward_fraction = 0.0;
  // These rates in cuDNN's fused attention; without a key, the values above.
  double cudnn_fraction = 0.0;
  double cudnn_backward_fraction = 0.0;
  // The end of fused attention, when ever fewer multiprocessors work: in blocks
  // of 128 queries with all their keys.
  double flash_tail = 0.0;
  double flash_backward_tail = 0.0;
  // The exponential of a score takes as long as this many columns of its head.
  double softmax_columns = 0.0;
  // Filling and draining of a tile, in columns of the inner dimension.
  double tile_overhead = 0.0;
  // The share of a tile's result traffic that is not hidden behind the products
  // of other tiles.
  double epilogue_share = 0.0;
  // The share of a partly filled wave that later or shorter tiles make up for.
  // 0: every wave takes its full time; 1: no quantization.
  double wave_overlap = 0.0;
  // Relative to the rate of a GEMM, if rows do not start at multiples of 16
  // bytes.
  double unaligned_fraction = 0.0;
  // The measurements that the numbers were compared with; "": not validated.
  std::string validated;
};

// Errors: throws InputError with file:line:column.
[[nodiscard]] GpuArchitecture ReadGpuArchitecture(
    const std::filesystem::path& path);

// The architecture with that name; read once and cached.
// Errors: throws InputError for an unknown name, listing the known ones.
[[nodiscard]] const GpuArchitecture& FindGpuArchitecture(std::string_view name);

}  // namespace trials
