#include "trials/wrappers/noisy_runner.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace trials {
namespace {

void Require(bool condition, const char* what) {
  if (!condition) {
    throw std::invalid_argument(what);
  }
}

// The noise of one trial, step after step.
class StepNoise {
 public:
  StepNoise(const NoiseOptions& options, std::uint64_t seed)
      : options_(options),
        engine_(seed),
        correlation_(std::exp(-1.0 / options.drift_steps)),
        setup_factor_(std::exp(options.setup_jitter * Normal())),
        offset_(options.offset * Normal()),
        drift_(options.drift * Normal()) {}

  [[nodiscard]] double setup_factor() const { return setup_factor_; }

  // The time of the next step, `step_time_s` without noise.
  double Next(double step_time_s) {
    const double innovation =
        std::sqrt(1.0 - correlation_ * correlation_) * options_.drift;
    drift_ = correlation_ * drift_ + innovation * Normal();
    double time_s =
        step_time_s * std::exp(offset_ + drift_ + options_.jitter * Normal());
    // Drawn in every step, so that a step's noise does not depend on whether
    // an earlier one was an outlier.
    const double uniform = Uniform();
    const double excess = -std::log1p(-Uniform()) * options_.outlier_size;
    if (uniform < options_.outlier_probability) {
      time_s *= 1.0 + excess;
    }
    if (first_) {
      first_ = false;
      time_s += step_time_s * options_.first_step_share +
                options_.first_step_s *
                    std::exp(options_.first_step_spread * Normal());
    }
    return time_s;
  }

 private:
  double Normal() { return normal_(engine_); }
  double Uniform() { return uniform_(engine_); }

  NoiseOptions options_;
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double correlation_;
  double setup_factor_;  // drawn in this order
  double offset_;
  double drift_;
  bool first_ = true;
};

double Sum(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return sum;
}

}  // namespace

NoiseOptions Scaled(NoiseOptions options, double factor) {
  for (double NoiseOptions::*const spread :
       {&NoiseOptions::offset, &NoiseOptions::jitter, &NoiseOptions::drift,
        &NoiseOptions::outlier_size, &NoiseOptions::first_step_spread,
        &NoiseOptions::setup_jitter}) {
    options.*spread *= factor;
  }
  return options;
}

NoisyRunner::NoisyRunner(std::unique_ptr<TrialRunner> runner,
                         const NoiseOptions& options)
    : runner_(std::move(runner)), options_(options) {
  Require(options.offset >= 0.0, "noise: offset must not be negative");
  Require(options.jitter >= 0.0, "noise: jitter must not be negative");
  Require(options.drift >= 0.0, "noise: drift must not be negative");
  Require(options.drift_steps > 0.0, "noise: drift_steps must be positive");
  Require(
      options.outlier_probability >= 0.0 && options.outlier_probability <= 1.0,
      "noise: outlier_probability must be in [0, 1]");
  Require(options.outlier_size >= 0.0,
          "noise: outlier_size must not be negative");
  Require(options.first_step_share >= 0.0 && options.first_step_s >= 0.0 &&
              options.first_step_spread >= 0.0,
          "noise: the first step's options must not be negative");
  Require(options.setup_jitter >= 0.0,
          "noise: setup_jitter must not be negative");
}

Measurement NoisyRunner::Run(const TrialRequest& request) {
  StepNoise noise(options_, request.seed);
  std::vector<double> noisy;
  TrialRequest inner = request;
  inner.on_step = [&](double step_time_s) {
    noisy.push_back(noise.Next(step_time_s));
    return !request.on_step || request.on_step(noisy.back());
  };
  Measurement measurement = runner_->Run(inner);
  const double rest_s = measurement.duration_s - measurement.setup_s -
                        Sum(measurement.step_times_s);
  measurement.setup_s *= noise.setup_factor();
  measurement.duration_s = measurement.setup_s + Sum(noisy) + rest_s;
  measurement.step_times_s = std::move(noisy);
  return measurement;
}

std::optional<double> NoisyRunner::ExactThroughput(
    const Candidate& candidate) const {
  return runner_->ExactThroughput(candidate);
}

}  // namespace trials
