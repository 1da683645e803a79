// Time of matrix products and memory traffic on a GPU.

#ifndef TRIALS_SIMULATOR_GPU_MODEL_H_
#define TRIALS_SIMULATOR_GPU_MODEL_H_

#include "trials/cluster.h"
#include "trials/workload.h"

namespace trials {

// C[m, n] = A[m, k] B[k, n], `batch` times.
struct Gemm {
  double batch = 1.0;
  double m = 0.0;
  double n = 0.0;
  double k = 0.0;
  // Rows of all three matrices start at multiples of 8 bytes, as the loads of
  // the fast kernels require.
  bool aligned = true;

  [[nodiscard]] double Flop() const { return 2.0 * batch * m * n * k; }
};

// Roofline with tile and wave quantization,
//
//   t = max(compute, bytes / memory bandwidth) + launch,
//   compute = waves * tile_m * tile_n * 2 (k / splits + k_0)
//             / (rate per multiprocessor * efficiency of the tile
//                * share that an unaligned product reaches),
//   waves   = ceil(batch * ceil(m / tile_m) * ceil(n / tile_n) * splits
//                  / multiprocessors),
//
// minimized over the tile shapes and split-K factors that a BLAS library
// chooses from. k_0 is the prologue and epilogue of a tile, in columns of k.
//
// Source: NVIDIA, "Matrix Multiplication Background" (tile and wave
// quantization); Williams et al. (2009), roofline.
class GpuModel {
 public:
  GpuModel(const Gpu& gpu, Precision precision, double launch_s);

  [[nodiscard]] double GemmTime(const Gemm& gemm) const;
  // Fused attention with `flop` operations on `bytes` of memory traffic.
  [[nodiscard]] double FlashTime(double flop,
                                 double bytes,
                                 bool backward = false) const;
  // `kernels` element-wise kernels that move `bytes` in all.
  [[nodiscard]] double MemoryTime(double bytes, int kernels = 1) const;

  [[nodiscard]] double element_bytes() const { return element_bytes_; }
  [[nodiscard]] double multiprocessors() const { return multiprocessors_; }

 private:
  double flop_per_s_;  // reached by large GEMMs
  double bytes_per_s_;
  double flash_fraction_;
  double flash_backward_fraction_;
  double tile_overhead_;
  double unaligned_fraction_;
  double multiprocessors_;
  double element_bytes_;
  double launch_s_;
};

[[nodiscard]] double ElementBytes(Precision precision);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_GPU_MODEL_H_
