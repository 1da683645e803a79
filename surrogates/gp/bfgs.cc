#include "surrogates/gp/bfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/units.h"

namespace surrogates {
namespace {

constexpr double kArmijo = 1e-4;
constexpr double kCurvature = 0.9;
constexpr int kMaxTrials = 30;  // of one line search
using common::kInfinity;

// The minimum of the parabola through f(0), f'(0) and f(t), kept away from
// the ends of the bracket.
double ShorterStep(double value, double slope, double low, double t,
                   double trial_value) {
  double candidate = 0.5 * (low + t);
  if (low == 0.0 && std::isfinite(trial_value)) {
    const double curvature = trial_value - value - slope * t;
    if (curvature > 0.0) {
      candidate = -0.5 * slope * t * t / curvature;
    }
  }
  return std::clamp(candidate, low + 0.1 * (t - low), low + 0.75 * (t - low));
}

}  // namespace

BoxBfgs::BoxBfgs(const Eigen::VectorXd& start, const Eigen::VectorXd& lower,
                 const Eigen::VectorXd& upper, const BfgsOptions& options)
    : lower_(lower), upper_(upper), options_(options) {
  now_.x = Project(start);
  ResetHessian();
}

void BoxBfgs::Advance(const Objective& objective, int max_iterations) {
  if (evaluations_ == 0) {
    Evaluate(objective, now_);
    finished_ = !std::isfinite(now_.value);
  }
  Point next;
  while (!finished_ && iterations_ < max_iterations) {
    if (ProjectedGradient() <= options_.gradient_tolerance ||
        small_gains_ == 2) {
      converged_ = finished_ = true;
    } else if (LineSearch(objective, next)) {
      ++iterations_;
      const bool small =
          now_.value - next.value <=
          options_.value_tolerance * (1.0 + std::abs(now_.value));
      small_gains_ = small ? small_gains_ + 1 : 0;
      Update(next);
      std::swap(now_, next);
    } else if (fresh_) {
      finished_ = true;  // even the gradient does not descend: kink, rounding
    } else {
      ResetHessian();
    }
  }
}

BfgsSummary BoxBfgs::summary() const {
  return {.x = now_.x,
          .value = now_.value,
          .iterations = iterations_,
          .evaluations = evaluations_,
          .converged = converged_};
}

Eigen::VectorXd BoxBfgs::Project(const Eigen::VectorXd& x) const {
  return x.cwiseMax(lower_).cwiseMin(upper_);
}

void BoxBfgs::Evaluate(const Objective& objective, Point& point) {
  ++evaluations_;
  point.value = objective(point.x, &point.gradient);
  if (std::isnan(point.value) || !point.gradient.allFinite()) {
    point.value = kInfinity;
  }
}

double BoxBfgs::ProjectedGradient() const {
  return (Project(now_.x - now_.gradient) - now_.x).lpNorm<Eigen::Infinity>();
}

// True when the variable sits at a bound and downhill is outside.
bool BoxBfgs::Held(Eigen::Index i) const {
  return (now_.x[i] <= lower_[i] && now_.gradient[i] >= 0.0) ||
         (now_.x[i] >= upper_[i] && now_.gradient[i] <= 0.0);
}

void BoxBfgs::ResetHessian() {
  inverse_hessian_.setIdentity(now_.x.size(), now_.x.size());
  fresh_ = true;
}

// Downhill on the free variables; scaled to the longest allowed move.
Eigen::VectorXd BoxBfgs::Direction() const {
  Eigen::VectorXd gradient = now_.gradient;
  for (Eigen::Index i = 0; i < gradient.size(); ++i) {
    if (Held(i)) {
      gradient[i] = 0.0;
    }
  }
  Eigen::VectorXd direction =
      -(inverse_hessian_.selfadjointView<Eigen::Lower>() * gradient);
  for (Eigen::Index i = 0; i < gradient.size(); ++i) {
    if (Held(i)) {
      direction[i] = 0.0;
    }
  }
  const double longest = direction.lpNorm<Eigen::Infinity>();
  const double limit = options_.max_step * (fresh_ ? 1.0 / 3.0 : 1.0);
  if (longest > limit) {
    direction *= limit / longest;
  }
  return direction;
}

// Slope along the projected path at a point on it: components that have
// reached their bound no longer move.
double BoxBfgs::PathSlope(const Point& point,
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

bool BoxBfgs::LineSearch(const Objective& objective, Point& next) {
  const Eigen::VectorXd direction = Direction();
  const double slope = now_.gradient.dot(direction);
  if (!(slope < 0.0)) {
    return false;
  }
  const double longest =
      options_.max_step / direction.lpNorm<Eigen::Infinity>();
  double low = 0.0;
  double high = kInfinity;
  double t = std::min(1.0, longest);
  Point best;  // the lowest that satisfies the first condition
  for (int trial = 0; trial < kMaxTrials; ++trial) {
    next.x = Project(now_.x + t * direction);
    Evaluate(objective, next);
    // The decrease expected is that along the projected move.
    const double expected = now_.gradient.dot(next.x - now_.x);
    if (!(next.value <= now_.value + kArmijo * expected)) {
      high = t;
      t = ShorterStep(now_.value, slope, low, t, next.value);
    } else {
      if (PathSlope(next, direction) >= kCurvature * slope || t >= longest) {
        return true;
      }
      if (next.value < best.value) {
        best = next;
      }
      low = t;
      t = std::isinf(high) ? std::min(2.5 * t, longest) : 0.5 * (low + high);
    }
    const bool narrow = std::isfinite(high) && high - low <= 1e-10 * high;
    if (narrow || next.x == now_.x) {
      break;
    }
  }
  std::swap(next, best);
  return std::isfinite(next.value) && next.value < now_.value;
}

// BFGS update of the inverse Hessian; skipped where the curvature along the
// step is not positive.
void BoxBfgs::Update(const Point& next) {
  const Eigen::VectorXd s = next.x - now_.x;
  const Eigen::VectorXd y = next.gradient - now_.gradient;
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
  inverse_hessian_.selfadjointView<Eigen::Lower>().rankUpdate(s, hy, -1.0 / sy);
  inverse_hessian_.selfadjointView<Eigen::Lower>().rankUpdate(
      s, (1.0 + y.dot(hy) / sy) / sy);
}

BfgsSummary MinimizeBfgs(const Objective& objective,
                         const Eigen::VectorXd& start,
                         const Eigen::VectorXd& lower,
                         const Eigen::VectorXd& upper,
                         const BfgsOptions& options) {
  BoxBfgs search(start, lower, upper, options);
  search.Advance(objective, options.max_iterations);
  return search.summary();
}

}  // namespace surrogates
