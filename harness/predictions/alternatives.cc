#include "harness/predictions/alternatives.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include <Eigen/Core>
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
constexpr int kMostPairs = 100'000;
constexpr double kLeastSlowdown = 0.1;

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

// "links within hosts x 0.25"; not both powers are 0.
std::string Assumption(int intra, int inter) {
  if (inter == 0) {
    return fmt::format("links within hosts x {:g}", std::pow(kStep, intra));
  }
  if (intra == 0) {
    return fmt::format("links between hosts x {:g}", std::pow(kStep, inter));
  }
  return fmt::format("links within hosts x {:g} and between hosts x {:g}",
                     std::pow(kStep, intra), std::pow(kStep, inter));
}

// The step times with links of other bandwidths.
Eigen::ArrayXd TimesOf(const std::vector<SimulatedPart>& parts,
                       Eigen::Index size, double intra, double inter) {
  Eigen::ArrayXd times_s = Eigen::ArrayXd::Constant(size, std::nan(""));
  for (const SimulatedPart& part : parts) {
    trials::SimulatedTraining training = part.training;
    training.cluster =
        WithBandwidths(std::move(training.cluster), intra, inter);
    const trials::SimulatedCosts costs =
        PredictCosts(training, common::Cores());
    for (std::size_t i = 0; i < part.candidates.size(); ++i) {
      times_s[part.candidates[i]] = costs.step_time_s[i];
    }
  }
  return times_s;
}

// What the powers of one kind of links add to a step, from kSlowest on, in
// units of the predicted times.
using Added = std::vector<Eigen::ArrayXd>;

// `times_of(factor)` simulates the steps. The time of what no computation hides
// is linear in 1 / bandwidth, and at a sixteenth of it little is still hidden.
template <typename TimesOfFactor>
Added AddedBy(const Eigen::ArrayXd& predicted_s,
              const TimesOfFactor& times_of) {
  const auto added = [&](int power) -> Eigen::ArrayXd {
    return times_of(std::pow(kStep, power)) / predicted_s - 1.0;
  };
  const Eigen::ArrayXd sixteenth = added(-2);
  const Eigen::ArrayXd quarter = added(-1);
  constexpr double kBeyond = (64.0 - 16.0) / (16.0 - 4.0);
  return {sixteenth + kBeyond * (sixteenth - quarter), sixteenth, quarter,
          Eigen::ArrayXd::Zero(predicted_s.size()), added(1)};
}

}  // namespace

std::vector<Predictions::Alternative> LinkAlternatives(
    const std::vector<SimulatedPart>& parts,
    const std::vector<double>& step_time_s, bool another_machine) {
  const Eigen::ArrayXd predicted_s = Eigen::Map<const Eigen::ArrayXd>(
      step_time_s.data(), std::ssize(step_time_s));
  const Eigen::Index size = predicted_s.size();
  const bool one_host =
      std::ranges::all_of(parts, [](const SimulatedPart& part) {
        return part.training.cluster.nodes == 1;
      });
  const Added within = AddedBy(predicted_s, [&](double factor) {
    return TimesOf(parts, size, factor, 1.0);
  });
  Added between;
  if (!one_host) {
    between = AddedBy(predicted_s, [&](double factor) {
      return TimesOf(parts, size, 1.0, factor);
    });
  }
  std::vector<Predictions::Alternative> alternatives;
  for (int i = kSlowest; i <= kFastest; ++i) {
    for (int j = one_host ? 0 : kSlowest; j <= (one_host ? 0 : kFastest); ++j) {
      const bool both = i != 0 && j != 0;
      if ((i == 0 && j == 0) || (both && size > kMostPairs)) {
        continue;
      }
      Predictions::Alternative& alternative = alternatives.emplace_back();
      alternative.assumption = Assumption(i, j);
      alternative.log_odds =
          LogOdds(i, another_machine) + LogOdds(j, another_machine);
      Eigen::ArrayXd slowdown = 1.0 + within[i - kSlowest];
      if (!one_host) {
        slowdown += between[j - kSlowest];
      }
      slowdown = (slowdown < kLeastSlowdown).select(kLeastSlowdown, slowdown);
      alternative.slowdown.assign(slowdown.begin(), slowdown.end());
    }
  }
  return alternatives;
}

}  // namespace harness
