// Matrix products of one thread on the CPU.

#pragma once

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
