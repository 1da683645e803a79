// Matrix products of one thread on the CPU.

#ifndef TRAINER_GEMM_CPU_H_
#define TRAINER_GEMM_CPU_H_

#include "trainer/device.h"

namespace trainer {

// Once per thread, before its first product: one thread computes a product.
void UseOneThread();

void CpuGemm(const GemmShape& shape, const float* a, const float* b, float* c);
void CpuGemm(const GemmShape& shape, const double* a, const double* b,
             double* c);

// The product without a library, which CpuGemm uses where there is none.
void LoopGemm(const GemmShape& shape, const float* a, const float* b, float* c);
void LoopGemm(const GemmShape& shape, const double* a, const double* b,
              double* c);

}  // namespace trainer

#endif  // TRAINER_GEMM_CPU_H_
