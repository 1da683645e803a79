// Prior means with learnable, named, positive coefficients.

#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <Eigen/Core>

namespace surrogates {

// Prior of a factor that many coefficients share, the size of the training job.
// Its logarithm is normal.
struct SharedScale {
  double log_center = 0.0;
  double log_stddev = 1.0;  // > 0
};

// A prior mean over the candidates of a search space,
//
//   kConstant:  m(H) = c_1                      (features is a column of ones)
//   kInverse:   m(H) = 1 / sum_j c_j phi_j(H)   (throughput from step time)
//   kLinear:    m(H) = min(sum_j c_j phi_j(H), clip)
//   kLogLinear: m(H) = sum_j c_j phi_j(H)       (of the logarithm of a target)
//
// with c_j > 0 learned as log c_j under independent normal priors
// N(log_center_j, log_stddev_j^2). Products of the paper's constants that only
// occur together are one coefficient, so each is identifiable. The coefficients
// of kLogLinear have any sign and are learned as they are: there, what is
// called log c_j is c_j.
//
// Source: OPPA Eqs. 10-21.
// Shapes: features is [N, m], one candidate per row; the rest is [m].
// Note: above the clip the gradient of kLinear is that of the unclipped sum,
// scaled by `clip_gradient` in [0, 1]: with 0 (as printed) observations at the
// clip would not move the coefficients at all.
struct ParametricMean {
  enum class Link { kConstant, kInverse, kLinear, kLogLinear };

  struct Coefficient {
    std::string name;  // "compute", "dp volume, inter-node", ...
    double log_center = 0.0;
    double log_stddev = 2.0;  // > 0
    bool absolute = false;    // independent of the shared scale
  };

  Link link = Link::kConstant;
  Eigen::MatrixXd features;
  std::vector<Coefficient> coefficients;
  double clip = std::numeric_limits<double>::infinity();
  double clip_gradient = 0.1;
  // If set, log centers (except absolute ones) are in units of it; see
  // cost/shared_scale.h.
  std::optional<SharedScale> shared_scale;

  [[nodiscard]] int size() const {
    return static_cast<int>(coefficients.size());
  }

  // Whether the target is a logarithm.
  [[nodiscard]] bool logarithmic() const { return link == Link::kLogLinear; }

  // c, and its derivative by what is learned of it. Shapes: [m].
  [[nodiscard]] Eigen::VectorXd Coefficients(
      const Eigen::VectorXd& log_c) const;
  [[nodiscard]] Eigen::VectorXd CoefficientSlopes(
      const Eigen::VectorXd& log_c) const;

  // The mean at the candidates `rows` for coefficients c = exp(log_c), and its
  // derivative with respect to log_c. Shapes: mean [n], jacobian [n, m].
  void Evaluate(const std::vector<int>& rows, const Eigen::VectorXd& log_c,
                Eigen::VectorXd& mean, Eigen::MatrixXd* jacobian) const;

  // The derivative of the Jacobian: with J = dm/dlog c,
  //   dJ_ij / dlog c_k = [j = k] J_ij + Curvature(m_i) J_ij J_ik,
  // without the first term for kLogLinear.
  [[nodiscard]] double Curvature(double mean_value) const {
    return link == Link::kInverse ? 2.0 / mean_value : 0.0;
  }

  // Turns linear predictors u = sum_j c_j phi_j into means m(u), in place, and
  // returns dm / du. Shapes: equal.
  void ApplyLink(Eigen::Ref<Eigen::ArrayXd> predictors,
                 Eigen::Ref<Eigen::ArrayXd> derivatives) const;

  // The mean at every candidate, [N].
  [[nodiscard]] Eigen::VectorXd EvaluateAll(const Eigen::VectorXd& log_c) const;
};

// A constant c, named "constant", over `candidates` configurations: no prior
// knowledge except that throughput and memory are positive. log c is normal.
[[nodiscard]] ParametricMean ConstantMean(int candidates,
                                          double log_center = 0.0,
                                          double log_stddev = 1.0);

}  // namespace surrogates
