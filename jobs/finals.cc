#include "jobs/finals.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace jobs {
namespace {

// The unbiased variance; 0 of fewer than two values.
double Variance(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  const double mean = common::Mean(values);
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - mean) * (value - mean);
  }
  return sum / static_cast<double>(values.size() - 1);
}

}  // namespace

bool HasSteps(const Finalist& finalist) {
  return std::any_of(finalist.rounds.begin(), finalist.rounds.end(),
                     [](const auto& round) { return !round.empty(); });
}

StepTime MeanStepTime(const Finalist& finalist) {
  std::vector<double> steps;
  std::vector<double> means;
  for (const std::vector<double>& round : finalist.rounds) {
    if (!round.empty()) {
      steps.insert(steps.end(), round.begin(), round.end());
      means.push_back(common::Mean(round));
    }
  }
  if (steps.empty()) {
    throw std::invalid_argument(finalist.config + " ran no step");
  }
  const double of_steps = Variance(steps) / static_cast<double>(steps.size());
  const double of_rounds = Variance(means) / static_cast<double>(means.size());
  return {common::Mean(steps), std::sqrt(std::max(of_steps, of_rounds)),
          static_cast<int>(steps.size())};
}

SpeedUp Compare(const StepTime& a, const StepTime& b) {
  constexpr double kQuantile = 1.96;
  const double log_factor = std::log(b.mean_s / a.mean_s);
  const double error =
      std::hypot(a.standard_error_s / a.mean_s, b.standard_error_s / b.mean_s);
  SpeedUp result;
  result.factor = {std::exp(log_factor),
                   std::exp(log_factor - kQuantile * error),
                   std::exp(log_factor + kQuantile * error)};
  result.p =
      error > 0.0
          ? 2.0 * common::NormalProbability(-std::abs(log_factor) / error)
          : (log_factor == 0.0 ? 1.0 : 0.0);
  return result;
}

bool Contends(const Finalist& finalist, const std::vector<Finalist>& all,
              std::size_t rounds) {
  constexpr double kClear = 1.05;
  const auto so_far = [rounds](Finalist one) {
    one.rounds.resize(std::min(rounds, one.rounds.size()));
    return one;
  };
  const Finalist own = so_far(finalist);
  if (own.config == kYours || !HasSteps(own)) {
    return true;
  }
  const StepTime time = MeanStepTime(own);
  return std::none_of(all.begin(), all.end(), [&](const Finalist& each) {
    const Finalist other = so_far(each);
    return HasSteps(other) &&
           Compare(MeanStepTime(other), time).factor.low > kClear;
  });
}

std::string ToString(const SpeedUp& speed_up) {
  return fmt::format("{:.2f} times [{:.2f}, {:.2f}]", speed_up.factor.value,
                     speed_up.factor.low, speed_up.factor.high);
}

}  // namespace jobs
