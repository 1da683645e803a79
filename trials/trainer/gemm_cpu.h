// Matrix products of one thread on the CPU.

#ifndef TRIALS_TRAINER_GEMM_CPU_H_
#define TRIALS_TRAINER_GEMM_CPU_H_

#include "trials/trainer/device.h"

namespace trials::trainer {

// Once per thread, before its first product: one thread computes a product.
void UseOneThread();

void CpuGemm(const GemmShape& shape, const float* a, const float* b, float* c);
void CpuGemm(const GemmShape& shape, const double* a, const double* b,
             double* c);

// The product without a library, which CpuGemm uses where there is none.
void LoopGemm(const GemmShape& shape, const float* a, const float* b, float* c);
void LoopGemm(const GemmShape& shape, const double* a, const double* b,
              double* c);

}  // namespace trials::trainer

#endif  // TRIALS_TRAINER_GEMM_CPU_H_
