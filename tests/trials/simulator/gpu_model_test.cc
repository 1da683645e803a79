#include "trials/simulator/gpu_model.h"

#include <string>

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/trials/simulator/problem.h"
#include "trials/gpu_architecture.h"

namespace trials {
namespace {

constexpr double kLaunch_s = 2e-6;

GpuModel Model16() {
  return GpuModel(SmallCluster().gpu, Precision::kBf16, kLaunch_s);
}

TEST(GpuModel, LargeProductsApproachTheReachableRateAndNeverPassIt) {
  const double reachable =
      111e12 * FindGpuArchitecture("ampere_ga102").tensor_fraction;
  const Gemm gemm{1, 8192, 8192, 8192};
  const double rate = gemm.Flop() / Model16().GemmTime(gemm);
  EXPECT_LT(rate, reachable);
  EXPECT_GT(rate, 0.95 * reachable);
}

TEST(GpuModel, OneTileTooManyCostsAWholeWave) {
  // 64 multiprocessors: 8 x 8 tiles of 256 x 128 are one wave.
  const GpuModel gpu = Model16();
  const double full_s = gpu.GemmTime({1, 8 * 256, 8 * 128, 4096});
  const double over_s = gpu.GemmTime({1, 8 * 256 + 1, 8 * 128, 4096});
  EXPECT_GT(over_s, 1.15 * full_s);
  const double same_s = gpu.GemmTime({1, 8 * 256 - 100, 8 * 128, 4096});
  EXPECT_NEAR(same_s, full_s, 1e-3 * full_s);
}

TEST(GpuModel, TimeNeverFallsWithRowsOrColumns) {
  const GpuModel gpu = Model16();
  double last_m_s = 0.0;
  double last_n_s = 0.0;
  for (double size = 16; size < 6000; size += 173) {
    const double m_s = gpu.GemmTime({1, size, 1536, 1536});
    const double n_s = gpu.GemmTime({1, 1024, size, 1536});
    EXPECT_GE(m_s, last_m_s) << size;
    EXPECT_GE(n_s, last_n_s) << size;
    last_m_s = m_s;
    last_n_s = n_s;
  }
}

TEST(GpuModel, UnalignedRowsCostALargeProductItsShareOfTheRate) {
  const double share = FindGpuArchitecture("ampere_ga102").unaligned_fraction;
  const GpuModel gpu = Model16();
  const double aligned_s = gpu.GemmTime({1, 8192, 8192, 8192}) - kLaunch_s;
  const double unaligned_s =
      gpu.GemmTime({1, 8192, 8192, 8192, /*aligned=*/false}) - kLaunch_s;
  EXPECT_LT(share, 1.0);
  EXPECT_NEAR(aligned_s / unaligned_s, share, 1e-9);
}

TEST(GpuModel, ThinProductsAreBoundByMemory) {
  const GpuModel gpu = Model16();
  const double weights_bytes = 2.0 * 8192 * 8192;
  const double time_s = gpu.GemmTime({1, 1, 8192, 8192}) - kLaunch_s;
  EXPECT_GE(time_s, weights_bytes / 768e9);
  EXPECT_LT(time_s, 1.5 * weights_bytes / 768e9);
}

TEST(GpuModel, LongSumsOverFewTilesAreSplit) {
  // A weight gradient with one tile of output and 64 multiprocessors: without
  // split K it would take as long as 64 such products at once.
  const GpuModel gpu = Model16();
  const double one_s = gpu.GemmTime({1, 128, 128, 65536});
  const double many_s = gpu.GemmTime({64, 128, 128, 65536});
  EXPECT_LT(one_s, 0.5 * many_s);
}

TEST(GpuModel, SinglePrecisionRunsAtTheRateOfItsUnits) {
  const GpuModel gpu(SmallCluster().gpu, Precision::kFp32, kLaunch_s);
  const Gemm gemm{1, 8192, 8192, 8192};
  EXPECT_LT(gemm.Flop() / gpu.GemmTime(gemm), 28e12);
  EXPECT_DOUBLE_EQ(gpu.element_bytes(), 4.0);
}

TEST(GpuModel, AnUnknownArchitectureIsAnError) {
  EXPECT_THROW((void)FindGpuArchitecture("pascal"), common::InputError);
}

}  // namespace
}  // namespace trials
