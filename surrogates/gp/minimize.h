// Minimization of a smooth function in a box, by NLopt.

#pragma once

#include <functional>

#include <Eigen/Core>

namespace surrogates {

// The function and its gradient. It may return +infinity where it is not
// defined; the search then steps back.
using Objective =
    std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct Minimum {
  Eigen::VectorXd x;
  double value = 0.0;
  int evaluations = 0;
  // False: the evaluations are exhausted, or no step descends.
  bool converged = false;
};

// Algorithms of NLopt: limited-memory BFGS (Luksan's PLIS; Nocedal & Wright
// (2006), ch. 7), or sequential quadratic programming with a dense BFGS matrix
// (Kraft, 1994), which is slower per evaluation and stops less often at poor
// local minima of functions with kinks and flat regions.
enum class Minimizer { kLbfgs, kSlsqp };

// A minimum in lower <= x <= upper from `start`, where a step gains less than
// 1e-8 (absolute or relative) or after `max_evaluations`. Deterministic.
// Shapes: start, lower, upper [n].
[[nodiscard]] Minimum Minimize(const Objective& objective,
                               const Eigen::VectorXd& start,
                               const Eigen::VectorXd& lower,
                               const Eigen::VectorXd& upper,
                               int max_evaluations,
                               Minimizer minimizer = Minimizer::kLbfgs);

}  // namespace surrogates
