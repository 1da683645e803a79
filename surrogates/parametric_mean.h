// Prior means with learnable, named, positive coefficients.

#ifndef SURROGATES_PARAMETRIC_MEAN_H_
#define SURROGATES_PARAMETRIC_MEAN_H_

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <Eigen/Core>

namespace surrogates {

// What is believed of a factor that many coefficients share: the size of the
// job that is searched for. Its logarithm is normal.
struct SharedScale {
  double log_center = 0.0;
  double log_stddev = 1.0;  // > 0
};

// A prior mean over the candidates of a search space,
//
//   kConstant:  m(H) = c_1                      (features is a column of ones)
//   kInverse:   m(H) = 1 / sum_j c_j phi_j(H)   (throughput from step time)
//   kLinear:    m(H) = min(sum_j c_j phi_j(H), clip)
//
// with c_j > 0 learned as log c_j under independent normal priors
// N(log_center_j, log_stddev_j^2). Products of the paper's constants that only
// occur together are one coefficient, so each is identifiable.
//
// Source: OPPA Eqs. 10-21.
// Shapes: features is [N, m], one candidate per row; the rest is [m].
// Note: above the clip the gradient of kLinear is that of the unclipped sum,
// scaled by `clip_gradient` in [0, 1]: with 0 (as printed) observations at the
// clip would not move the coefficients at all.
struct ParametricMean {
  enum class Link { kConstant, kInverse, kLinear };

  struct Coefficient {
    std::string name;  // "compute", "dp volume, inter-node", ...
    std::string unit;  // of c_j, for people
    double log_center = 0.0;
    double log_stddev = 2.0;  // > 0
    bool absolute = false;    // does not move with the shared scale
  };

  Link link = Link::kConstant;
  Eigen::MatrixXd features;
  std::vector<Coefficient> coefficients;
  double clip = std::numeric_limits<double>::infinity();
  double clip_gradient = 0.1;
  // Where there is one, log centres are in units of it (but absolute ones):
  // see cost/shared_scale.h.
  std::optional<SharedScale> shared_scale;

  [[nodiscard]] int size() const {
    return static_cast<int>(coefficients.size());
  }

  // The mean at the candidates `rows` for coefficients c = exp(log_c), and its
  // derivative with respect to log_c. Shapes: mean [n], jacobian [n, m].
  void Evaluate(const std::vector<int>& rows,
                const Eigen::VectorXd& log_c,
                Eigen::VectorXd& mean,
                Eigen::MatrixXd* jacobian) const;

  // What the Jacobian itself does: with J = dm/dlog c,
  //   dJ_ij / dlog c_k = [j = k] J_ij + Curvature(m_i) J_ij J_ik.
  [[nodiscard]] double Curvature(double mean_value) const {
    return link == Link::kInverse ? 2.0 / mean_value : 0.0;
  }

  // Turns linear predictors u = sum_j c_j phi_j into means m(u), in place, and
  // gives dm / du. Shapes: both alike.
  void ApplyLink(Eigen::Ref<Eigen::ArrayXd> predictors,
                 Eigen::Ref<Eigen::ArrayXd> derivatives) const;

  // The mean at every candidate, [N].
  [[nodiscard]] Eigen::VectorXd EvaluateAll(const Eigen::VectorXd& log_c) const;
};

// A constant mean c over `candidates` configurations, its logarithm normal with
// the given centre and deviation. Positive by construction: right for
// throughput and memory, which are.
[[nodiscard]] ParametricMean ConstantMean(int candidates,
                                          const std::string& name,
                                          const std::string& unit,
                                          double log_center,
                                          double log_stddev);

}  // namespace surrogates

#endif  // SURROGATES_PARAMETRIC_MEAN_H_
