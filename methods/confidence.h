// Bounds of the theory of early termination, with probability 1 - delta.

#pragma once

namespace methods {

// The setting of the theorems: a function f of RKHS norm at most
// `rkhs_bound` under a known kernel, observed in rounds of up to q_max
// repetitions with independent normal noise.
//
// Note: the kernel includes its own scale, so the bound has no unit.
// Source: OPPA Assumption F.1.
struct Assumption {
  double rkhs_bound = 1.0;  // B >= 0
  double delta = 0.1;       // in (0, 1): probability that a bound fails
  int rounds = 100;         // N >= 1
  int q_max = 1;            // >= 1
};

// c_1 = sqrt(2 log(2 N q_max / delta)): all running means are within
// c_1 s / sqrt(q) of the truth. Source: OPPA Lemma F.7.
[[nodiscard]] double RunningMeanFactor(const Assumption& assumption);

// tau_q = c_1 s (1 / sqrt(q_min) + 1 / sqrt(q)). Source: OPPA Eq. 56.
// Units: noise_stddev is the s of one observation; the result has its unit.
[[nodiscard]] double TerminationMargin(const Assumption& assumption,
                                       double noise_stddev, int q_min, int q);

// beta_i = B + sqrt(2 (I + log(1 / delta))), with I the information gain of
// the observations so far in nats,
//
//   I = 1/2 log det(K + S) - 1/2 log det S,   S = diag(s^2 / q_j).
//
// It counts standard deviations. Source: OPPA Eq. 32.
[[nodiscard]] double ConfidenceBeta(const Assumption& assumption,
                                    double information_gain);

// The bound on cumulative regret after n rounds, s beta_n sqrt(8 n gamma /
// q_min), with gamma an information gain. Source: OPPA Theorem F.5, Eq. 39.
// Note: its proof (Eq. 43) uses x <= log(1 + x), which is false for x > 0, so
// the bound fails where s^2 / q_min is small relative to the kernel's variance.
[[nodiscard]] double PrintedRegretBound(double noise_stddev, double beta,
                                        int rounds, double gamma, int q_min);

// The corrected bound, from x <= v log(1 + x) / log(1 + v) for 0 <= x <= v:
// beta_n sqrt(8 n gamma k / log(1 + k q_min / s^2)), k the kernel's variance.
// Source: Srinivas et al. (2012), Lemma 5.4.
[[nodiscard]] double RegretBound(double noise_stddev, double beta, int rounds,
                                 double gamma, int q_min,
                                 double kernel_variance);

}  // namespace methods
