// Minimization of a smooth function in a box.

#ifndef SURROGATES_GP_BFGS_H_
#define SURROGATES_GP_BFGS_H_

#include <functional>
#include <limits>

#include <Eigen/Core>

namespace surrogates {

// The function and, if the pointer is not null, its gradient. It may return
// +infinity where it is not defined; the search then steps back.
using Objective =
    std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd* gradient)>;

struct BfgsOptions {
  int max_iterations = 200;  // >= 1
  // Stops when the projected gradient is at most this in every component, ...
  double gradient_tolerance = 1e-4;
  // ... or two steps in a row gain less than this times (1 + |f|). The
  // modulus matters: a log likelihood crosses zero.
  double value_tolerance = 1e-8;
  // Longest move of one component in one step. Parameters are logarithms: 3 is
  // a factor of 20.
  double max_step = 3.0;  // > 0
};

struct BfgsSummary {
  Eigen::VectorXd x;
  double value = 0.0;
  int iterations = 0;
  int evaluations = 0;
  // False: the iterations are exhausted, or no step along the gradient
  // descends.
  bool converged = false;
};

// Dense BFGS on the free variables with projection onto the box
// lower <= x <= upper: a variable at a bound with the gradient pushing it
// outwards is held (two-metric projection), and the line search, with weak
// Wolfe conditions by bracketing, follows the projected path. Deterministic.
//
// It replaces NLopt because MaximiseOverStarts pauses and resumes searches:
// Advance continues with the inverse Hessian of the earlier calls, where
// NLopt's optimizers start from scratch.
//
// Source: Bertsekas (1982), "Projected Newton methods for optimization problems
// with simple constraints"; Nocedal & Wright (2006), Eqs. 6.17 and 6.20.
// Shapes: start, lower, upper [n]; start is projected first.
class BoxBfgs {
 public:
  BoxBfgs(const Eigen::VectorXd& start, const Eigen::VectorXd& lower,
          const Eigen::VectorXd& upper, const BfgsOptions& options = {});

  // Continues until the search ends or has done `max_iterations` in this and
  // all earlier calls. The objective is the same in every call.
  void Advance(const Objective& objective, int max_iterations);

  // The best point so far.
  [[nodiscard]] BfgsSummary summary() const;

 private:
  struct Point {
    Eigen::VectorXd x;
    Eigen::VectorXd gradient;
    double value = std::numeric_limits<double>::infinity();
  };

  void Evaluate(const Objective& objective, Point& point);
  bool LineSearch(const Objective& objective, Point& next);
  void Update(const Point& next);
  void ResetHessian();
  [[nodiscard]] Eigen::VectorXd Project(const Eigen::VectorXd& x) const;
  [[nodiscard]] double ProjectedGradient() const;
  [[nodiscard]] bool Held(Eigen::Index i) const;
  [[nodiscard]] Eigen::VectorXd Direction() const;
  [[nodiscard]] double PathSlope(const Point& point,
                                 const Eigen::VectorXd& direction) const;

  Eigen::VectorXd lower_, upper_;
  BfgsOptions options_;
  Point now_;
  Eigen::MatrixXd inverse_hessian_;  // lower triangle
  bool fresh_ = true;  // the inverse Hessian is still the identity
  bool finished_ = false;
  bool converged_ = false;
  int small_gains_ = 0;
  int iterations_ = 0;
  int evaluations_ = 0;
};

// BoxBfgs from start to end.
[[nodiscard]] BfgsSummary MinimizeBfgs(const Objective& objective,
                                       const Eigen::VectorXd& start,
                                       const Eigen::VectorXd& lower,
                                       const Eigen::VectorXd& upper,
                                       const BfgsOptions& options = {});

}  // namespace surrogates

#endif  // SURROGATES_GP_BFGS_H_
