#include "surrogates/gp/kernel.h"

namespace surrogates {

void MaternCorrelation(Eigen::Ref<const Eigen::ArrayXd> squared_distance,
                       Eigen::Ref<Eigen::ArrayXd> correlation,
                       Eigen::ArrayXd* slope) {
  // In pieces that stay in the first-level cache: exp and the polynomial read
  // them several times.
  constexpr Eigen::Index kPiece = 256;
  Eigen::Array<double, kPiece, 1> a;
  Eigen::Array<double, kPiece, 1> e;
  const Eigen::Index n = squared_distance.size();
  if (slope != nullptr) {
    slope->resize(n);
  }
  for (Eigen::Index begin = 0; begin < n; begin += kPiece) {
    const Eigen::Index count = std::min(kPiece, n - begin);
    auto a_now = a.head(count);
    auto e_now = e.head(count);
    a_now = (5.0 * squared_distance.segment(begin, count)).max(0.0).sqrt();
    e_now = (-a_now).exp();
    if (slope != nullptr) {
      slope->segment(begin, count) = (5.0 / 3.0) * (1.0 + a_now) * e_now;
    }
    correlation.segment(begin, count) =
        (1.0 + a_now * (1.0 + a_now * (1.0 / 3.0))) * e_now;
  }
}

Eigen::MatrixXd PairwiseSquaredDifferences(const Eigen::MatrixXd& points) {
  const Eigen::Index n = points.cols();
  Eigen::MatrixXd pairs(n * (n - 1) / 2, points.rows());
  Eigen::Index row = 0;
  for (Eigen::Index j = 0; j < n; ++j) {
    for (Eigen::Index i = j + 1; i < n; ++i) {
      pairs.row(row++) =
          (points.col(i) - points.col(j)).array().square().transpose();
    }
  }
  return pairs;
}

}  // namespace surrogates
