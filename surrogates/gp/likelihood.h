// The likelihood of hyperparameters given the observations, and its gradient.

#pragma once

#include <limits>

#include <Eigen/Core>

#include "surrogates/encoding.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// All learned parameters, by their logarithms and in physical units.
// Shapes: log_length_scales [d] (empty for a prior mean alone),
// log_coefficients [m].
struct Hyperparameters {
  Eigen::VectorXd log_length_scales;
  double log_signal_variance = 0.0;  // target's unit, squared
  Eigen::VectorXd log_coefficients;
  // The nugget, target's unit squared; -infinity: there is none.
  double log_nugget_variance = -std::numeric_limits<double>::infinity();
  // The family error, in the same unit; -infinity: there is none.
  double log_family_variance = -std::numeric_limits<double>::infinity();
};

// log N(log_center, log_stddev^2) of a positive parameter, optionally with the
// Jacobian that makes it a density in the parameter itself.
struct LogNormalPrior {
  double log_center = 0.0;
  double log_stddev = 1.0;  // > 0
  // True: density in x (subtracts log x), so the mode lies at
  // exp(center - stddev^2). False: density in log x, mode at exp(center).
  bool density_in_x = true;

  // Value and derivative with respect to log x; constants are left out.
  [[nodiscard]] double LogDensity(double log_x, double* derivative) const;
};

// The prior of the nugget w: log w^2 is normal with this deviation around
// log (scale u)^2, where u is the spread of the target.
struct NuggetPrior {
  double scale = 0.2;       // > 0
  double log_stddev = 1.5;  // > 0
};

// The prior of the family error f: log f^2 is normal with this deviation around
// log (scale u)^2, where u is the largest value of the target, 1 if that is a
// logarithm.
struct FamilyPrior {
  double scale = 0.0;        // >= 0; 0: none
  double log_stddev = 1.0;   // > 0
  double correlation = 0.5;  // per structural knob that differs, in [0, 1)
};

// Priors of the kernel's parameters. ParametricMean holds those of the mean's
// coefficients.
struct KernelPriors {
  LogNormalPrior length_scale;
  LogNormalPrior signal_variance;  // in the target's unit, squared
  LogNormalPrior nugget_variance;  // likewise
  LogNormalPrior family_variance;  // likewise

  // Length scales LogNormal(sqrt(2) + 0.5 log d, sqrt(3)), which grow with the
  // number of dimensions as distances in the unit cube do; log s^2 normal
  // around log spread^2 with deviation 1.
  // Source: BoTorch >= 0.12; Hvarfner, Hellsten & Nardi (2024).
  [[nodiscard]] static KernelPriors DimensionScaled(
      int dimensions, double spread, const NuggetPrior& nugget = {});
};

// The correlation of the deviations of the families of two candidates,
// correlation ^ (structural knobs in which they differ).
[[nodiscard]] double FamilyCorrelation(const EncodedSpace& space, int a, int b,
                                       double correlation);

// The log marginal likelihood of a Gaussian process with known noise,
//
//   log p(y) = -1/2 (y - m)^T A^-1 (y - m) - 1/2 log |A| - n/2 log(2 pi),
//   A = K(l, s^2) + f^2 F + diag(max(noise, floor * s^2) + w^2),
//
// and the log posterior of the hyperparameters, which adds their priors.
// Parameters are packed as [log l (d), log s^2, log c (m), log w^2, log f^2].
//
// The nugget w^2 (with `nugget`; otherwise 0 and not packed) is the variance of
// single configurations that neither the mean nor the kernel explains, and
// unreported noise.
//
// f^2 (with `family`; otherwise 0 and not packed) is the variance of the error
// of the mean that all members of a family share, with the correlation
//
//   F_ij = family_correlation ^ (structural knobs in which i and j differ),
//
// which is a product of the correlations of single knobs and therefore positive
// semidefinite. Ten members of a family are little more evidence about the
// coefficients of the mean than one.
//
// With `integrate_coefficients` the mean is linearized around its coefficients,
// J = dm / dlog c, and their uncertainty S is integrated out (Laplace):
//
//   - 1/2 log |S M|,   M = S^-1 + J^T A^-1 J,   S = diag(log_stddev^2).
//
// Without it a mean with as many coefficients as observations explains them
// all and leaves s^2 = 0.
//
// With `iid` the kernel is s^2 on the diagonal and zero elsewhere (d = 0): the
// prior mean alone, with independent deviations of variance s^2.
//
// Source: OPPA Eq. 23; Rasmussen & Williams (2006), Eqs. 5.8-5.9 and, for the
// coefficients, Sec. 2.7.
// Note: a Cholesky factorization that fails is retried with 1e-10 s^2 added to
// the diagonal, then ten times as much up to 1e-6 s^2; if all fail, the value
// is -infinity.
class Likelihood {
 public:
  struct Options {
    bool iid = false;
    double relative_noise_floor = 1e-6;  // >= 0, in units of s^2
    bool with_priors = true;             // false: the marginal likelihood alone
    bool integrate_coefficients = false;
    bool nugget = false;              // not with `iid`, where s^2 is the nugget
    bool family = false;              // not with `iid`
    double family_correlation = 0.5;  // in [0, 1)
  };

  // `mean` must outlive this object; the rest is copied.
  Likelihood(const EncodedSpace& space, const ParametricMean& mean,
             const Observations& observations, const KernelPriors& priors,
             const Options& options);

  [[nodiscard]] int dimension_count() const { return dimension_count_; }
  [[nodiscard]] int parameter_count() const {
    return dimension_count_ + 1 + mean_->size() + (options_.nugget ? 1 : 0) +
           (options_.family ? 1 : 0);
  }

  // The objective at packed parameters; `gradient` (may be null) is resized.
  // -infinity where the covariance cannot be factorized or overflows.
  double Evaluate(const Eigen::VectorXd& parameters, Eigen::VectorXd* gradient);

  [[nodiscard]] const ParametricMean& mean() const { return *mean_; }

  // After Evaluate: the lower Cholesky factor of A (its upper triangle is
  // undefined), the transpose of its inverse (not with `iid`) and A^-1 (y - m).
  [[nodiscard]] auto cholesky() const { return l_.topRows(l_.cols()); }
  [[nodiscard]] Eigen::MatrixXd InverseFactor() const;
  [[nodiscard]] const Eigen::VectorXd& alpha() const { return alpha_; }
  // With integrate_coefficients: A^-1 J [n, m] and the factor of M [m, m].
  [[nodiscard]] const Eigen::MatrixXd& weighted_jacobian() const {
    return weighted_jacobian_;
  }
  [[nodiscard]] const Eigen::MatrixXd& coefficient_cholesky() const {
    return coefficient_l_;
  }
  // 1/2 log |A| - 1/2 log |A - K|, the information in nats that the
  // observations give about the function. Source: OPPA Eq. 37, used by Eq. 32.
  [[nodiscard]] double InformationGain() const;
  [[nodiscard]] int jitter_retries() const { return jitter_retries_; }

  [[nodiscard]] Eigen::VectorXd Pack(const Hyperparameters& parameters) const;
  [[nodiscard]] Hyperparameters Unpack(const Eigen::VectorXd& packed) const;

 private:
  [[nodiscard]] auto Coefficients(const Eigen::VectorXd& packed) const {
    return packed.segment(dimension_count_ + 1, mean_->size());
  }
  [[nodiscard]] double NuggetVariance(const Eigen::VectorXd& packed) const;
  [[nodiscard]] double FamilyVariance(const Eigen::VectorXd& packed) const;
  bool Factorise(double signal_variance, double nugget_variance,
                 double family_variance);
  void Solve();
  double IntegrateCoefficients();
  double IntegratedGradient(Eigen::VectorXd& gradient);
  double AddPriors(const Eigen::VectorXd& parameters,
                   Eigen::VectorXd* gradient) const;
  void MarginalGradient(const Eigen::VectorXd& parameters,
                        Eigen::VectorXd& gradient);

  const ParametricMean* mean_;
  Observations observations_;
  KernelPriors priors_;
  Options options_;
  int dimension_count_ = 0;

  Eigen::MatrixXd pairs_;        // squared differences, [n (n - 1) / 2, d]
  Eigen::ArrayXd family_pairs_;  // F of the pairs, [n (n - 1) / 2]
  // Buffers of the last evaluation, so that an evaluation does not allocate.
  Eigen::VectorXd inverse_square_;   // 1 / l^2, [d]
  Eigen::ArrayXd correlation_;       // of the pairs
  Eigen::ArrayXd slope_;             // of the pairs, see kernel.h
  Eigen::VectorXd noise_;            // with its floor and nugget, [n]
  Eigen::MatrixXd a_, l_, inverse_;  // [Padded(n), n], see triangular.h
  Eigen::MatrixXd solution_;         // A^-1 [y - m, J] by rows
  Eigen::VectorXd prior_mean_, residual_, alpha_, diagonal_;
  Eigen::MatrixXd jacobian_, weighted_jacobian_, whitened_;
  Eigen::MatrixXd coefficient_l_, coefficient_inverse_;
  Eigen::VectorXd coefficient_precision_;  // diagonal of S^-1
  int jitter_retries_ = 0;
};

}  // namespace surrogates
