// A Gaussian process suggestion reduced to its arithmetic.
//
// One kernel (Matern-5/2, a length scale per dimension), a constant mean, known
// noise, the marginal likelihood, mean + beta deviations: no priors, no checks,
// no guarantee that two machines agree. Compiled for the local machine with
// -Ofast, it shows what the hardware allows; benchmarks/suggestion.py sets our
// own suggestion next to it. Both use the same minimizer from the same starts.

#pragma once

#include <Eigen/Core>

namespace benchmarks {

// Shapes: points [d, n], value and noise_variance [n].
struct FloorData {
  Eigen::MatrixXd points;
  Eigen::VectorXd value;
  Eigen::VectorXd noise_variance;
};

// Parameters are packed as [log l (d), log s^2, c].
class FloorLikelihood {
 public:
  explicit FloorLikelihood(const FloorData& data);

  // -log p(y) and its gradient.
  double Evaluate(const Eigen::VectorXd& parameters, Eigen::VectorXd* gradient);

  // After Evaluate.
  [[nodiscard]] const Eigen::MatrixXd& cholesky() const { return l_; }
  [[nodiscard]] const Eigen::VectorXd& alpha() const { return alpha_; }

 private:
  const FloorData* data_;
  Eigen::MatrixXd pairs_;  // squared differences, [n (n - 1) / 2, d]
  Eigen::ArrayXd distance_, slope_;
  Eigen::VectorXd inverse_square_, residual_, alpha_;
  Eigen::MatrixXd l_, inverse_factor_, inverse_;
};

// The candidate (a column of `candidates`, [d, N]) with the highest mean +
// beta deviations under the likelihood last evaluated at `parameters`.
int FloorArgMax(const FloorData& data, const FloorLikelihood& likelihood,
                const Eigen::VectorXd& parameters,
                const Eigen::MatrixXd& candidates, double beta, int threads);

}  // namespace benchmarks
