// Minimisation of a smooth function in a box.

#ifndef SURROGATES_GP_BFGS_H_
#define SURROGATES_GP_BFGS_H_

#include <functional>

#include <Eigen/Core>

namespace surrogates {

// The function and, if the pointer is not null, its gradient. It may return
// +infinity where it is not defined; the search then steps back.
using Objective =
    std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct BfgsOptions {
  int max_iterations = 200;  // >= 1
  // Stops when the projected gradient is at most this in every component, ...
  double gradient_tolerance = 1e-6;
  // ... or two steps in a row gain less than this times (1 + |f|). The
  // modulus matters: a log likelihood crosses zero.
  double value_tolerance = 1e-10;
  // Longest move of one component in one step. Parameters are logarithms: 3 is
  // a factor of 20.
  double max_step = 3.0;  // > 0
};

struct BfgsSummary {
  Eigen::VectorXd x;
  double value = 0.0;
  int iterations = 0;
  int evaluations = 0;
  // False: iterations ran out, or no step along the gradient was downhill.
  bool converged = false;
};

// Dense BFGS on the free variables with projection onto the box
// lower <= x <= upper: a variable at a bound with the gradient pushing it
// outwards is held (two-metric projection), and the line search, with weak
// Wolfe conditions by bracketing, follows the projected path. Deterministic.
//
// Source: Bertsekas (1982), "Projected Newton methods for optimization problems
// with simple constraints"; Nocedal & Wright (2006), Eqs. 6.17 and 6.20.
// Shapes: start, lower, upper [n]; start is projected first.
[[nodiscard]] BfgsSummary MinimizeBfgs(const Objective& objective,
                                       const Eigen::VectorXd& start,
                                       const Eigen::VectorXd& lower,
                                       const Eigen::VectorXd& upper,
                                       const BfgsOptions& options = {});

}  // namespace surrogates

#endif  // SURROGATES_GP_BFGS_H_
