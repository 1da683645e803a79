#include "trainer/gemm_cpu.h"

#include <algorithm>
#include <vector>

#include "trainer/device_cpu.h"

#ifdef OPPA_ONEDNN
#include <oneapi/dnnl/dnnl.h>
// Of libgomp; clang may lack omp.h.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" void omp_set_num_threads(int threads);
#endif
#ifdef OPPA_OPENBLAS
#include <cblas.h>
#endif

#include "trainer/row_kernels.h"

namespace trainer {
namespace {

// The product without a library: rows of C as sums of rows of B, which is
// copied in this order where it is transposed.
template <typename T>
void LoopGemmOf(const GemmShape& s, const T* a, const T* b, T* c) {
  std::vector<T> copy;
  std::int64_t ldb = s.ldb;
  if (s.transpose_b) {
    copy.resize(s.k * s.n);
    for (std::int64_t j = 0; j < s.n; ++j) {
      for (std::int64_t p = 0; p < s.k; ++p) {
        copy[p * s.n + j] = b[j * s.ldb + p];
      }
    }
    b = copy.data();
    ldb = s.n;
  }
  constexpr std::int64_t kColumns = 512;  // of C and B that stay in the cache
  for (std::int64_t j = 0; j < s.n; j += kColumns) {
    const std::int64_t count = std::min(kColumns, s.n - j);
    for (std::int64_t i = 0; i < s.m; ++i) {
      T* row = c + i * s.ldc + j;
      if (s.beta == 0.0) {
        std::fill_n(row, count, T(0));
      } else if (s.beta != 1.0) {
        AddScaled(count, static_cast<T>(s.beta - 1.0), row, row);
      }
      for (std::int64_t p = 0; p < s.k; ++p) {
        const T factor = s.transpose_a ? a[p * s.lda + i] : a[i * s.lda + p];
        AddScaled(count, static_cast<T>(s.alpha) * factor, b + p * ldb + j,
                  row);
      }
    }
  }
}

}  // namespace

void LoopGemm(const GemmShape& s, const float* a, const float* b, float* c) {
  LoopGemmOf(s, a, b, c);
}

void LoopGemm(const GemmShape& s, const double* a, const double* b, double* c) {
  LoopGemmOf(s, a, b, c);
}

void UseOneThread() {
#ifdef OPPA_ONEDNN
  omp_set_num_threads(1);  // of teams that this thread starts
#endif
#ifdef OPPA_OPENBLAS
  openblas_set_num_threads(1);
#endif
}

std::string CpuLibraries() {
#if defined(OPPA_ONEDNN) && defined(OPPA_OPENBLAS)
  return "oneDNN and OpenBLAS";
#elif defined(OPPA_ONEDNN)
  return "oneDNN";
#elif defined(OPPA_OPENBLAS)
  return "OpenBLAS";
#else
  return "own loops";
#endif
}

void CpuGemm(const GemmShape& s, const float* a, const float* b, float* c) {
#ifdef OPPA_ONEDNN
  dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n,
             s.k, static_cast<float>(s.alpha), a, s.lda, b, s.ldb,
             static_cast<float>(s.beta), c, s.ldc);
#elif defined(OPPA_OPENBLAS)
  cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
              s.transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(s.m),
              static_cast<int>(s.n), static_cast<int>(s.k),
              static_cast<float>(s.alpha), a, static_cast<int>(s.lda), b,
              static_cast<int>(s.ldb), static_cast<float>(s.beta), c,
              static_cast<int>(s.ldc));
#else
  LoopGemm(s, a, b, c);
#endif
}

void CpuGemm(const GemmShape& s, const double* a, const double* b, double* c) {
#ifdef OPPA_OPENBLAS
  cblas_dgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans,
              s.transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(s.m),
              static_cast<int>(s.n), static_cast<int>(s.k), s.alpha, a,
              static_cast<int>(s.lda), b, static_cast<int>(s.ldb), s.beta, c,
              static_cast<int>(s.ldc));
#else
  LoopGemm(s, a, b, c);
#endif
}

}  // namespace trainer
