#include "trials/simulator/gpu_model.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/trials/simulator/problem.h"
#include "trials/gpu_architecture.h"

namespace trials::gpu_model_test {

constexpr double kLaunch_s = 2e-6;

GpuModel Model16() {
  return GpuModel(SmallCluster().gpu, Precision::kBf16, kLaunch_s);
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

GpuModel Of(const char* preset, Precision precision = Precision::kBf16) {
  return GpuModel(FindGpu(preset), precision, kLaunch_s);
}

TEST(GpuModel, AnAccumulatingProductIsSlowerThanOneThatOverwrites) {
  const GpuModel gpu = Of("a100-sxm-80gb");
  Gemm gemm{1, 4096, 4096, 4096};
  gemm.result_bytes = 4.0;
  const double overwrites_s = gpu.GemmTime(gemm);
  gemm.accumulate = true;
  EXPECT_GT(gpu.GemmTime(gemm), 1.01 * overwrites_s);
}

TEST(GpuModel, ABoardWithLessPowerMultipliesSlowerAndCopiesAsItsMemoryAllows) {
  const GpuModel sxm = Of("a100-sxm-80gb");
  const GpuModel pcie = Of("a100-pcie-80gb");
  const Gemm large{1, 8192, 8192, 8192};
  EXPECT_NEAR(sxm.GemmTime(large) / pcie.GemmTime(large), 0.9325, 0.01);
  EXPECT_NEAR(sxm.MemoryTime(1e9) / pcie.MemoryTime(1e9), 1935.0 / 2039, 0.01);
  const Attention attention{64, 4096, 4096, 128};
  EXPECT_DOUBLE_EQ(sxm.FlashTime(attention), pcie.FlashTime(attention));
}

TEST(GpuModel, ProductsIn8BitsAreFasterAndGpusWithoutThemRefused) {
  const GpuModel gpu = Of("h100-sxm", Precision::kFp8);
  Gemm gemm{1, 8192, 8192, 8192};
  const double bf16_s = gpu.GemmTime(gemm);
  gemm.fp8 = true;
  EXPECT_LT(gpu.GemmTime(gemm), bf16_s / 1.5);
  const auto gain = [&gpu](double k) {
    Gemm product{1, 8192, 8192, k};
    const double half_s = gpu.GemmTime(product);
    product.fp8 = true;
    return half_s / gpu.GemmTime(product);
  };
  EXPECT_LT(gain(1024), 0.95 * gain(8192));
  EXPECT_THROW((void)Of("a100-sxm-80gb", Precision::kFp8), common::InputError);
}

TEST(GpuModel, TensorCoresBeforeAmpereMultiplyNoBf16) {
  for (const char* gpu : {"v100-sxm2-32gb", "t4", "rtx-2080ti"}) {
    EXPECT_THROW((void)Of(gpu, Precision::kBf16), common::InputError) << gpu;
    EXPECT_NO_THROW((void)Of(gpu, Precision::kFp16)) << gpu;
  }
}

TEST(GpuModel, BatchedProductsOfUnalignedRowsRunAtTheFp32Rate) {
  const GpuModel gpu = Of("a100-sxm-80gb");
  const double single_flop_per_s =
      19.5e12 * FindGpuArchitecture("ampere_ga100").single_fraction;
  const Gemm gemm{64, 2048, 2048, 2048, /*aligned=*/false};
  EXPECT_NEAR(gemm.Flop() / gpu.GemmTime(gemm) / single_flop_per_s, 1.0, 0.05);
}

double FlashSeconds(double heads, double tokens, double head_size) {
  return Of("a100-sxm-80gb").FlashTime({heads, tokens, tokens, head_size}) -
         kLaunch_s;
}

TEST(GpuModel, FusedAttentionOfAHeadOf150CostsAsMuchAsThatOf160) {
  EXPECT_DOUBLE_EQ(FlashSeconds(64, 4096, 150), FlashSeconds(64, 4096, 160));
  EXPECT_LT(FlashSeconds(64, 4096, 128), FlashSeconds(64, 4096, 150));
}

TEST(GpuModel, FusedAttentionIsLessEfficientWithFewHeadsAndShortSequences) {
  // The time of a score of a head, with 64 heads and 4,096 tokens = 1.
  const double usual = FlashSeconds(64, 4096, 128) / 64;
  EXPECT_GT(FlashSeconds(4, 4096, 128) / 4, 1.5 * usual);
  EXPECT_GT(FlashSeconds(64 * 64, 512, 128) / 64, 1.2 * usual);
  EXPECT_LT(FlashSeconds(64, 16384, 128) / 64 / 16, usual);
}

// Shah et al. (2024), FlashAttention-3: 16k tokens, heads of 128, no mask.
TEST(GpuModel, FusedAttentionOnH100HasThePublishedRates) {
  const auto tflops = [](bool cudnn, bool backward) {
    Attention attention{16, 16384, 16384, 128, /*causal=*/false};
    attention.cudnn = cudnn;
    const double flop = (backward ? 10.0 : 4.0) * 16 * 16384.0 * 16384 * 128;
    return flop / Of("h100-sxm").FlashTime(attention, backward) / 1e12;
  };
  EXPECT_NEAR(tflops(false, false), 370, 0.07 * 370);
  EXPECT_NEAR(tflops(false, true), 322, 0.07 * 322);
  EXPECT_NEAR(tflops(true, false), 600, 0.07 * 600);
  EXPECT_NEAR(tflops(true, true), 516, 0.07 * 516);
}

TEST(GpuModel, TimeOfFusedAttentionNeverFallsWithHeadsTokensOrHeadSize) {
  double last_s = 0.0;
  for (double size = 1; size < 3000; size *= 1.7) {
    const double time_s = FlashSeconds(size, 16 * size, 16 + size / 10);
    EXPECT_GE(time_s, last_s) << size;
    last_s = time_s;
  }
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

TEST(GpuModel, ThinProductsAreBoundByMemory) {
  const GpuModel gpu = Model16();
  const double weights_bytes = 2.0 * 8192 * 8192;
  const double time_s = gpu.GemmTime({1, 1, 8192, 8192}) - kLaunch_s;
  EXPECT_GE(time_s, weights_bytes / 768e9);
  EXPECT_LT(time_s, 1.5 * weights_bytes / 768e9);
}

constexpr double kInfinite = 1e40;

// A GPU that reaches 1 FLOP/s on each of its multiprocessors in large products,
// with the overheads of the preset.
class Slow {
 public:
  explicit Slow(int multiprocessors)
      : reached(FindGpuArchitecture("ampere_ga100")),
        gpu_(FindGpu("a100-sxm-80gb")) {
    gpu_.multiprocessors = multiprocessors;
    gpu_.half_flop_per_s = multiprocessors / reached.tensor_fraction;
    gpu_.power_fraction = 1.0;
    gpu_.memory_bandwidth_bytes_per_s = kInfinite;
  }
  [[nodiscard]] GpuModel Model() const { return {gpu_, Precision::kBf16, 0.0}; }

  const GpuArchitecture& reached;

 private:
  Gpu gpu_;
};

TEST(GpuModel, APowerLimitSlowsProductsAndAttentionByFractionsOfTheirOwn) {
  Gpu gpu = FindGpu("h100-sxm");
  const GpuModel whole(gpu, Precision::kBf16, 0.0);
  gpu.power_fraction = 0.5;
  gpu.attention_fraction = 0.8;
  const GpuModel limited(gpu, Precision::kBf16, 0.0);
  const Gemm gemm{1, 8192, 8192, 65536};
  EXPECT_NEAR(limited.GemmTime(gemm) / whole.GemmTime(gemm), 2.0, 0.05);
  const Attention attention{64, 8192, 8192, 128};
  EXPECT_DOUBLE_EQ(limited.FlashTime(attention),
                   whole.FlashTime(attention) / 0.8);
}

// On one multiprocessor every tile follows the one before, and the largest tile
// that fits is best.
TEST(GpuModel, AProductIsTheTilesThatCoverItAtTheRateOfTheirShape) {
  const Slow slow(1);
  const auto expect = [&](double m, double n, double efficiency) {
    const double k = 4096;
    EXPECT_NEAR(slow.Model().GemmTime({1, m, n, k}) /
                    (m * n * 2 * (k + slow.reached.tile_overhead) / efficiency),
                1.0, 1e-12)
        << m << " x " << n;
  };
  expect(512, 384, 1.0);
  expect(256, 128, 1.0);
  expect(128, 256, 1.0);
  expect(128, 128, 0.96);
  expect(128, 64, 0.82);
  expect(64, 128, 0.82);
  expect(64, 64, 0.64);
}

}  // namespace trials::gpu_model_test
