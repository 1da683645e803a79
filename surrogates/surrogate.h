// The input and output of a surrogate: measurements and predictions.

#pragma once

#include <string>
#include <vector>

#include <Eigen/Core>

namespace surrogates {

// Measurements to learn from. A candidate is an index into the search space
// that the surrogate was built with.
// Shapes: all [n]. Units: value in the target's unit, noise_variance squared.
struct Observations {
  std::vector<int> candidate;
  Eigen::VectorXd value;
  Eigen::VectorXd noise_variance;  // >= 0, known per observation

  [[nodiscard]] int size() const { return static_cast<int>(candidate.size()); }
};

// A trial showed of the value of a candidate only that it is at least, or at
// most, a limit.
struct Bound {
  int candidate = -1;
  bool at_least = true;

  friend bool operator==(const Bound&, const Bound&) = default;
};

// The destination of a prediction, possibly a part of a buffer. Shapes: [n]
// both.
struct PredictionView {
  Eigen::Ref<Eigen::VectorXd> mean;
  Eigen::Ref<Eigen::VectorXd> variance;
};

// Mean and variance of the latent function (no observation noise) for every
// candidate of the search space, in its order. Shapes: [N].
struct Prediction {
  Eigen::VectorXd mean;
  Eigen::VectorXd variance;

  [[nodiscard]] Eigen::Index size() const { return mean.size(); }
  void Resize(Eigen::Index n) {
    mean.resize(n);
    variance.resize(n);
  }
  // The first n.
  [[nodiscard]] PredictionView Head(Eigen::Index n) {
    return {mean.head(n), variance.head(n)};
  }
  // Of exp(f) where this is the prediction of f: the median, and the variance
  // to first order.
  [[nodiscard]] Prediction Exponential() const {
    const Eigen::ArrayXd median = mean.array().exp();
    return {median, variance.array() * median.square()};
  }
};

// The result of a fit, for records and reports.
struct FitSummary {
  struct Parameter {
    std::string name;  // "length_scale[dp]", "prior[compute]", ...
    double value = 0.0;
  };
  std::vector<Parameter> parameters;
  double log_posterior = 0.0;  // at the optimum, where there is one
  int evaluations = 0;
  int starts = 0;
  int jitter_retries = 0;
  bool converged = true;
};

}  // namespace surrogates
