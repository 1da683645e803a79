// The normal distribution; intervals, paired tests and effect sizes for
// comparisons of methods.

#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

namespace common {

// The density of a standard normal variable.
[[nodiscard]] inline double NormalDensity(double z) {
  return std::exp(-0.5 * z * z) / std::sqrt(2.0 * std::numbers::pi);
}

// P(Z <= z) of a standard normal Z.
[[nodiscard]] inline double NormalProbability(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

// The 95% quantile of a standard normal variable: nine of ten values are
// between it and its negative.
inline constexpr double kNormalQuantile95 = 1.6448536269514722;

// NaN if there are no values.
[[nodiscard]] double Mean(const std::vector<double>& values);
// The unbiased variance; 0 of fewer than two values.
[[nodiscard]] double Variance(const std::vector<double>& values);

// Ranks from 1; equal values share the mean of their ranks.
// Precondition: no value is NaN.
[[nodiscard]] std::vector<double> Ranks(const std::vector<double>& values);

// A number with its 95% interval; NaN where it is not defined.
struct Estimate {
  double value = std::numeric_limits<double>::quiet_NaN();
  double low = std::numeric_limits<double>::quiet_NaN();
  double high = std::numeric_limits<double>::quiet_NaN();
};

enum class Statistic { kMean, kMedian };

struct BootstrapOptions {
  int resamples = 2000;  // > 0
  std::uint64_t seed = 1;
};

// The mean over strata of the statistic of each stratum,
//
//   v = 1/S sum_s stat(x_s),
//
// with the percentile bootstrap interval [Q(0.025), Q(0.975)] of v over
// resamples. A resample replaces every stratum by the same number of its own
// values, drawn with replacement. The strata themselves are fixed, so the
// interval is about the values within these strata (repeats), not about other
// strata (problems). With one stratum, this is the usual bootstrap. The
// interval is NaN if a stratum has fewer than two values. All three numbers are
// NaN if there are no strata, or if a stratum is empty or contains a NaN. The
// result is the same on every machine.
//
// Source: Efron and Tibshirani (1993), ch. 13; strata as in Agarwal et al.,
// "Deep reinforcement learning at the edge of the statistical precipice"
// (NeurIPS 2021), sec. 4.
// Note: percentile intervals are too short for small samples: for the mean of
// normal values they cover 84% instead of 95% with 5 values, 91% with 10 and
// 93% with 30.
[[nodiscard]] Estimate Bootstrap(const std::vector<std::vector<double>>& strata,
                                 Statistic statistic,
                                 const BootstrapOptions& options = {});

// This interval for any statistic of strata whose elements have several
// numbers, which are drawn together. A stratum may have one element.
using Strata = std::vector<std::vector<std::vector<double>>>;
[[nodiscard]] Estimate Bootstrap(
    const Strata& strata, const std::function<double(const Strata&)>& statistic,
    const BootstrapOptions& options = {});

// Paired differences: counts of the signs, effect sizes and two-sided p-values.
//
// The signed ranks are those of Pratt: |d| is ranked with zeros, equal values
// share the mean of their ranks, and then the zeros are dropped. With
// R+ and R- the sums of the ranks of positive and negative differences,
//
//   wilcoxon_p      P(|W - E W| >= |R+ - E W|), W the sum of ranks whose signs
//                   are fair coins: the exact distribution given the ranks
//                   (ties and zeros included) for at most kExactPairs nonzero
//                   differences, else the normal approximation with
//                   mean sum(r) / 2, variance sum(r^2) / 4 and a continuity
//                   correction of 1/2
//   sign_p          the binomial test of wins against losses, zeros dropped
//   rank_biserial   (R+ - R-) / (R+ + R-), in [-1, 1]; 0 if all are zero
//   superiority     P(d > 0) + P(d = 0) / 2, in [0, 1]
//
// If all differences are zero, both p-values are 1. Without pairs, all four
// numbers are NaN.
//
// Source: Wilcoxon (1945); Pratt (1959); Hollander and Wolfe (1999), ch. 3;
// Kerby (2014) for the rank-biserial correlation.
// Errors: throws std::invalid_argument for a NaN.
struct PairedTest {
  int pairs = 0;
  int wins = 0;    // d > 0
  int losses = 0;  // d < 0
  int ties = 0;    // d = 0
  double wilcoxon_p = std::numeric_limits<double>::quiet_NaN();
  double sign_p = std::numeric_limits<double>::quiet_NaN();
  double rank_biserial = std::numeric_limits<double>::quiet_NaN();
  double superiority = std::numeric_limits<double>::quiet_NaN();
};
inline constexpr int kExactPairs = 50;

[[nodiscard]] PairedTest TestPairs(const std::vector<double>& differences);

// The smallest two-sided p of a signed-rank or sign test of this many pairs,
// min(1, 2^(1 - pairs)), reached when all differences have the same sign. With
// 5 pairs it is above 0.05.
[[nodiscard]] double SmallestP(int pairs);

// Two-sided p-value of t = mean / (s / sqrt(n)) with n - 1 degrees of freedom;
// s is the standard deviation of the n values. NaN with fewer than two values,
// or if all are equal. With the mean difference of two methods on each of n
// problems, in balanced data, it is the test of the mixed-effects model
//
//   y_ijk = m_j + b_i + (mb)_ij + e_ijk
//
// of problems i, methods j and repeats k in which b, mb and e are random.
//
// Source: Abramowitz and Stegun (1964), 26.7.3 and 26.7.4.
[[nodiscard]] double StudentP(const std::vector<double>& values);
// P(|T| >= |t|) with this number of degrees of freedom, at least 1; and the t
// of which it is p.
[[nodiscard]] double StudentP(double t, int freedom);
[[nodiscard]] double StudentQuantile(double p, int freedom);

// Holm's adjusted p-values, in the given order: with p sorted ascending,
// max over j <= i of min(1, (m - j + 1) p_j). NaN stays NaN and does not count.
//
// Source: Holm (1979).
[[nodiscard]] std::vector<double> Holm(const std::vector<double>& p);

}  // namespace common
