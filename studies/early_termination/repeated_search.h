// Bayesian optimization with repeated queries that may be stopped early.

#ifndef STUDIES_EARLY_TERMINATION_REPEATED_SEARCH_H_
#define STUDIES_EARLY_TERMINATION_REPEATED_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "methods/confidence.h"
#include "studies/early_termination/objective.h"

namespace studies {

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

#endif  // STUDIES_EARLY_TERMINATION_REPEATED_SEARCH_H_
