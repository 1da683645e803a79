#include "trials/simulator/gpu_model.h"

#include <gtest/gtest.h>

#include "trials/text.h"

namespace trials {
namespace {

Gpu A100() {
  return {.name = "A100",
          .architecture = "ampere_ga100",
          .memory_bytes = 40e9,
          .memory_bandwidth_bytes_per_s = 1555e9,
          .half_flop_per_s = 312e12,
          .single_flop_per_s = 19.5e12,
          .multiprocessors = 108};
}

double Efficiency(const GpuModel& gpu, const Gemm& gemm) {
  return gemm.Flop() / gpu.GemmTime(gemm) / 312e12;
}

TEST(GpuModel, LargeProductsReachMostOfTheDatasheetAndNeverMore) {
  const GpuModel gpu(A100(), Precision::kBf16, 2e-6);
  const double large = Efficiency(gpu, {1, 8192, 8192, 8192});
  EXPECT_GT(large, 0.75);
  EXPECT_LT(large, 0.87);  // the best measured is 271 of 312
}

TEST(GpuModel, EfficiencyFallsWithTheShape) {
  const GpuModel gpu(A100(), Precision::kBf16, 2e-6);
  const double large = Efficiency(gpu, {1, 8192, 8192, 8192});
  EXPECT_LT(Efficiency(gpu, {1, 512, 512, 512}), large / 2);
  EXPECT_LT(Efficiency(gpu, {1, 8192, 8192, 64}), large / 2);
  EXPECT_LT(Efficiency(gpu, {1, 1, 8192, 8192}), large / 50);
}

// A matrix times a vector reads the matrix.
TEST(GpuModel, ThinProductsTakeTheTimeOfTheirBytes) {
  const GpuModel gpu(A100(), Precision::kBf16, 1e-12);
  const double bytes = 2.0 * (8192.0 * 8192 + 2 * 8192);
  EXPECT_NEAR(gpu.GemmTime({1, 1, 8192, 8192}), bytes / (0.87 * 1555e9), 5e-6);
}

TEST(GpuModel, OneTileBeyondAWaveCostsAnotherWave) {
  const GpuModel gpu(A100(), Precision::kBf16, 1e-12);
  const double full = gpu.GemmTime({1, 256.0 * 12, 128.0 * 9, 8192});
  const double beyond = gpu.GemmTime({1, 256.0 * 12 + 1, 128.0 * 9, 8192});
  EXPECT_GT(beyond, 1.1 * full);
}

TEST(GpuModel, SinglePrecisionRunsOffTheTensorCores) {
  const GpuModel half(A100(), Precision::kBf16, 2e-6);
  const GpuModel single(A100(), Precision::kFp32, 2e-6);
  const Gemm gemm{1, 4096, 4096, 4096};
  EXPECT_GT(single.GemmTime(gemm), 10 * half.GemmTime(gemm));
  EXPECT_EQ(single.element_bytes(), 4.0);
}

TEST(GpuModel, AFasterGpuIsNeverSlower) {
  const GpuModel base(A100(), Precision::kBf16, 2e-6);
  Gpu flop = A100();
  flop.half_flop_per_s *= 1.5;
  Gpu bytes = A100();
  bytes.memory_bandwidth_bytes_per_s *= 1.5;
  for (const double m : {1.0, 100.0, 1000.0, 5000.0}) {
    for (const double k : {64.0, 1000.0, 9000.0}) {
      const Gemm gemm{2, m, 777, k};
      const double base_s = base.GemmTime(gemm);
      EXPECT_LE(GpuModel(flop, Precision::kBf16, 2e-6).GemmTime(gemm), base_s);
      EXPECT_LE(GpuModel(bytes, Precision::kBf16, 2e-6).GemmTime(gemm), base_s);
    }
  }
}

TEST(GpuModel, AnUnknownArchitectureIsNamedWithTheKnownOnes) {
  try {
    (void)FindGpuArchitecture("ampere_ga10");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'ampere_ga10"),
              std::string::npos);
    EXPECT_NE(std::string(error.what()).find("hopper"), std::string::npos);
  }
}

}  // namespace
}  // namespace trials
