#include "common/statistics.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <stdexcept>

#include "common/quantiles.h"
#include "common/ranges.h"

namespace common {
namespace {

bool AnyNan(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double v) { return std::isnan(v); });
}

double Of(Statistic statistic, const std::vector<double>& values) {
  return statistic == Statistic::kMean ? Mean(values) : Median(values);
}

// A uniform index in [0, n). The distributions of the standard library differ
// between implementations; the engine does not.
std::size_t Index(std::mt19937_64& engine, std::size_t n) {
  return static_cast<std::size_t>(((engine() >> 32U) * n) >> 32U);
}

template <typename Strata, typename OfStrata>
Estimate Resample(const Strata& strata, const OfStrata& statistic,
                  const BootstrapOptions& options) {
  Estimate estimate{.value = statistic(strata)};
  std::mt19937_64 engine(options.seed);
  std::vector<double> resampled(options.resamples);
  Strata drawn = strata;
  for (double& value : resampled) {
    for (std::size_t s = 0; s < strata.size(); ++s) {
      for (auto& one : drawn[s]) {
        one = strata[s][Index(engine, strata[s].size())];
      }
    }
    value = statistic(drawn);
  }
  std::ranges::sort(resampled);
  estimate.low = SortedQuantile(resampled, 0.025);
  estimate.high = SortedQuantile(resampled, 0.975);
  return estimate;
}

// Ranks of |d|, doubled so that mean ranks of ties are integers.
std::vector<int> DoubledRanks(std::vector<double> d) {
  std::transform(d.begin(), d.end(), d.begin(),
                 [](double v) { return std::abs(v); });
  return Map(Ranks(d),
             [](double rank) { return static_cast<int>(2.0 * rank); });
}

// P(W <= w) where W is the sum of the ranks that fair coins pick.
double ExactLowerTail(const std::vector<int>& ranks, int w) {
  const int total = std::accumulate(ranks.begin(), ranks.end(), 0);
  std::vector<double> p(static_cast<std::size_t>(total) + 1, 0.0);
  p[0] = 1.0;
  int reached = 0;
  for (const int rank : ranks) {
    reached += rank;
    for (int sum = reached; sum >= 0; --sum) {
      const auto i = static_cast<std::size_t>(sum);
      p[i] = 0.5 *
             (p[i] + (sum >= rank ? p[i - static_cast<std::size_t>(rank)] : 0));
    }
  }
  return std::accumulate(p.begin(), p.begin() + w + 1, 0.0);
}

// This probability by the normal approximation; ranks are doubled.
double NormalLowerTail(const std::vector<int>& ranks, int w) {
  double mean = 0.0;
  double variance = 0.0;
  for (const int rank : ranks) {
    mean += 0.25 * rank;
    variance += 0.0625 * rank * rank;
  }
  const double z = (0.5 * w - mean + 0.5) / std::sqrt(variance);
  return NormalProbability(z);
}

// P(X <= k) of n fair coins.
double BinomialLowerTail(int n, int k) {
  double sum = 0.0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(std::lgamma(n + 1.0) - std::lgamma(i + 1.0) -
                    std::lgamma(n - i + 1.0) - n * std::log(2.0));
  }
  return sum;
}

}  // namespace

double Mean(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

double Variance(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  const double mean = Mean(values);
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
  }
  return sum / static_cast<double>(values.size() - 1);
}

std::vector<double> Ranks(const std::vector<double>& values) {
  auto order = Indices<std::size_t>(values.size());
  std::ranges::stable_sort(
      order, [&](auto a, auto b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    const double rank = (static_cast<double>(begin + end) + 1.0) / 2.0;
    for (; begin < end; ++begin) {
      ranks[order[begin]] = rank;
    }
  }
  return ranks;
}

Estimate Bootstrap(const std::vector<std::vector<double>>& strata,
                   Statistic statistic, const BootstrapOptions& options) {
  Estimate estimate;
  bool enough = true;
  std::vector<double> values;
  for (const std::vector<double>& stratum : strata) {
    if (stratum.empty() || AnyNan(stratum)) {
      return estimate;
    }
    enough = enough && stratum.size() > 1;
    values.push_back(Of(statistic, stratum));
  }
  estimate.value = Mean(values);
  if (!enough || strata.empty()) {
    return estimate;
  }
  return Resample(
      strata,
      [&](const auto& drawn) {
        for (std::size_t s = 0; s < drawn.size(); ++s) {
          values[s] = Of(statistic, drawn[s]);
        }
        return Mean(values);
      },
      options);
}

Estimate Bootstrap(const Strata& strata,
                   const std::function<double(const Strata&)>& statistic,
                   const BootstrapOptions& options) {
  return Resample(strata, statistic, options);
}

PairedTest TestPairs(const std::vector<double>& differences) {
  if (AnyNan(differences)) {
    throw std::invalid_argument("a paired difference is NaN");
  }
  PairedTest test;
  std::vector<int> ranks;
  int positive = 0;
  int negative = 0;
  const std::vector<int> all = DoubledRanks(differences);
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const double d = differences[i];
    ++test.pairs;
    if (d == 0.0) {
      ++test.ties;
      continue;
    }
    ranks.push_back(all[i]);
    (d > 0.0 ? test.wins : test.losses) += 1;
    (d > 0.0 ? positive : negative) += all[i];
  }
  if (test.pairs == 0) {
    return test;
  }
  test.superiority = (test.wins + 0.5 * test.ties) / test.pairs;
  if (ranks.empty()) {
    test.wilcoxon_p = test.sign_p = 1.0;
    test.rank_biserial = 0.0;
    return test;
  }
  test.rank_biserial =
      static_cast<double>(positive - negative) / (positive + negative);
  const int smaller = std::min(positive, negative);
  const double tail = static_cast<int>(ranks.size()) <= kExactPairs
                          ? ExactLowerTail(ranks, smaller)
                          : NormalLowerTail(ranks, smaller);
  test.wilcoxon_p = std::min(1.0, 2.0 * tail);
  test.sign_p =
      std::min(1.0, 2.0 * BinomialLowerTail(test.wins + test.losses,
                                            std::min(test.wins, test.losses)));
  return test;
}

double SmallestP(int pairs) { return std::min(1.0, std::ldexp(2.0, -pairs)); }

double StudentP(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  if (n < 2 || squares == 0.0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return StudentP(mean / std::sqrt(squares / (n - 1) / n),
                  static_cast<int>(values.size()) - 1);
}

double StudentP(double t, int freedom) {
  const double angle = std::atan(std::abs(t) / std::sqrt(freedom));
  // P(|T| < t) is a sum of powers of the cosine: even ones for an even number
  // of degrees of freedom, odd ones otherwise.
  const bool odd = freedom % 2 == 1;
  double term = odd ? std::cos(angle) : 1.0;
  double sum = 0.0;
  for (int k = odd ? 2 : 1; k < freedom; k += 2) {
    sum += term;
    term *= static_cast<double>(k) / (k + 1.0) * std::pow(std::cos(angle), 2);
  }
  sum *= std::sin(angle);
  return 1.0 - (odd ? (angle + sum) * 2.0 * std::numbers::inv_pi : sum);
}

double StudentQuantile(double p, int freedom) {
  double low = 0.0;
  double high = 1.0;
  while (StudentP(high, freedom) > p) {
    high *= 2.0;
  }
  constexpr int kBits = 60;
  for (int i = 0; i < kBits; ++i) {
    const double middle = 0.5 * (low + high);
    (StudentP(middle, freedom) > p ? low : high) = middle;
  }
  return high;
}

std::vector<double> Holm(const std::vector<double>& p) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!std::isnan(p[i])) {
      order.push_back(i);
    }
  }
  std::ranges::sort(order,
                    [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted = p;
  double largest = 0.0;
  for (std::size_t j = 0; j < order.size(); ++j) {
    const double value = static_cast<double>(order.size() - j) * p[order[j]];
    largest = std::max(largest, std::min(1.0, value));
    adjusted[order[j]] = largest;
  }
  return adjusted;
}

}  // namespace common
