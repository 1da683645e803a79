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

// The costs of every candidate after `change(training)`, over the predicted
// ones.
template <typename Change>
trials::SimulatedCosts RatiosAfter(const Change& change,
                                   const std::vector<SimulatedPart>& parts,
                                   const trials::SimulatedCosts& predicted) {
  const std::size_t size = predicted.step_time_s.size();
  const std::vector<double> unknown(size, std::nan(""));
  trials::SimulatedCosts ratios{unknown, unknown};
  for (const SimulatedPart& part : parts) {
    trials::SimulatedTraining training = part.training;
    change(training);
    part.Put(PredictCosts(training, common::Cores()), ratios);
  }
  for (std::size_t i = 0; i < size; ++i) {
    ratios.step_time_s[i] /= predicted.step_time_s[i];
    ratios.peak_memory_bytes[i] /= predicted.peak_memory_bytes[i];
  }
  return ratios;
}

// What the powers of one kind of links add to a step, from kSlowest on, in
// units of the predicted times.
using Added = std::vector<Eigen::ArrayXd>;

// `slowdown_of(factor)` simulates the steps. The time of what no computation
// hides is linear in 1 / bandwidth, and at a sixteenth of it little is still
// hidden.
template <typename SlowdownOfFactor>
Added AddedBy(const SlowdownOfFactor& slowdown_of) {
  const auto added = [&](int power) -> Eigen::ArrayXd {
    const std::vector<double> slowdown = slowdown_of(std::pow(kStep, power));
    return Eigen::Map<const Eigen::ArrayXd>(slowdown.data(),
                                            std::ssize(slowdown)) -
           1.0;
  };
  const Eigen::ArrayXd sixteenth = added(-2);
  const Eigen::ArrayXd quarter = added(-1);
  constexpr double kBeyond = (64.0 - 16.0) / (16.0 - 4.0);
  return {sixteenth + kBeyond * (sixteenth - quarter), sixteenth, quarter,
          Eigen::ArrayXd::Zero(quarter.size()), added(1)};
}

}  // namespace

void SimulatedPart::Put(const trials::SimulatedCosts& costs,
                        trials::SimulatedCosts& all) const {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto at = static_cast<std::size_t>(candidates[i]);
    all.step_time_s[at] = costs.step_time_s[i];
    all.peak_memory_bytes[at] = costs.peak_memory_bytes[i];
  }
}

std::vector<Predictions::Alternative> LinkAlternatives(
    const std::vector<SimulatedPart>& parts,
    const trials::SimulatedCosts& predicted, bool another_machine) {
  const auto size = std::ssize(predicted.step_time_s);
  const bool one_host =
      std::ranges::all_of(parts, [](const SimulatedPart& part) {
        return part.training.cluster.nodes == 1;
      });
  const auto slowdown_with = [&](double intra, double inter) {
    return RatiosAfter(
               [=](trials::SimulatedTraining& training) {
                 training.cluster =
                     WithBandwidths(std::move(training.cluster), intra, inter);
               },
               parts, predicted)
        .step_time_s;
  };
  const Added within =
      AddedBy([&](double factor) { return slowdown_with(factor, 1.0); });
  Added between;
  if (!one_host) {
    between =
        AddedBy([&](double factor) { return slowdown_with(1.0, factor); });
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

Predictions::Alternative OtherAttention(
    const std::vector<SimulatedPart>& parts,
    const trials::SimulatedCosts& predicted) {
  constexpr double kOdds = 0.1;
  std::string assumption;
  trials::SimulatedCosts ratios = RatiosAfter(
      [&](trials::SimulatedTraining& training) {
        training.framework = ForWorkload(training.framework, training.workload,
                                         training.cluster.gpu);
        assumption = ChangeAttention(training.framework);
      },
      parts, predicted);
  return {.assumption = std::move(assumption),
          .log_odds = std::log(kOdds),
          .slowdown = std::move(ratios.step_time_s),
          .memory = std::move(ratios.peak_memory_bytes)};
}

}  // namespace harness
