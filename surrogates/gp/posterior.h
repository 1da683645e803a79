// The posterior of a Gaussian process.

#pragma once

#include <vector>

#include <Eigen/Core>

#include "surrogates/encoding.h"
#include "surrogates/gp/likelihood.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// A Gaussian process conditioned on n observations under given hyperparameters,
//
//   mean      m_* + k_*^T A^-1 (y - m)
//   variance  s^2 + f^2 + w^2 - |L^-1 k_*|^2 + |L_M^-1 (J_* - J^T A^-1 k_*)|^2,
//
// A = L L^T the covariance of the observations, m the prior mean and J its
// derivatives by the logarithms of its coefficients, M = L_M L_M^T the
// posterior precision of these. The last term only where coefficients are
// integrated, w only where a nugget is learned; without a kernel (the `iid`
// likelihood) the prior alone.
//
// The space and the mean passed to it are always those of its likelihood.
//
// Source: Rasmussen & Williams (2006), Eqs. 2.25, 2.26, 2.41 and 2.42.
class Posterior {
 public:
  Posterior() = default;
  explicit Posterior(const Likelihood::Options& options) : options_(options) {}

  // Conditions on the likelihood's observations at these hyperparameters. False
  // where their covariance cannot be factorized; then only hyperparameters()
  // and log_density() change.
  bool Condition(const EncodedSpace& space, const Observations& observations,
                 const Hyperparameters& hyperparameters,
                 Likelihood& likelihood);

  // Adds the last of `observations` in O(n^2); it is already conditioned on the
  // others. `noise` is the last one's with its floor, without nugget. False,
  // with nothing changed, where rounding leaves no variance of its own.
  // Precondition: there is a kernel.
  bool Append(const EncodedSpace& space, const ParametricMean& mean,
              const Observations& observations, double noise);

  // Predicts `count` candidates, those of `chosen` or, where it is null, all.
  // Shapes: chosen and prediction [count].
  void Predict(const EncodedSpace& space, const ParametricMean& mean, int count,
               const int* chosen, int threads, PredictionView prediction) const;

  // See GaussianProcess::JointCovariance.
  [[nodiscard]] Eigen::MatrixXd JointCovariance(
      const EncodedSpace& space, const ParametricMean& mean,
      const std::vector<int>& candidates) const;

  // Predicts each of the first n values from the others; see
  // GaussianProcess::LeaveOneOut. Shapes: values [>= n], the result [n].
  [[nodiscard]] Prediction LeaveOneOut(const Eigen::VectorXd& values) const;

  // The standard deviation of the logarithm of coefficient j, where they are
  // integrated; of itself for a mean of logarithms.
  [[nodiscard]] double LogCoefficientStddev(Eigen::Index j) const;

  [[nodiscard]] const Hyperparameters& hyperparameters() const {
    return hyperparameters_;
  }
  // Log density of the hyperparameters and information gain; see Likelihood.
  [[nodiscard]] double log_density() const { return log_density_; }
  [[nodiscard]] double information_gain() const { return information_gain_; }

 private:
  struct Buffers;  // of one worker of Predict

  [[nodiscard]] double SignalVariance() const;
  [[nodiscard]] double NuggetVariance() const;
  void AddFamilies(const EncodedSpace& space,
                   const std::vector<int>& candidates,
                   Eigen::MatrixXd& covariance,
                   Eigen::MatrixXd& to_observations) const;
  [[nodiscard]] double FamilyVariance() const;
  void SetFamilies(const EncodedSpace& space,
                   const std::vector<int>& candidates);
  [[nodiscard]] Eigen::MatrixXd ScaledPoints(
      const EncodedSpace& space, const std::vector<int>& candidates) const;
  void SetCoefficients();
  void LoadTile(const EncodedSpace& space, const ParametricMean& mean,
                int begin, int columns, const int* chosen,
                Buffers& buffers) const;
  void PredictTile(const ParametricMean& mean, Buffers& buffers) const;
  void AddObservations(Buffers& buffers) const;
  void AddFamilies(Buffers& buffers) const;
  void AddCoefficients(Buffers& buffers) const;

  Likelihood::Options options_;
  Hyperparameters hyperparameters_;
  double log_density_ = 0.0;
  double information_gain_ = 0.0;
  // By rows for the tiles of a prediction. For n observations (none without a
  // kernel): their points over the length scales, L^-1 (lower), and in the rows
  // of weights_ (A^-1 (y - m))^T followed by the contribution of the
  // coefficients, (A^-1 J L_M^-T)^T. Likewise (diag(slope) L_M^-T)^T [m, m],
  // empty when the coefficients are not integrated.
  using RowMatrix =
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::VectorXd inverse_length_scale_;  // [d]
  Eigen::VectorXd coefficient_;           // c, [m]
  bool logarithmic_ = false;              // the mean; its slope below is 1
  // The rows of coefficients follow from A^-1 J [n, m] and L_M [m, m].
  Eigen::MatrixXd weighted_jacobian_, coefficient_factor_;
  RowMatrix scaled_points_;       // [n, d]
  RowMatrix family_correlation_;  // with each observation, f^2 F / s^2, [F, n]
  RowMatrix inverse_factor_;      // [n, n]
  RowMatrix weights_;             // [1 + m, n]
  RowMatrix coefficient_prior_;   // [m, m]
};

}  // namespace surrogates
