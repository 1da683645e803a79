// Minimization of a smooth function in a box, by NLopt.

#ifndef SURROGATES_GP_LBFGS_H_
#define SURROGATES_GP_LBFGS_H_

#include <functional>

#include <Eigen/Core>

namespace surrogates {

// The function and its gradient. It may return +infinity where it is not
// defined; the search then steps back.
using Objective =
    std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct LbfgsSummary {
  Eigen::VectorXd x;
  double value = 0.0;
  int evaluations = 0;
  // False: the evaluations are exhausted, or no step descends.
  bool converged = false;
};

// Limited-memory BFGS from `start`, projected into lower <= x <= upper, until a
// step gains less than 1e-8 (absolute or relative) or after `max_evaluations`.
// Deterministic.
//
// Source: NLopt's LD_LBFGS, that is Luksan's PLIS; Nocedal & Wright (2006),
// ch. 7. Shapes: start, lower, upper [n].
[[nodiscard]] LbfgsSummary MinimizeLbfgs(const Objective& objective,
                                         const Eigen::VectorXd& start,
                                         const Eigen::VectorXd& lower,
                                         const Eigen::VectorXd& upper,
                                         int max_evaluations);

}  // namespace surrogates

#endif  // SURROGATES_GP_LBFGS_H_
