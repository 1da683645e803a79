// A Gaussian process over a few candidates, with its joint posterior.

#ifndef STUDIES_EARLY_TERMINATION_FINITE_PROCESS_H_
#define STUDIES_EARLY_TERMINATION_FINITE_PROCESS_H_

#include <cstdint>

#include <Eigen/Core>

namespace studies {

// f ~ N(0, K) over N candidates under a known kernel, conditioned on
// observations one by one. The surrogates' process learns its kernel and
// predicts marginals; the theory of early termination needs a known kernel, and
// the location of a maximum needs the joint distribution.
//
// Source: OPPA Eqs. 30-31 and 37.
// Shapes: mean [N], covariance [N, N].
class FiniteProcess {
 public:
  explicit FiniteProcess(Eigen::MatrixXd covariance);

  // One observation of a candidate; noise_variance > 0. O(N^2).
  void Observe(int candidate, double value, double noise_variance);

  [[nodiscard]] const Eigen::VectorXd& mean() const { return mean_; }
  [[nodiscard]] const Eigen::MatrixXd& covariance() const {
    return covariance_;
  }
  [[nodiscard]] double stddev(int candidate) const;
  // sum_i 1/2 log(1 + sigma_{i-1}^2(x_i) / noise_i), in nats.
  [[nodiscard]] double information_gain() const { return information_gain_; }

 private:
  Eigen::VectorXd mean_;
  Eigen::MatrixXd covariance_;
  double information_gain_ = 0.0;
};

// Matern-5/2 with unit variance. Shapes: points [d, N], result [N, N].
[[nodiscard]] Eigen::MatrixXd MaternMatrix(const Eigen::MatrixXd& points,
                                           double length_scale);

// Draws of f, one per column: [N, draws].
[[nodiscard]] Eigen::MatrixXd Draw(const FiniteProcess& process, int draws,
                                   std::uint64_t seed);

// An upper bound on the maximum information gain of `rounds` observations (Eq.
// 38): the greedy choice reaches 1 - 1/e of it, because the gain is submodular.
// Source: Krause and Guestrin (2005), Srinivas et al. (2012), Sec. 4.
[[nodiscard]] Eigen::VectorXd MaximumInformationGain(
    const Eigen::MatrixXd& covariance, double noise_variance, int rounds);

// The points of a regular grid over [0, 1]^d, `levels` > 1 in each dimension.
// Shapes: [d, levels^d].
[[nodiscard]] Eigen::MatrixXd UnitGrid(int dimensions, int levels);

}  // namespace studies

#endif  // STUDIES_EARLY_TERMINATION_FINITE_PROCESS_H_
