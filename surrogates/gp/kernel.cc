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

CrossCorrelation::CrossCorrelation(const Eigen::MatrixXd& points,
                                   const Eigen::VectorXd& length_scales)
    : inverse_length_scales_(length_scales.cwiseInverse()),
      center_(Eigen::VectorXd::Zero(points.rows())) {
  const Eigen::Index d = points.rows();
  const Eigen::Index n = points.cols();
  if (n > 0 && d > 0) {
    center_ = points.rowwise().mean();
  }
  const Eigen::MatrixXd scaled =
      inverse_length_scales_.asDiagonal() * (points.colwise() - center_);
  augmented_.resize(n, d + 2);
  augmented_.leftCols(d) = -2.0 * scaled.transpose();
  augmented_.col(d) = scaled.colwise().squaredNorm().transpose();
  augmented_.col(d + 1).setOnes();
}

void CrossCorrelation::Evaluate(Eigen::Ref<const Eigen::MatrixXd> block,
                                Buffers& buffers,
                                Eigen::Ref<Eigen::MatrixXd> out) const {
  const Eigen::Index d = block.rows();
  const Eigen::Index b = block.cols();
  if (buffers.scaled.rows() != d + 2 || buffers.scaled.cols() < b) {
    buffers.scaled.resize(d + 2, b);
  }
  auto z = buffers.scaled.leftCols(b);
  for (Eigen::Index j = 0; j < b; ++j) {
    z.col(j).head(d) =
        (block.col(j) - center_).cwiseProduct(inverse_length_scales_);
    z(d, j) = 1.0;
    z(d + 1, j) = z.col(j).head(d).squaredNorm();
  }
  out.noalias() = augmented_ * z;
  for (Eigen::Index j = 0; j < b; ++j) {
    MaternCorrelation(out.col(j).array(), out.col(j).array(), nullptr);
  }
}

}  // namespace surrogates
