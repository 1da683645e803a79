#include "surrogates/parametric_mean.h"

namespace surrogates {
namespace {

// The link and its derivative with respect to the linear predictor.
double LinkOf(const ParametricMean& mean, const double sum,
              double* derivative) {
  switch (mean.link) {
    case ParametricMean::Link::kInverse:
      *derivative = -1.0 / (sum * sum);
      return 1.0 / sum;
    case ParametricMean::Link::kLinear:
      *derivative = sum > mean.clip ? mean.clip_gradient : 1.0;
      return std::min(sum, mean.clip);
    case ParametricMean::Link::kConstant:
    case ParametricMean::Link::kLogLinear:
      break;
  }
  *derivative = 1.0;
  return sum;
}

}  // namespace

Eigen::VectorXd ParametricMean::Coefficients(
    const Eigen::VectorXd& log_c) const {
  return logarithmic() ? log_c : Eigen::VectorXd(log_c.array().exp());
}

Eigen::VectorXd ParametricMean::CoefficientSlopes(
    const Eigen::VectorXd& log_c) const {
  return logarithmic() ? Eigen::VectorXd::Ones(log_c.size())
                       : Eigen::VectorXd(log_c.array().exp());
}

void ParametricMean::Evaluate(const std::vector<int>& rows,
                              const Eigen::VectorXd& log_c,
                              Eigen::VectorXd& mean,
                              Eigen::MatrixXd* jacobian) const {
  const Eigen::VectorXd c = Coefficients(log_c);
  const Eigen::VectorXd slopes = CoefficientSlopes(log_c);
  const auto n = static_cast<Eigen::Index>(rows.size());
  mean.resize(n);
  if (jacobian != nullptr) {
    jacobian->resize(n, size());
  }
  for (Eigen::Index i = 0; i < n; ++i) {
    const auto phi = features.row(rows[i]);
    double derivative = 0.0;
    mean[i] = LinkOf(*this, phi.dot(c), &derivative);
    if (jacobian != nullptr) {
      jacobian->row(i) =
          derivative * (phi.array() * slopes.transpose().array()).matrix();
    }
  }
}

void ParametricMean::ApplyLink(Eigen::Ref<Eigen::ArrayXd> predictors,
                               Eigen::Ref<Eigen::ArrayXd> derivatives) const {
  for (Eigen::Index i = 0; i < predictors.size(); ++i) {
    predictors[i] = LinkOf(*this, predictors[i], &derivatives[i]);
  }
}

Eigen::VectorXd ParametricMean::EvaluateAll(
    const Eigen::VectorXd& log_c) const {
  Eigen::VectorXd mean = features * Coefficients(log_c);
  double derivative = 0.0;
  for (double& value : mean) {
    value = LinkOf(*this, value, &derivative);
  }
  return mean;
}

ParametricMean ConstantMean(int candidates, double log_center,
                            double log_stddev) {
  ParametricMean mean;
  mean.link = ParametricMean::Link::kConstant;
  mean.features = Eigen::MatrixXd::Ones(candidates, 1);
  mean.coefficients = {{"constant", log_center, log_stddev}};
  return mean;
}

}  // namespace surrogates
