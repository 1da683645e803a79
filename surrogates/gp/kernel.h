// The covariance between configurations.

#pragma once

#include <Eigen/Core>

namespace surrogates {

// Matern-5/2 covariance with one length scale per dimension,
//
//   k(x, y) = s^2 (1 + a + a^2 / 3) exp(-a),  a = sqrt(5) r,
//   r^2 = sum_k (x_k - y_k)^2 / l_k^2.
//
// Source: OPPA App. D.3; Rasmussen & Williams (2006), Eq. 4.17.
// Note: Eq. 22 of the paper leaves r^2 without its square root, which would not
// be the kernel that it cites.

// The correlation k / s^2 at squared scaled distances r^2 >= 0, and (if not
// null) the slope q such that d(k / s^2) / d log l_k = q (x_k - y_k)^2 / l_k^2,
//
//   q = 5/3 (1 + a) exp(-a).
//
// Smooth in r^2 at 0. `correlation` may be `squared_distance` itself.
void MaternCorrelation(Eigen::Ref<const Eigen::ArrayXd> squared_distance,
                       Eigen::Ref<Eigen::ArrayXd> correlation,
                       Eigen::ArrayXd* slope);

// Squared differences of every pair i > j of points, packed by columns of the
// lower triangle, so that r^2 of all pairs and the derivatives by all length
// scales are one matrix-vector product each.
// Shapes: points [d, n], result [n (n - 1) / 2, d].
[[nodiscard]] Eigen::MatrixXd PairwiseSquaredDifferences(
    const Eigen::MatrixXd& points);

}  // namespace surrogates
