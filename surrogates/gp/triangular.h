// Cholesky factors of covariances: the cubic part of a fit.

#pragma once

#include <cstddef>

namespace surrogates {

// Numbers that are computed together.
inline constexpr int kLanes = 8;

// Distance of columns of n numbers. What lies between is zero and stays so.
constexpr std::ptrdiff_t Padded(std::ptrdiff_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// Matrices are stored by columns, Padded(rows) apart.
//
// Every function has several versions (AVX-512, AVX2, any processor). Each sum
// has one order in all of them, and nothing is fused: the results are the same
// to the last bit on every machine. The order is that of Eigen 3.4 with SSE2
// for n up to 120, which the records were computed with; Eigen's own varies
// with the processor, above 120 even with the size of its first-level cache.
//
// Eigen takes 8 times as long at n = 200 as the version with AVX-512 (AVX2: 5,
// any: 2.5 times), because it also computes the zeros of L^-1.

// Overwrites the lower triangle of A [n, n] with L, A = L L^T; the upper one
// becomes undefined. False where A is not positive definite.
bool Cholesky(double* a, int n);

// Overwrites B [n, m], by rows, with A^-1 B.
void CholeskySolve(const double* l, int n, double* b, int m);

// L^-1 [n, n], by rows.
void InvertTriangle(const double* l, int n, double* inverse);

// The lower triangle of X^T X, X [n, n] lower triangular by rows.
void TriangularSquares(const double* x, int n, double* product);

// Takes X X^T, X [n, m], off the lower triangle of `product` [n, n].
void SubtractSquares(const double* x, int n, int m, double* product);

}  // namespace surrogates
