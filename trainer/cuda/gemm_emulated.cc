#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/gemm.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

template <typename T>
void Multiply(const GemmShape& s, const T* a, const T* b, T* c, const T* bias) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      float sum = 0.0F;
      for (std::int64_t l = 0; l < s.k; ++l) {
        sum += ToFloat(a[s.transpose_a ? l * s.lda + i : i * s.lda + l]) *
               ToFloat(b[s.transpose_b ? j * s.ldb + l : l * s.ldb + j]);
      }
      T& out = c[i * s.ldc + j];
      const float before =
          s.beta == 0.0 ? 0.0F : static_cast<float>(s.beta) * ToFloat(out);
      out = Round<T>(static_cast<float>(s.alpha) * sum + before +
                     (bias == nullptr ? 0.0F : ToFloat(bias[j])));
    }
  }
}

class EmulatedGemm final : public GemmRunner {
 public:
  void Run(const GemmShape& shape, Tensor a, Tensor b, Tensor c, Tensor bias,
           cudaStream_t /*stream*/) override {
    WithType(c.width, [&](auto number) {
      using T = decltype(number);
      Multiply(shape, Of<T>(a), Of<T>(b), Of<T>(c), Of<T>(bias));
    });
  }
};

}  // namespace

std::unique_ptr<GemmRunner> MakeGemmRunner(void* /*workspace*/) {
  return std::make_unique<EmulatedGemm>();
}

}  // namespace trainer::cuda
