#include "surrogates/gp/bfgs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace surrogates {
namespace {

constexpr double kArmijo = 1e-4;
constexpr double kCurvature = 0.9;
constexpr int kMaxTrials = 30;  // of one line search

struct Point {
  Eigen::VectorXd x;
  Eigen::VectorXd gradient;
  double value = std::numeric_limits<double>::infinity();
};

class BoxBfgs {
 public:
  BoxBfgs(const Objective& objective,
          const Eigen::VectorXd& lower,
          const Eigen::VectorXd& upper,
          const BfgsOptions& options)
      : objective_(objective),
        lower_(lower),
        upper_(upper),
        options_(options) {}

  BfgsSummary Run(const Eigen::VectorXd& start) {
    Point now;
    now.x = Project(start);
    Evaluate(now);
    ResetHessian(now);
    BfgsSummary summary;
    int small_gains = 0;
    while (std::isfinite(now.value) &&
           summary.iterations < options_.max_iterations) {
      if (ProjectedGradient(now) <= options_.gradient_tolerance ||
          small_gains == 2) {
        summary.converged = true;
        break;
      }
      Point next;
      if (!LineSearch(now, next)) {
        if (fresh_) {
          break;  // not even the gradient leads down: rounding, or a kink
        }
        ResetHessian(now);
        continue;
      }
      ++summary.iterations;
      const bool small = now.value - next.value <=
                         options_.value_tolerance * (1.0 + std::abs(now.value));
      small_gains = small ? small_gains + 1 : 0;
      Update(now, next);
      std::swap(now, next);
    }
    summary.x = now.x;
    summary.value = now.value;
    summary.evaluations = evaluations_;
    return summary;
  }

 private:
  [[nodiscard]] Eigen::VectorXd Project(const Eigen::VectorXd& x) const {
    return x.cwiseMax(lower_).cwiseMin(upper_);
  }

  void Evaluate(Point& point) {
    ++evaluations_;
    point.value = objective_(point.x, &point.gradient);
    if (std::isnan(point.value) || !point.gradient.allFinite()) {
      point.value = std::numeric_limits<double>::infinity();
    }
  }

  [[nodiscard]] double ProjectedGradient(const Point& point) const {
    return (Project(point.x - point.gradient) - point.x)
        .lpNorm<Eigen::Infinity>();
  }

  // True when the variable sits at a bound and downhill is outside.
  [[nodiscard]] bool Held(const Point& point, Eigen::Index i) const {
    return (point.x[i] <= lower_[i] && point.gradient[i] >= 0.0) ||
           (point.x[i] >= upper_[i] && point.gradient[i] <= 0.0);
  }

  void ResetHessian(const Point& point) {
    inverse_hessian_.setIdentity(point.x.size(), point.x.size());
    fresh_ = true;
  }

  // Downhill on the free variables; scaled to the longest allowed move.
  [[nodiscard]] Eigen::VectorXd Direction(const Point& now) const {
    Eigen::VectorXd gradient = now.gradient;
    for (Eigen::Index i = 0; i < gradient.size(); ++i) {
      if (Held(now, i)) {
        gradient[i] = 0.0;
      }
    }
    Eigen::VectorXd direction =
        -(inverse_hessian_.selfadjointView<Eigen::Lower>() * gradient);
    for (Eigen::Index i = 0; i < gradient.size(); ++i) {
      if (Held(now, i)) {
        direction[i] = 0.0;
      }
    }
    const double longest = direction.lpNorm<Eigen::Infinity>();
    const double limit = fresh_ ? 1.0 / 3.0 : 1.0;
    if (longest > limit * options_.max_step) {
      direction *= limit * options_.max_step / longest;
    }
    return direction;
  }

  // Slope along the projected path at a point on it: components that have
  // reached their bound no longer move.
  [[nodiscard]] double PathSlope(const Point& point,
                                 const Eigen::VectorXd& direction) const {
    double slope = 0.0;
    for (Eigen::Index i = 0; i < direction.size(); ++i) {
      const bool stopped = (direction[i] < 0.0 && point.x[i] <= lower_[i]) ||
                           (direction[i] > 0.0 && point.x[i] >= upper_[i]);
      if (!stopped) {
        slope += point.gradient[i] * direction[i];
      }
    }
    return slope;
  }

  bool LineSearch(const Point& now, Point& next) {
    const Eigen::VectorXd direction = Direction(now);
    const double slope = now.gradient.dot(direction);
    if (!(slope < 0.0)) {
      return false;
    }
    const double longest =
        options_.max_step / direction.lpNorm<Eigen::Infinity>();
    double low = 0.0;
    double high = std::numeric_limits<double>::infinity();
    double t = std::min(1.0, longest);
    Point best;  // lowest that satisfies the first condition
    for (int trial = 0; trial < kMaxTrials; ++trial) {
      next.x = Project(now.x + t * direction);
      Evaluate(next);
      // The decrease expected is that along the projected move.
      const double expected = now.gradient.dot(next.x - now.x);
      if (!(next.value <= now.value + kArmijo * expected)) {
        high = t;
        t = ShorterStep(now.value, slope, low, t, next.value);
      } else {
        if (next.value < best.value) {
          best = next;
        }
        if (PathSlope(next, direction) >= kCurvature * slope || t >= longest) {
          return true;
        }
        low = t;
        t = std::isinf(high) ? std::min(2.5 * t, longest) : 0.5 * (low + high);
      }
      if (high - low <= 1e-10 * high || next.x == now.x) {
        break;
      }
    }
    std::swap(next, best);
    return std::isfinite(next.value) && next.value < now.value;
  }

  // The minimum of the parabola through f(0), f'(0) and f(t), kept away from
  // the ends of the bracket.
  static double ShorterStep(
      double value, double slope, double low, double t, double trial_value) {
    double candidate = 0.5 * (low + t);
    if (low == 0.0 && std::isfinite(trial_value)) {
      const double curvature = trial_value - value - slope * t;
      if (curvature > 0.0) {
        candidate = -0.5 * slope * t * t / curvature;
      }
    }
    return std::clamp(candidate, low + 0.1 * (t - low), low + 0.75 * (t - low));
  }

  // BFGS update of the inverse Hessian; skipped where the curvature along the
  // step is not positive.
  void Update(const Point& now, const Point& next) {
    const Eigen::VectorXd s = next.x - now.x;
    const Eigen::VectorXd y = next.gradient - now.gradient;
    const double sy = s.dot(y);
    if (!(sy > 1e-12 * s.norm() * y.norm())) {
      return;
    }
    if (fresh_) {
      inverse_hessian_.diagonal().setConstant(sy / y.squaredNorm());
      fresh_ = false;
    }
    const Eigen::VectorXd hy =
        inverse_hessian_.selfadjointView<Eigen::Lower>() * y;
    inverse_hessian_.selfadjointView<Eigen::Lower>().rankUpdate(
        s, hy, -1.0 / sy);
    inverse_hessian_.selfadjointView<Eigen::Lower>().rankUpdate(
        s, (1.0 + y.dot(hy) / sy) / sy);
  }

  const Objective& objective_;
  const Eigen::VectorXd& lower_;
  const Eigen::VectorXd& upper_;
  const BfgsOptions& options_;
  Eigen::MatrixXd inverse_hessian_;  // lower triangle
  bool fresh_ = true;  // the inverse Hessian is still the identity
  int evaluations_ = 0;
};

}  // namespace

BfgsSummary MinimizeBfgs(const Objective& objective,
                         const Eigen::VectorXd& start,
                         const Eigen::VectorXd& lower,
                         const Eigen::VectorXd& upper,
                         const BfgsOptions& options) {
  return BoxBfgs(objective, lower, upper, options).Run(start);
}

}  // namespace surrogates
