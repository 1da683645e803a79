#include "methods/acquisition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "common/parallel.h"
#include "common/statistics.h"
#include "common/units.h"

namespace methods {
namespace {

using common::NormalDensity;
using common::NormalProbability;
using std::numbers::pi;

constexpr double kReach = 6.5;  // of the standard normal; 8e-11 is beyond
constexpr int kNodes = 64;      // on each side of the kink
using common::kInfinity;

// Slack of the bound against the rounding and quadrature errors of the exact
// value, relative to |mean| + beta stddev.
constexpr double kSlack = 1e-6;
// The factor on the variance, whose two moments nearly cancel.
constexpr double kInflation = 1.0001;

// 1 - sigmoid(m).
double FeasibleAt(double excess) { return 1.0 / (1.0 + std::exp(excess)); }

struct GaussLegendre {
  std::array<double, kNodes> node;  // on [0, 1]
  std::array<double, kNodes> weight;
};

// Newton's method on the Legendre polynomial from its asymptotic zeros.
GaussLegendre MakeGaussLegendre() {
  GaussLegendre rule{};
  for (int i = 0; i < kNodes; ++i) {
    double x = std::cos(pi * (i + 0.75) / (kNodes + 0.5));
    double derivative = 0.0;
    for (int iteration = 0; iteration < 10; ++iteration) {
      double previous = 1.0;
      double value = x;
      for (int k = 2; k <= kNodes; ++k) {
        const double next =
            ((2.0 * k - 1.0) * x * value - (k - 1.0) * previous) / k;
        previous = value;
        value = next;
      }
      derivative = kNodes * (x * value - previous) / (x * x - 1.0);
      x -= value / derivative;
    }
    const auto index = static_cast<std::size_t>(i);
    rule.node[index] = 0.5 * (1.0 - x);
    rule.weight[index] = 1.0 / ((1.0 - x * x) * derivative * derivative);
  }
  return rule;
}

constexpr double kWidestStep = 0.8;

double TrapezoidWeight(double z) { return std::exp(-0.5 * z * z); }

// At 0, kWidestStep, 2 kWidestStep, ...
using TrapezoidWeights =
    std::array<double, static_cast<std::size_t>(kReach / kWidestStep) + 1>;
TrapezoidWeights MakeTrapezoidWeights() {
  TrapezoidWeights weights{};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = TrapezoidWeight(kWidestStep * static_cast<double>(i));
  }
  return weights;
}

// Trapezoid rule in z: exact to rounding for narrow beliefs.
FeasibilityMoments NarrowFeasibility(double mean, double stddev) {
  static const TrapezoidWeights widest = MakeTrapezoidWeights();
  const bool narrower = stddev > 0.95 / kWidestStep;
  const double step = narrower ? 0.95 / stddev : kWidestStep;
  const int reach = static_cast<int>(kReach / step);
  FeasibilityMoments sum;
  double weights = 0.0;
  for (int i = -reach; i <= reach; ++i) {
    const double z = step * i;
    const double weight =
        narrower ? TrapezoidWeight(z) : widest.at(std::abs(i));
    const double g = FeasibleAt(mean + stddev * z);
    sum.first += weight * g;
    sum.second += weight * g * g;
    weights += weight;
  }
  return {sum.first / weights, sum.second / weights};
}

constexpr double kProbit = 1.702;

// The feasibility if the sigmoid were Phi(-m / kProbit), which is never further
// from 1 - sigmoid(m) than kProbitError.
constexpr double kProbitError = 0.0095;
double ProbitFeasibility(double mean, double stddev) {
  return NormalProbability(-mean / std::hypot(kProbit, stddev));
}

// At integer m: the residual of the probit approximation, and g (1 - g).
constexpr int kFar = 22;
struct WholeExcesses {
  std::array<double, 2 * kFar + 1> left;
  std::array<double, 2 * kFar + 1> spread;
};

WholeExcesses MakeWholeExcesses() {
  WholeExcesses table{};
  for (std::size_t i = 0; i < table.left.size(); ++i) {
    const double m = static_cast<double>(i) - kFar;
    const double g = FeasibleAt(m);
    table.left[i] = g - NormalProbability(-m / kProbit);
    table.spread[i] = g * (1.0 - g);
  }
  return table;
}

// The probit approximation of the sigmoid has a closed form; the residual of
// both integrals is confined to small |m| and smooth at the scale of 1, so a
// sum over integer m suffices.
FeasibilityMoments WideFeasibility(double mean, double stddev) {
  static const WholeExcesses table = MakeWholeExcesses();
  double first = ProbitFeasibility(mean, stddev);
  double spread = 0.0;  // E[g (1 - g)]
  for (std::size_t i = 0; i < table.left.size(); ++i) {
    const double m = static_cast<double>(i) - kFar;
    const double weight = NormalDensity((m - mean) / stddev) / stddev;
    first += weight * table.left[i];
    spread += weight * table.spread[i];
  }
  first = std::clamp(first, 0.0, 1.0);
  return {first, std::clamp(first - spread, first * first, first)};
}

// E|X - E X| given the excess: X - E X is then N(delta, sigma^2).
double ConditionalDeviation(const ConstrainedBelief& belief,
                            double mean_feasible, double excess) {
  const double g = FeasibleAt(excess);
  const double delta = belief.throughput_mean * (g - mean_feasible);
  const double sigma = belief.throughput_stddev * g;
  const double ratio = delta / (sigma * std::numbers::sqrt2);
  if (!(std::abs(ratio) < 10.0)) {  // sigma = 0 included
    return std::abs(delta);
  }
  return sigma * std::sqrt(2.0 / pi) * std::exp(-ratio * ratio) +
         delta * std::erf(ratio);
}

double Ratio(double numerator, double denominator) {
  return denominator > 0.0 ? numerator / denominator : kInfinity;
}

double MeanAbsoluteDeviation(const ConstrainedBelief& belief,
                             double mean_feasible) {
  if (!(belief.excess_stddev > 0.0)) {
    return ConditionalDeviation(belief, mean_feasible, belief.excess_mean);
  }
  static const GaussLegendre rule = MakeGaussLegendre();
  // The excess at which delta changes sign, and the width of the layer there.
  const double kink = std::log((1.0 - mean_feasible) / mean_feasible);
  const double center = std::clamp(
      (kink - belief.excess_mean) / belief.excess_stddev, -kReach, kReach);
  const double layer = Ratio(belief.throughput_stddev,
                             std::abs(belief.throughput_mean) *
                                 (1.0 - mean_feasible) * belief.excess_stddev);
  const double width =
      2.0 * std::clamp(std::min(layer, 1.0 / belief.excess_stddev), 1e-5, 1.0);
  double sum = 0.0;
  for (const double side : {-1.0, 1.0}) {
    const double distance = kReach - side * center;
    const double stretch = std::asinh(distance / width);
    for (std::size_t i = 0; i < rule.node.size(); ++i) {
      const double growth = std::exp(stretch * rule.node[i]);
      const double decay = 1.0 / growth;
      const double sinh = 0.5 * (growth - decay);
      const double cosh = 0.5 * (growth + decay);
      const double z = center + side * width * sinh;
      sum +=
          rule.weight[i] * width * stretch * cosh * NormalDensity(z) *
          ConditionalDeviation(belief, mean_feasible,
                               belief.excess_mean + belief.excess_stddev * z);
    }
  }
  return sum;
}

double BoundFromMoments(const ConstrainedBelief& belief,
                        const FeasibilityMoments& feasible, double beta) {
  const double r = belief.throughput_mean;
  const double s = belief.throughput_stddev;
  const double variance =
      r * r * (feasible.second - feasible.first * feasible.first) +
      s * s * feasible.second;
  return r * feasible.first +
         beta * std::sqrt(kInflation * std::max(variance, 0.0));
}

// A bound without an integral, over all feasibilities p:
//
//   E X + beta sd(X) <= r p + beta (|r| sqrt(p (1 - p)) + s sqrt(p)),
//
// whose maximum for r > 0 is r (1 + sqrt(1 + beta^2)) / 2 + beta s. It includes
// the slack.
double BoundAtAnyFeasibility(double r, double s, double beta) {
  const double most = r > 0.0 ? 0.5 * r * (1.0 + std::sqrt(1.0 + beta * beta))
                              : -0.5 * r * beta;
  return most + beta * s + kSlack * (std::abs(r) + beta * s);
}

// A bound without an integral: p = E g, g = 1 - sigmoid(m), is near its probit
// approximation, and far above the capacity it is below E exp(-m):
//
//   E X + beta sd(X) <= r p + beta sqrt(r^2 Var g + s^2 p),
//   Var g <= min(p (1 - p), stddev_m^2 / 16),
//
// the latter since |dg / dm| <= 1 / 4 (Poincare). For r < 0 the first term is
// dropped. It includes the slack.
double BoundFromProbit(const ConstrainedBelief& belief, double beta) {
  const double r = belief.throughput_mean;
  const double s = belief.throughput_stddev;
  const double stddev = belief.excess_stddev;
  const double probit = ProbitFeasibility(belief.excess_mean, stddev);
  const double tail = std::exp(0.5 * stddev * stddev - belief.excess_mean);
  const double most = std::min({probit + kProbitError, tail, 1.0});
  const double least = std::max(probit - kProbitError, 0.0);
  const double middle = std::clamp(0.5, std::min(least, most), most);
  const double variance =
      std::min(middle * (1.0 - middle), stddev * stddev / 16.0);
  return std::max(r, 0.0) * most +
         beta * std::sqrt(r * r * variance + s * s * most) +
         kSlack * (std::abs(r) + beta * s);
}

double SlackedBound(const ConstrainedBelief& belief, double beta) {
  const double slack = kSlack * (std::abs(belief.throughput_mean) +
                                 beta * belief.throughput_stddev);
  return ConstrainedUcbBound(belief, beta) + slack;
}

// log E[1 - sigmoid(m)] of this much is as good as zero.
constexpr double kLeastFeasibility = 1e-300;

double LogFeasibility(const ConstrainedBelief& belief) {
  return std::log(
      std::max(Feasibility(belief.excess_mean, belief.excess_stddev).first,
               kLeastFeasibility));
}

// Bounds LogFeasibility as BoundFromProbit does.
double LogFeasibilityBound(const ConstrainedBelief& belief) {
  const double stddev = belief.excess_stddev;
  const double probit = ProbitFeasibility(belief.excess_mean, stddev);
  const double tail = std::exp(0.5 * stddev * stddev - belief.excess_mean);
  return std::log(std::max(std::min({probit + kProbitError, tail, 1.0}),
                           kLeastFeasibility)) +
         kSlack;
}

double LogImprovement(const ConstrainedBelief& belief, double best) {
  return LogExpectedImprovement(belief.throughput_mean,
                                belief.throughput_stddev, best);
}

double BoundBatched(const ConstrainedBelief& belief,
                    const ArgMaxOptions& options, double least) {
  if (options.acquisition == Acquisition::kConstrainedImprovement) {
    return LogImprovement(belief, options.best_value) +
           LogFeasibilityBound(belief);
  }
  const double bound = BoundFromProbit(belief, options.beta);
  return bound >= least ? SlackedBound(belief, options.beta) : bound;
}

double Evaluate(const ConstrainedBelief& belief, const ArgMaxOptions& options) {
  return options.acquisition == Acquisition::kConstrainedImprovement
             ? LogImprovement(belief, options.best_value) +
                   LogFeasibility(belief)
             : ConstrainedUcb(belief, options.beta);
}

constexpr int kGrain = 512;  // candidates of one unit of parallel work

}  // namespace

FeasibilityMoments Feasibility(double excess_mean, double excess_stddev) {
  return excess_stddev > 1.5 ? WideFeasibility(excess_mean, excess_stddev)
                             : NarrowFeasibility(excess_mean, excess_stddev);
}

double ConstrainedUcb(const ConstrainedBelief& belief, double beta) {
  const double feasible =
      Feasibility(belief.excess_mean, belief.excess_stddev).first;
  return belief.throughput_mean * feasible +
         beta * MeanAbsoluteDeviation(belief, feasible);
}

double ConstrainedUcbBound(const ConstrainedBelief& belief, double beta) {
  return BoundFromMoments(
      belief, Feasibility(belief.excess_mean, belief.excess_stddev), beta);
}

double LogExpectedImprovement(double mean, double stddev, double best) {
  if (!(stddev > 0.0)) {
    return mean > best ? std::log(mean - best) : -kInfinity;
  }
  const double z = (mean - best) / stddev;
  // phi(z) + z Phi(z) cancels, and underflows, far below zero.
  constexpr double kFarBelow = -20.0;
  if (z > kFarBelow) {
    return std::log(stddev * (NormalDensity(z) + z * NormalProbability(z)));
  }
  const double w = 1.0 / (z * z);
  return std::log(stddev * w * (1.0 + w * (-3.0 + w * (15.0 - 105.0 * w)))) -
         0.5 * z * z - 0.5 * std::log(2.0 * pi);
}

double GaussianBeta(double beta) { return beta * std::sqrt(pi / 2.0); }

void ToMemoryExcess(double capacity, double scale,
                    surrogates::PredictionView memory) {
  if (!(scale > 0.0)) {
    throw std::invalid_argument(
        fmt::format("ToMemoryExcess: scale {} is not positive", scale));
  }
  memory.mean = (memory.mean.array() - capacity) / scale;
  memory.variance /= scale * scale;
}

// The highest bound first, the lowest index of equals.
bool AcquisitionSearch::Before(const Bounded& a, const Bounded& b) {
  return a.bound > b.bound || (a.bound == b.bound && a.candidate < b.candidate);
}

int AcquisitionSearch::ArgMax(const surrogates::Prediction& throughput,
                              const ExcessSource& excess,
                              const std::vector<char>& excluded,
                              const ArgMaxOptions& options) {
  const Eigen::Index size = throughput.mean.size();
  if (throughput.variance.size() != size ||
      (!excluded.empty() && std::ssize(excluded) != size)) {
    throw std::invalid_argument("AcquisitionSearch: shapes differ");
  }
  if (!(options.beta >= 0.0)) {
    throw std::invalid_argument(
        fmt::format("AcquisitionSearch: beta {} is negative", options.beta));
  }
  if (options.threads < 1 || options.first_batch < 1) {
    throw std::invalid_argument(
        "AcquisitionSearch: threads and first_batch must be at least 1");
  }
  MakeRoom(size);
  summary_ = {.value = -kInfinity};
  best_ = -1;
  BoundAll(throughput, excluded, options);
  for (auto batch = static_cast<std::size_t>(options.first_batch);
       !open_.empty(); batch *= 4) {
    TakeBatch(std::min(batch, open_.size()), excess);
    BoundBatch(throughput, options);
    EvaluateBatch(throughput, options);
    std::erase_if(open_, [&](const Bounded& candidate) {
      return candidate.bound < summary_.value;
    });
  }
  return best_;
}

// Reserves the largest possible batch; unused pages cost no memory.
void AcquisitionSearch::MakeRoom(Eigen::Index size) {
  const auto room = static_cast<std::size_t>(size);
  any_bounds_.resize(room);
  open_.reserve(room);
  batch_.reserve(room);
  bounds_.reserve(room);
  if (excess_.size() < size) {
    excess_.Resize(size);
  }
}

// Step 1.
void AcquisitionSearch::BoundAll(const surrogates::Prediction& throughput,
                                 const std::vector<char>& excluded,
                                 const ArgMaxOptions& options) {
  const auto size = static_cast<int>(throughput.mean.size());
  common::ParallelFor(
      size, options.threads,
      [&](int, int i) {
        const double mean = throughput.mean[i];
        const double stddev = std::sqrt(throughput.variance[i]);
        any_bounds_[i] =
            options.acquisition == Acquisition::kConstrainedImprovement
                ? LogExpectedImprovement(mean, stddev, options.best_value) +
                      kSlack
                : BoundAtAnyFeasibility(mean, stddev, options.beta);
      },
      16 * kGrain);
  open_.clear();
  for (int i = 0; i < size; ++i) {
    const double bound = any_bounds_[i];
    const bool skip = !excluded.empty() && excluded[i] != 0;
    if (!skip && !std::isnan(bound)) {
      open_.push_back({bound, i});
    }
  }
}

// Step 2: the highest bounds, in the order of the candidates.
void AcquisitionSearch::TakeBatch(std::size_t size,
                                  const ExcessSource& excess) {
  const auto first = open_.end() - static_cast<std::ptrdiff_t>(size);
  std::nth_element(open_.begin(), first, open_.end(),
                   [](const auto& a, const auto& b) { return Before(b, a); });
  batch_.clear();
  for (auto it = first; it != open_.end(); ++it) {
    batch_.push_back(it->candidate);
  }
  open_.erase(first, open_.end());
  std::ranges::sort(batch_);
  excess(batch_, excess_.Head(static_cast<Eigen::Index>(size)));
  summary_.memory_evaluations += static_cast<int>(size);
}

ConstrainedBelief AcquisitionSearch::BeliefAt(
    const surrogates::Prediction& throughput, int place) const {
  const int candidate = batch_[place];
  return {.throughput_mean = throughput.mean[candidate],
          .throughput_stddev = std::sqrt(throughput.variance[candidate]),
          .excess_mean = excess_.mean[place],
          .excess_stddev = std::sqrt(excess_.variance[place])};
}

void AcquisitionSearch::BoundBatch(const surrogates::Prediction& throughput,
                                   const ArgMaxOptions& options) {
  bounds_.resize(batch_.size());
  common::ParallelFor(
      static_cast<int>(batch_.size()), options.threads,
      [&](int, int place) {
        const ConstrainedBelief belief = BeliefAt(throughput, place);
        bounds_[place] = {BoundBatched(belief, options, summary_.value), place};
      },
      kGrain);
  std::erase_if(bounds_, [&](const Bounded& place) {
    return !(place.bound >= summary_.value);  // or NaN
  });
  std::ranges::sort(bounds_, Before);
}

// Step 3. The places of a batch are in the order of its candidates.
void AcquisitionSearch::EvaluateBatch(const surrogates::Prediction& throughput,
                                      const ArgMaxOptions& options) {
  std::optional<ConstrainedBelief> last;
  double value = -kInfinity;
  for (const auto& [bound, place] : bounds_) {
    if (bound < summary_.value) {
      break;
    }
    const ConstrainedBelief belief = BeliefAt(throughput, place);
    // Candidates with equal predictions are adjacent.
    if (last != belief) {
      last = belief;
      value = Evaluate(belief, options);
      ++summary_.exact_evaluations;
    }
    const int candidate = batch_[place];
    if (value > summary_.value ||
        (value == summary_.value && candidate < best_)) {
      summary_.value = value;
      summary_.belief = belief;
      best_ = candidate;
    }
  }
}

}  // namespace methods
