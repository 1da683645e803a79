#include "jobs/tune/loss_change.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/statistics.h"

namespace jobs {
namespace {

using trials::LossCurve;

// By step, the mean over the rounds, of steps that all of them have.
LossCurve MeanOf(const std::vector<LossCurve>& rounds) {
  LossCurve mean;
  for (const auto& [step, first] : rounds.front()) {
    double sum = 0.0;
    bool all = true;
    for (const LossCurve& round : rounds) {
      const auto found = round.find(step);
      all = all && found != round.end();
      sum += all ? found->second : 0.0;
    }
    if (all) {
      mean[step] = sum / static_cast<double>(rounds.size());
    }
  }
  return mean;
}

struct Pair {
  std::vector<double> other;
  std::vector<double> present;
};

// The losses of the steps in both, of which `other` has each `lag` later.
Pair Common(const LossCurve& other, const LossCurve& present, int lag) {
  Pair pair;
  for (const auto& [step, loss] : present) {
    const auto found = other.find(step + lag);
    if (found != other.end()) {
      pair.present.push_back(loss);
      pair.other.push_back(found->second);
    }
  }
  return pair;
}

// l_k - (l_(k-1) + l_(k+1)) / 2 of independent deviations s has 3/2 s^2.
double DeviationOfSteps(const std::vector<double>& losses) {
  double squares = 0.0;
  for (std::size_t k = 1; k + 1 < losses.size(); ++k) {
    const double rest = losses[k] - 0.5 * (losses[k - 1] + losses[k + 1]);
    squares += rest * rest;
  }
  return std::sqrt(squares / (1.5 * static_cast<double>(losses.size() - 2)));
}

double DeviationOfRounds(const std::vector<LossCurve>& rounds,
                         const LossCurve& mean) {
  std::vector<double> means;
  for (const LossCurve& round : rounds) {
    means.push_back(common::Mean(Common(round, mean, 0).other));
  }
  return std::sqrt(common::Variance(means));
}

}  // namespace

bool LossChange::Moved() const {
  constexpr double kCertain = 3.0;
  constexpr double kSixteenBits = 1.0 / 256.0;
  return apart > std::max(kCertain * noise, kSixteenBits * std::abs(present));
}

std::optional<LossChange> CompareLosses(const std::vector<LossCurve>& other,
                                        const std::vector<LossCurve>& present) {
  constexpr int kFewest = 4;
  if (other.empty() || present.empty()) {
    return std::nullopt;
  }
  const LossCurve mean_of_other = MeanOf(other);
  const LossCurve mean_of_present = MeanOf(present);
  std::optional<LossChange> change;
  for (const int lag : {0, -1, 1}) {
    const Pair pair = Common(mean_of_other, mean_of_present, lag);
    const auto n = static_cast<double>(pair.present.size());
    if (n < kFewest) {
      continue;
    }
    const double loss = common::Mean(pair.other);
    const double own = common::Mean(pair.present);
    if (!change) {
      const double rounds = 1.0 / static_cast<double>(present.size()) +
                            1.0 / static_cast<double>(other.size());
      change = {
          .steps = static_cast<int>(n),
          .loss = loss,
          .present = own,
          .noise = std::max(
              DeviationOfSteps(pair.present) * std::sqrt(2.0 / n),
              DeviationOfRounds(present, mean_of_present) * std::sqrt(rounds)),
          .apart = std::abs(loss - own)};
    }
    change->apart = std::min(change->apart, std::abs(loss - own));
  }
  return change;
}

std::string ToString(const LossChange& change) {
  return fmt::format(
      "changes more than speed: loss {:.4g}, yours {:.4g} (mean of {} steps, "
      "noise {:.1g})",
      change.loss, change.present, change.steps, change.noise);
}

}  // namespace jobs
