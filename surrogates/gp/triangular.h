// Cholesky factors of covariances: the cubic part of a fit.

#pragma once

#include "surrogates/gp/lanes.h"

namespace surrogates {

// Matrices are stored by columns, Padded(rows) apart.
//
// The order of the sums (surrogates/gp/lanes.h) is that of Eigen 3.4 with SSE2
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
