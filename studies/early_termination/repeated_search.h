// Bayesian optimization with repeated queries that may be stopped early, on
// functions over a few candidates.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "methods/confidence.h"

namespace studies {

// A Gaussian process with its joint posterior: f ~ N(0, K) over N candidates
// under a known kernel, conditioned on observations one by one. The surrogates'
// process learns its kernel and predicts marginals; the theory of early
// termination needs a known kernel, and the location of a maximum needs the
// joint distribution.
//
// Source: OPPA Eqs. 30-31 and 37.
// Shapes: mean [N], covariance [N, N].
class FiniteProcess {
 public:
  explicit FiniteProcess(Eigen::MatrixXd covariance);

  // One observation of a candidate; noise_variance > 0. O(N^2).
  void Observe(int candidate, double value, double noise_variance);

  [[nodiscard]] const Eigen::VectorXd& mean() const { return mean_; }
  [[nodiscard]] const Eigen::MatrixXd& covariance() const {
    return covariance_;
  }
  [[nodiscard]] double stddev(int candidate) const;
  // sum_i 1/2 log(1 + sigma_{i-1}^2(x_i) / noise_i), in nats.
  [[nodiscard]] double information_gain() const { return information_gain_; }

 private:
  Eigen::VectorXd mean_;
  Eigen::MatrixXd covariance_;
  double information_gain_ = 0.0;
};

// Matern-5/2 with unit variance. Shapes: points [d, N], result [N, N].
[[nodiscard]] Eigen::MatrixXd MaternMatrix(const Eigen::MatrixXd& points,
                                           double length_scale);

// Draws of f, one per column: [N, draws].
[[nodiscard]] Eigen::MatrixXd Draw(const FiniteProcess& process, int draws,
                                   std::uint64_t seed);

// An upper bound on the maximum information gain of `rounds` observations (Eq.
// 38): the greedy choice reaches 1 - 1/e of it, because the gain is submodular.
// Source: Krause and Guestrin (2005), Srinivas et al. (2012), Sec. 4.
[[nodiscard]] Eigen::VectorXd MaximumInformationGain(
    const Eigen::MatrixXd& covariance, double noise_variance, int rounds);

// The points of a regular grid over [0, 1]^d, `levels` > 1 in each dimension.
// Shapes: [d, levels^d].
[[nodiscard]] Eigen::MatrixXd UnitGrid(int dimensions, int levels);

// A function on finitely many points of the unit cube. Shapes: points [d, N],
// values [N].
struct Objective {
  std::string name;  // "branin"
  Eigen::MatrixXd points;
  Eigen::VectorXd values;
};

// Branin, six-hump camel, Ackley (two dimensions) and Hartmann (three), each
// negated, on a grid over its usual domain, and scaled so that the smallest
// value on the grid is 0 and the largest is 1: noise is then in units of the
// range.
// Source: Surjanovic and Bingham, Virtual Library of Simulation Experiments.
[[nodiscard]] std::vector<Objective> TestFunctions();

// sum_j a_j k(z_j, .), scaled to the given RKHS norm under `kernel`, the [N, N]
// matrix of the points: a function for which Assumption F.1 holds with a known
// B. 20 centers, normal weights.
[[nodiscard]] Objective RandomFunction(const Eigen::MatrixXd& points,
                                       const Eigen::MatrixXd& kernel,
                                       double rkhs_norm, std::uint64_t seed);

// The repetition rule of a query.
enum class Repeats {
  kOnce,       // never
  kAlways,     // q_max times: Algorithm 1
  kFixedTau,   // until the mean falls below the best by a fixed tau:
  kTheoryTau,  // ... or by tau_q of Eq. 56: Algorithm 2
};
[[nodiscard]] std::string NameOf(Repeats repeats);   // "fixed-tau"
[[nodiscard]] std::string LabelOf(Repeats repeats);  // for legends

struct SearchOptions {
  Repeats repeats = Repeats::kFixedTau;
  int q_min = 1;
  double tau = 1e-3;           // of kFixedTau
  double noise_stddev = 0.1;   // s of one observation, > 0; known
  int random_rounds = 3;       // at the start, the same for the same seed
  double beta = 1.0;           // of UCB, in standard deviations
  methods::Assumption theory;  // rounds is the number of rounds
};

// One round: a candidate, queried q times.
struct Round {
  int candidate = 0;
  int queries = 0;
  double value = 0.0;     // f there
  double observed = 0.0;  // mean of the queries
  double beta = 0.0;
  double information_gain = 0.0;  // of all rounds so far
  // With a known kernel: |f - mu| <= beta sigma everywhere before the round.
  bool contained = true;
};

// Searches with a process whose kernel and mean are refitted in every round, as
// in OPPA.
// Source: OPPA App. F.3.3, Algorithms 1 and 2.
[[nodiscard]] std::vector<Round> SearchWithLearnedKernel(
    const Objective& objective, const SearchOptions& options,
    std::uint64_t seed);

// Searches under Assumption F.1: the kernel is known, there are no random
// rounds, and beta_i is that of Eq. 32. Shapes: kernel [N, N].
[[nodiscard]] std::vector<Round> SearchWithKnownKernel(
    const Objective& objective, const Eigen::MatrixXd& kernel,
    const SearchOptions& options, std::uint64_t seed);

}  // namespace studies
