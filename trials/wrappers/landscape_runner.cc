#include "trials/wrappers/landscape_runner.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"

namespace trials {
namespace {

// A standard normal number from 64 random bits (Box and Muller).
double Normal(std::uint64_t bits) {
  constexpr double kUnit = 1.0 / 4294967296.0;  // 2^-32
  const double u = (static_cast<double>(bits >> 32U) + 0.5) * kUnit;
  const double v = static_cast<double>(bits & 0xffffffffU) * kUnit;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace

Landscape::Landscape(const LandscapeOptions& options,
                     std::span<const ParallelConfig> configs)
    : options_(options) {
  for (const Knob& knob : BuiltInKnobs()) {
    if (std::ranges::any_of(configs, [&](const auto& config) {
          return knob.Get(config) != knob.Get(configs.front());
        })) {
      knobs_.push_back(knob);
    }
  }
  for (std::size_t b = 1; b < knobs_.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      pair_seeds_.push_back(common::DeriveSeed(
          fmt::format("landscape/{}/{}", knobs_[a].name, knobs_[b].name),
          options.seed));
    }
  }
  double sum = 0.0;
  double squares = 0.0;
  for (const ParallelConfig& config : configs) {
    const double z = PairSum(config);
    sum += z;
    squares += z * z;
  }
  const auto n = static_cast<double>(std::max<std::size_t>(configs.size(), 1));
  mean_ = sum / n;
  const double variance = squares / n - mean_ * mean_;
  deviation_ = variance > 0.0 ? std::sqrt(variance) : 1.0;
}

double Landscape::PairSum(const ParallelConfig& canonical) const {
  double sum = 0.0;
  const std::uint64_t* seed = pair_seeds_.data();
  for (std::size_t b = 1; b < knobs_.size(); ++b) {
    const auto value_b = static_cast<std::uint64_t>(knobs_[b].Get(canonical))
                         << 32U;
    for (std::size_t a = 0; a < b; ++a, ++seed) {
      const auto value_a = static_cast<std::uint64_t>(knobs_[a].Get(canonical));
      sum += Normal(common::DeriveSeed("", *seed ^ (value_a | value_b)));
    }
  }
  return sum;
}

double Landscape::TimeFactor(const ParallelConfig& config) const {
  const ParallelConfig canonical = Canonical(config);
  const double z = (PairSum(canonical) - mean_) / deviation_;
  const double e = Normal(
      common::DeriveSeed("landscape/" + ToString(canonical), options_.seed));
  return std::exp(options_.pairs * z + options_.independent * e);
}

LandscapeRunner::LandscapeRunner(std::unique_ptr<TrialRunner> runner,
                                 std::shared_ptr<const Landscape> landscape)
    : runner_(std::move(runner)), landscape_(std::move(landscape)) {}

Measurement LandscapeRunner::Run(const TrialRequest& request) {
  request.candidate.RejectPlan("simulator with a landscape");
  const double factor = landscape_->TimeFactor(request.candidate.config());
  TrialRequest inner = request;
  if (request.on_step) {
    inner.on_step = [&](double step_time_s) {
      return request.on_step(step_time_s * factor);
    };
  }
  Measurement measurement = runner_->Run(inner);
  for (double& step_time_s : measurement.step_times_s) {
    measurement.duration_s += (factor - 1.0) * step_time_s;
    step_time_s *= factor;
  }
  return measurement;
}

std::optional<double> LandscapeRunner::ExactThroughput(
    const Candidate& candidate) const {
  std::optional<double> exact = runner_->ExactThroughput(candidate);
  if (exact) {
    *exact /= landscape_->TimeFactor(candidate.config());
  }
  return exact;
}

}  // namespace trials
