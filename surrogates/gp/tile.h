// The inner loops of a prediction, for a tile of candidates at a time.

#pragma once

namespace surrogates {

// Candidates in a tile. A row of a tile is one quantity for all of them, side
// by side, so that the same instruction serves several candidates.
//
// Every function has several versions (surrogates/gp/lanes.h). Each candidate's
// sums are formed in the same order in all of them: the results are the same to
// the last bit on every machine, and so is the argmax.
//
// Eigen, which a portable program compiles for SSE2 only, takes 3.1 times as
// long for the correlation and 1.5 times for the squares (n = 50, d = 12, AMD
// EPYC with AVX-512, g++ 12).
inline constexpr int kTile = 32;

// k[i][t] = (1 + a + a^2 / 3) exp(-a), a = sqrt(5) |x_i - z_t|: the Matern-5/2
// correlation of n points with the candidates of a tile.
// Shapes: points [n][d], tile [d][kTile], correlation [n][kTile]. Units: of the
// length scale in each dimension.
void MaternTile(const double* points, int n, int d, const double* tile,
                double* correlation);

// sum[t] = |L k_t|^2 for a lower triangular matrix.
// Shapes: lower [n][n], by rows; k [n][kTile]; sum [kTile].
void TriangularSquaresTile(const double* lower, int n, const double* k,
                           double* sum);

// out[j][t] = sum_i weights[j][i] k[i][t].
// Shapes: weights [m][n], k [n][kTile], out [m][kTile].
void ProductTile(const double* weights, int m, int n, const double* k,
                 double* out);

}  // namespace surrogates
