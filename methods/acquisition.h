// Acquisition functions under a memory constraint, and the candidate with the
// highest value.

#pragma once

#include <functional>
#include <vector>

#include "surrogates/surrogate.h"

namespace methods {

// Marginal predictions of one candidate: throughput r and memory excess m.
struct ConstrainedBelief {
  double throughput_mean = 0.0;
  double throughput_stddev = 0.0;  // >= 0
  double excess_mean = 0.0;
  double excess_stddev = 0.0;  // >= 0

  friend bool operator==(const ConstrainedBelief&,
                         const ConstrainedBelief&) = default;
};

// The constrained upper confidence bound, exact and deterministic,
//
//   cUCB = E[X + beta |X - E X|],   X = r (1 - sigmoid(m)),
//
// with r ~ N(throughput), m ~ N(excess) independent.
//
// r stays on its positive scale, never centered: X = 0 means infeasible. m is
// (memory - capacity) / scale; the sigmoid is not scale-free, so the caller
// chooses the scale (see ToMemoryExcess). As printed, beta multiplies the mean
// absolute deviation: where memory is not a constraint the value tends to mean
// + 0.798 beta stddev. GaussianBeta(beta) gives mean + beta stddev.
//
// Source: OPPA Eq. 4. Given m, X - E X is normal, so its absolute mean has a
// closed form and one integral over m remains. Its integrand has a layer of
// width ~ stddev_r / mean_r around the m at which E[X | m] = E X, so the
// integral is split there and each side is mapped by a sinh before
// Gauss-Legendre. Accuracy: relative error below 1e-6 in tests. Shapes:
// scalars. Errors: none; NaN in, NaN out.
[[nodiscard]] double ConstrainedUcb(const ConstrainedBelief& belief,
                                    double beta);

// An upper bound of ConstrainedUcb from E|X - E X| <= sd(X), seven times
// cheaper. Holds up to rounding; AcquisitionSearch adds a slack.
[[nodiscard]] double ConstrainedUcbBound(const ConstrainedBelief& belief,
                                         double beta);

// E[1 - sigmoid(m)] for m ~ N(mean, stddev^2): the weight of feasibility, and
// its second moment.
struct FeasibilityMoments {
  double first = 0.0;
  double second = 0.0;
};
[[nodiscard]] FeasibilityMoments Feasibility(double excess_mean,
                                             double excess_stddev);

// The logarithm of the expected improvement E[max(r - best, 0)] for r ~ N(mean,
// stddev^2). Finite for stddev > 0 however unlikely an improvement is.
// Source: Jones, Schonlau & Welch (1998), Eq. 15; Ament et al. (2023) for the
// logarithm.
[[nodiscard]] double LogExpectedImprovement(double mean, double stddev,
                                            double best);

// The acquisition function that chooses a candidate.
enum class Acquisition {
  kConstrainedUcb,
  // The logarithm of expected improvement times the probability of fitting,
  // E[max(r - best, 0)] E[1 - sigmoid(m)].
  // Source: Gardner et al. (2014), Eq. 3; OPPA Eq. 8 without memory.
  kConstrainedImprovement,
};

// beta * sqrt(pi / 2): cUCB's beta that makes it mean + beta * stddev in the
// feasible limit.
[[nodiscard]] double GaussianBeta(double beta);

// Makes memory (memory - capacity) / scale for every candidate, with its
// variance.
// Units: memory, capacity and scale share a unit; the result has none.
// Errors: throws std::invalid_argument unless scale > 0.
void ToMemoryExcess(double capacity, double scale,
                    surrogates::PredictionView memory);

// Result and cost of the search over candidates.
struct ArgMaxSummary {
  double value = 0.0;          // of the winner's acquisition function
  ConstrainedBelief belief;    // of the winner
  int memory_evaluations = 0;  // candidates whose excess was predicted
  int exact_evaluations = 0;   // of cUCB; the others were pruned
};

// Predicts the memory excess of some candidates, in their order.
// Shapes: excess is [candidates.size()].
using ExcessSource = std::function<void(const std::vector<int>& candidates,
                                        surrogates::PredictionView excess)>;

struct ArgMaxOptions {
  Acquisition acquisition = Acquisition::kConstrainedUcb;
  double beta = 1.0;        // of cUCB, >= 0
  double best_value = 0.0;  // of the improvement
  int threads = 1;          // >= 1; the result does not depend on it
  // Size of the first batch; each further one is four times as large. >= 1; the
  // result does not depend on it.
  int first_batch = 1024;
};

// Finds the candidate with the highest value of the acquisition function. The
// result is that of evaluating all candidates, but
//
//   1. throughput alone bounds every candidate;
//   2. in batches, the highest bounds first, the excess of the candidates that
//      may still win is predicted and gives the tighter ConstrainedUcbBound;
//   3. within a batch, cUCB itself is evaluated in the order of these bounds
//      until none exceeds the best value so far.
//
// Buffers are kept between calls: with one thread and no more candidates than
// before, calls after the first allocate nothing.
class AcquisitionSearch {
 public:
  // The best candidate among those with excluded[i] == 0, the lowest index of
  // equals; -1 if every candidate is excluded. A NaN is never chosen.
  // Shapes: throughput [N], excluded [N] (or empty: none is).
  // Errors: throws std::invalid_argument when the shapes differ or an option
  // is outside its range.
  int ArgMax(const surrogates::Prediction& throughput,
             const ExcessSource& excess, const std::vector<char>& excluded,
             const ArgMaxOptions& options);

  // The summary of the last call.
  [[nodiscard]] const ArgMaxSummary& summary() const { return summary_; }

 private:
  struct Bounded {
    double bound;
    int candidate;
  };
  static bool Before(const Bounded& a, const Bounded& b);
  [[nodiscard]] ConstrainedBelief BeliefAt(
      const surrogates::Prediction& throughput, int place) const;
  void MakeRoom(Eigen::Index size);
  void BoundAll(const surrogates::Prediction& throughput,
                const std::vector<char>& excluded,
                const ArgMaxOptions& options);
  void TakeBatch(std::size_t size, const ExcessSource& excess);
  void BoundBatch(const surrogates::Prediction& throughput,
                  const ArgMaxOptions& options);
  void EvaluateBatch(const surrogates::Prediction& throughput,
                     const ArgMaxOptions& options);

  std::vector<double> any_bounds_;  // of all candidates, step 1
  std::vector<Bounded> open_;       // excess not predicted yet
  std::vector<int> batch_;          // candidates
  surrogates::Prediction excess_;   // of the batch, with spare room
  std::vector<Bounded> bounds_;     // of places in the batch, step 2
  ArgMaxSummary summary_;
  int best_ = -1;
};

}  // namespace methods
