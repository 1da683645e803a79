#include "surrogates/gp/minimize.h"

#include <cmath>
#include <memory>

#include <nlopt.h>

namespace surrogates {
namespace {

// In place of infinity, which NLopt's line search does not survive.
constexpr double kUndefined = 1e30;

struct Call {
  const Objective* objective = nullptr;
  Eigen::VectorXd x, gradient;
  Minimum best;
};

double Evaluate(unsigned size, const double* x, double* gradient, void* data) {
  Call& call = *static_cast<Call*>(data);
  call.x = Eigen::Map<const Eigen::VectorXd>(x, size);
  double value = (*call.objective)(call.x, &call.gradient);
  if (!std::isfinite(value) || !call.gradient.allFinite()) {
    value = kUndefined;
    call.gradient.setZero(size);
  }
  if (gradient != nullptr) {
    Eigen::Map<Eigen::VectorXd>(gradient, size) = call.gradient;
  }
  if (++call.best.evaluations == 1 || value < call.best.value) {
    call.best.x = call.x;
    call.best.value = value;
  }
  return value;
}

}  // namespace

Minimum Minimize(const Objective& objective, const Eigen::VectorXd& start,
                 const Eigen::VectorXd& lower, const Eigen::VectorXd& upper,
                 int max_evaluations, Minimizer minimizer) {
  const std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> search(
      nlopt_create(
          minimizer == Minimizer::kSlsqp ? NLOPT_LD_SLSQP : NLOPT_LD_LBFGS,
          static_cast<unsigned>(start.size())),
      &nlopt_destroy);
  Call call{.objective = &objective};
  nlopt_set_min_objective(search.get(), Evaluate, &call);
  nlopt_set_lower_bounds(search.get(), lower.data());
  nlopt_set_upper_bounds(search.get(), upper.data());
  nlopt_set_ftol_rel(search.get(), 1e-8);
  nlopt_set_ftol_abs(search.get(), 1e-8);  // a log likelihood crosses zero
  nlopt_set_maxeval(search.get(), max_evaluations);
  Eigen::VectorXd x = start.cwiseMax(lower).cwiseMin(upper);
  double value = 0.0;
  const nlopt_result result = nlopt_optimize(search.get(), x.data(), &value);
  call.best.converged = result > 0 && result != NLOPT_MAXEVAL_REACHED &&
                        call.best.value < kUndefined;
  return call.best;
}

}  // namespace surrogates
