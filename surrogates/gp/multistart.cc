#include "surrogates/gp/multistart.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

#include "common/parallel.h"
#include "common/quantiles.h"
#include "common/ranges.h"

namespace surrogates {
namespace {

// Limit of the deviation of a draw: further out the mean is constant or wild,
// and every such start ends in the same place.
constexpr double kWidestDraw = 1.5;

double Median(const Eigen::VectorXd& values) {
  return common::Median({values.begin(), values.end()});
}

double Mode(const LogNormalPrior& prior) {
  return prior.log_center -
         (prior.density_in_x ? prior.log_stddev * prior.log_stddev : 0.0);
}

// Multiplies all coefficients so that the median of the mean is the data's. Not
// those of a mean of logarithms, which starts near the data.
void MatchMedian(const ParametricMean& mean, const Observations& observations,
                 Hyperparameters& start) {
  if (mean.logarithmic()) {
    return;
  }
  Eigen::VectorXd values;
  mean.Evaluate(observations.candidate, start.log_coefficients, values,
                nullptr);
  const double ratio = Median(observations.value) / Median(values);
  if (!(ratio > 0.0) || !std::isfinite(ratio)) {
    return;
  }
  const double sign = mean.link == ParametricMean::Link::kInverse ? -1.0 : 1.0;
  start.log_coefficients.array() += sign * std::log(ratio);
}

}  // namespace

double TargetSpread(const Eigen::VectorXd& values) {
  if (values.size() == 0) {
    return 1.0;
  }
  const double median = Median(values);
  const double magnitude = median != 0.0 ? std::abs(median) : 1.0;
  if (values.size() == 1) {
    return magnitude;
  }
  constexpr double kNormal = 1.4826;  // MAD of N(0, 1) is 1 / 1.4826
  const double mad = Median((values.array() - median).abs().matrix());
  const double variance = (values.array() - values.mean()).square().sum() /
                          static_cast<double>(values.size() - 1);
  const double spread = std::max(kNormal * mad, 0.5 * std::sqrt(variance));
  // Equal but for rounding is equal.
  return spread > 1e-9 * magnitude ? spread : magnitude;
}

Hyperparameters PriorModes(const ParametricMean& mean,
                           const KernelPriors& priors, int dimensions) {
  Hyperparameters modes;
  modes.log_length_scales.setConstant(dimensions, Mode(priors.length_scale));
  modes.log_signal_variance = Mode(priors.signal_variance);
  modes.log_nugget_variance = Mode(priors.nugget_variance);
  modes.log_family_variance = Mode(priors.family_variance);
  modes.log_coefficients.resize(mean.size());
  for (Eigen::Index j = 0; j < mean.size(); ++j) {
    modes.log_coefficients[j] = mean.coefficients[j].log_center;
  }
  return modes;
}

std::vector<Hyperparameters> StartingPoints(const ParametricMean& mean,
                                            const KernelPriors& priors,
                                            const Observations& observations,
                                            int dimensions, int count,
                                            std::uint64_t seed) {
  const Hyperparameters modes = PriorModes(mean, priors, dimensions);
  std::vector<Hyperparameters> starts = {modes};
  std::seed_seq sequence{static_cast<std::uint32_t>(seed),
                         static_cast<std::uint32_t>(seed >> 32),
                         static_cast<std::uint32_t>(observations.size())};
  std::mt19937_64 engine(sequence);
  std::normal_distribution<double> normal;
  while (static_cast<int>(starts.size()) < count) {
    Hyperparameters start = modes;
    for (double& value : start.log_length_scales) {
      value += priors.length_scale.log_stddev * normal(engine);
    }
    start.log_signal_variance +=
        priors.signal_variance.log_stddev * normal(engine);
    start.log_nugget_variance +=
        priors.nugget_variance.log_stddev * normal(engine);
    for (Eigen::Index j = 0; j < mean.size(); ++j) {
      const double stddev = mean.coefficients[j].log_stddev;
      start.log_coefficients[j] +=
          std::min(stddev, kWidestDraw) * normal(engine);
    }
    if (observations.size() > 0) {
      MatchMedian(mean, observations, start);
    }
    starts.push_back(std::move(start));
  }
  return starts;
}

HyperparameterFit MaximiseOverStarts(const Likelihood& likelihood,
                                     const std::vector<Hyperparameters>& starts,
                                     const HyperparameterBox& box,
                                     const FitOptions& options) {
  if (starts.empty()) {
    throw std::invalid_argument("MaximiseOverStarts: no start");
  }
  const int count = static_cast<int>(starts.size());
  const int workers = std::min(options.threads, count);
  // An evaluation keeps buffers, so each worker has its own copy.
  std::vector<Likelihood> copies(workers, likelihood);
  std::vector<Minimum> searches(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    searches[i].x = likelihood.Pack(starts[i]);
  }
  std::vector<int> order = common::Indices(starts.size());
  const auto advance = [&](int starts_left, int evaluations) {
    common::ParallelFor(starts_left, workers, [&](int worker, int place) {
      Likelihood& copy = copies[worker];
      const Objective objective = [&](const Eigen::VectorXd& x,
                                      Eigen::VectorXd* gradient) {
        const double value = -copy.Evaluate(x, gradient);
        *gradient = -*gradient;
        return value;
      };
      Minimum& search = searches[order[place]];
      const int before = search.evaluations;
      search = Minimize(objective, search.x, box.lower, box.upper, evaluations,
                        options.minimizer);
      search.evaluations += before;
    });
    // Stable: the first of equals stays in front.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return searches[a].value < searches[b].value;
    });
  };
  advance(count,
          std::min(options.screening_evaluations, options.max_evaluations));
  if (options.max_evaluations > options.screening_evaluations) {
    advance(std::min(options.survivors, count),
            options.max_evaluations - options.screening_evaluations);
  }

  const Minimum& best = searches[order.front()];
  HyperparameterFit fit{.best = likelihood.Unpack(best.x),
                        .log_posterior = -best.value,
                        .converged = best.converged};
  for (const Minimum& search : searches) {
    fit.evaluations += search.evaluations;
  }
  for (const Likelihood& copy : copies) {
    fit.jitter_retries += copy.jitter_retries();
  }
  return fit;
}

}  // namespace surrogates
