#include "harness/predictions/link_rates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "common/parallel.h"
#include "common/statistics.h"
#include "trials/cluster.h"

namespace harness {
namespace {

using trials::Predictions;

constexpr double kStep = 4.0;  // of bandwidths
constexpr int kSlowest = -3;   // powers of kStep
constexpr int kFastest = 1;
constexpr double kDescribedStddev = 0.5;  // of logarithms
constexpr double kMistaken = 0.1;         // share of described machines
// Candidates up to which both kinds of links differ together.
constexpr int kMostPairs = 20'000;

// log(P(power) / P(0)).
double LogOdds(int power, bool another_machine) {
  const double wide = std::log(kStep);
  const auto density = [&](double b) {
    const double other = common::NormalDensity(b / wide) / wide;
    const double described =
        common::NormalDensity(b / kDescribedStddev) / kDescribedStddev;
    return another_machine ? other
                           : (1.0 - kMistaken) * described + kMistaken * other;
  };
  return std::log(density(power * wide) / density(0.0));
}

std::vector<double> TimesOf(const std::vector<SimulatedPart>& parts, int size,
                            double intra, double inter) {
  std::vector<double> times_s(static_cast<std::size_t>(size), std::nan(""));
  for (const SimulatedPart& part : parts) {
    trials::SimulatedTraining training = part.training;
    training.cluster =
        WithBandwidths(std::move(training.cluster), intra, inter);
    const trials::SimulatedCosts costs =
        PredictCosts(training, common::Cores());
    for (std::size_t i = 0; i < part.candidates.size(); ++i) {
      times_s[static_cast<std::size_t>(part.candidates[i])] =
          costs.step_time_s[i];
    }
  }
  return times_s;
}

}  // namespace

std::vector<Predictions::Alternative> LinkAlternatives(
    const std::vector<SimulatedPart>& parts, int size, bool another_machine) {
  const bool one_host =
      std::ranges::all_of(parts, [](const SimulatedPart& part) {
        return part.training.cluster.nodes == 1;
      });
  const std::vector<double> predicted_s = TimesOf(parts, size, 1.0, 1.0);
  std::vector<Predictions::Alternative> alternatives;
  for (int i = kSlowest; i <= kFastest; ++i) {
    for (int j = kSlowest; j <= kFastest; ++j) {
      const bool both = i != 0 && j != 0;
      if ((i == 0 && j == 0) || (one_host && j != 0) ||
          (both && size > kMostPairs)) {
        continue;
      }
      const double intra = std::pow(kStep, i);
      const double inter = std::pow(kStep, j);
      Predictions::Alternative alternative{
          .log_odds = LogOdds(i, another_machine) + LogOdds(j, another_machine),
          .slowdown = TimesOf(parts, size, intra, inter)};
      alternative.assumption =
          both ? fmt::format(
                     "links within hosts x {:g} and between hosts x "
                     "{:g}",
                     intra, inter)
          : i != 0 ? fmt::format("links within hosts x {:g}", intra)
                   : fmt::format("links between hosts x {:g}", inter);
      for (std::size_t c = 0; c < predicted_s.size(); ++c) {
        alternative.slowdown[c] /= predicted_s[c];
      }
      alternatives.push_back(std::move(alternative));
    }
  }
  return alternatives;
}

}  // namespace harness
