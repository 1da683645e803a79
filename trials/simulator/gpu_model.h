// Time of matrix products and memory traffic on a GPU.

#pragma once

#include "trials/cluster.h"
#include "trials/gpu_architecture.h"
#include "trials/workload.h"

namespace trials {

// C[m, n] = A[m, k] B[k, n], `batch` times.
struct Gemm {
  double batch = 1.0;
  double m = 0.0;
  double n = 0.0;
  double k = 0.0;
  // Rows of all three matrices start at multiples of 16 bytes, as the loads of
  // the fast kernels require.
  bool aligned = true;
  // C += A B: C is read too.
  bool accumulate = false;
  // The size of an element of C; 0: that of A and B.
  double result_bytes = 0.0;
  // A and B in 8 bits.
  bool fp8 = false;

  [[nodiscard]] double Flop() const { return 2.0 * batch * m * n * k; }
};

// Fused attention of `heads` heads in all sequences, each with `queries` rows
// and `keys` columns of scores; half of the scores if it is causal.
struct Attention {
  double heads = 1.0;
  double queries = 0.0;
  double keys = 0.0;
  double head_size = 0.0;
  bool causal = true;
  double bytes = 0.0;  // queries, keys, values, result
  bool cudnn = false;  // cuDNN's kernels, not FlashAttention-2's
};

// Roofline with tile and wave quantization,
//
//   t = max(compute, bytes / memory bandwidth) + launch,
//   compute = waves (tile_m * tile_n * 2 (k / splits + k_0)
//                    / (rate per multiprocessor * efficiency of the tile
//                       * share that an unaligned product reaches)
//                    + epilogue share * bytes of C in a tile
//                      / memory bandwidth per multiprocessor),
//   waves   = (1 - o) ceil(w) + o max(1, w),
//   w       = batch * ceil(m / tile_m) * ceil(n / tile_n) * splits
//             / multiprocessors,
//
// minimized over the tile shapes and split-K factors that a BLAS library
// chooses from. k_0 is the prologue and epilogue of a tile, in columns of k; o
// is the overlap of waves. In 8 bits k_0 grows with the rate: filling a tile
// takes the time that memory needs to answer. Batched products (of attention
// heads) whose rows are not aligned run without tensor cores: in BigScience's
// runs on A100, heads of 108, 150 and 450 columns cost what products at the
// fp32 rate would.
//
// Fused attention gives each block of 128 queries (backward: keys) to a
// multiprocessor,
//
//   t = flop of a block per key (blocks * (keys per block + k_0)
//       / multiprocessors + tail * keys) / rate per multiprocessor,
//
// with head sizes filled up to a multiple of 32, on average (keys + 128) / 2
// keys per block if it is causal, and the rate falling as 1 / (1 + c / head
// size), where c columns take as long as an exponential.
//
// Source: NVIDIA, "Matrix Multiplication Background" (tile and wave
// quantization); Williams et al. (2009), roofline; Dao (2023),
// FlashAttention-2, Sec. 3.2 (blocks of queries and keys); Shah et al. (2024),
// FlashAttention-3, Sec. 3.2 (exponentials).
//
// Errors: throws InputError for fp8 on a GPU without 8-bit tensor cores, and
// for bf16 on one whose tensor cores multiply fp16 alone.
class GpuModel {
 public:
  GpuModel(const Gpu& gpu, Precision precision, double launch_s);

  [[nodiscard]] double GemmTime(const Gemm& gemm) const;
  [[nodiscard]] double FlashTime(const Attention& attention,
                                 bool backward = false) const;
  // `kernels` element-wise kernels that move `bytes` in all.
  [[nodiscard]] double MemoryTime(double bytes, int kernels = 1) const;

  [[nodiscard]] double element_bytes() const { return element_bytes_; }
  // Linear layers multiply in 8 bits.
  [[nodiscard]] bool fp8() const { return fp8_flop_per_s_ > 0.0; }
  [[nodiscard]] double multiprocessors() const { return multiprocessors_; }

 private:
  // The rate of a large product, flop/s.
  [[nodiscard]] double Rate(const Gemm& gemm) const;

  const GpuArchitecture& architecture_;
  double flop_per_s_;  // reached by large GEMMs
  double fp8_flop_per_s_ = 0.0;
  double single_flop_per_s_;  // without tensor cores
  // Without power_fraction: fused attention draws less power than products, so
  // the board's limit slows it less or not at all (Gpu::attention_fraction).
  double flash_flop_per_s_;
  double bytes_per_s_;
  double multiprocessors_;
  double element_bytes_;
  double launch_s_;
};

[[nodiscard]] double ElementBytes(Precision precision);

}  // namespace trials
