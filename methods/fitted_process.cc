#include "methods/fitted_process.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/quantiles.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/shared_scale.h"
#include "surrogates/gp/bounds.h"

namespace methods {

FittedProcess::FittedProcess(const surrogates::EncodedSpace& space,
                             surrogates::ParametricMean prior,
                             const Options& options)
    : prior_(std::move(prior)),
      options_(options),
      process_(space, prior_, options.fit) {}

void FittedProcess::SetPriors(const FitInput& input) {
  const Eigen::VectorXd& values = input.observations.value;
  if (prior_.shared_scale) {
    std::vector<int> at_most_one;
    for (const surrogates::Bound& bound : input.bounds) {
      if (!bound.at_least) {
        at_most_one.push_back(bound.candidate);
      }
    }
    process_.SetLogCenters(surrogates::CentersAtScale(
        prior_,
        surrogates::MatchSharedScale(prior_, input.observations, at_most_one)));
  } else if (options_.centers_follow_median && values.size() > 0) {
    process_.SetLogCenters(surrogates::CentersFor(
        prior_, common::UpperMedian({values.begin(), values.end()})));
  }
}

bool FittedProcess::Extends(
    const surrogates::Observations& observations) const {
  const int old = known_.size();
  return old < observations.size() &&
         std::equal(known_.candidate.begin(), known_.candidate.end(),
                    observations.candidate.begin()) &&
         known_.value == observations.value.head(old) &&
         known_.noise_variance == observations.noise_variance.head(old);
}

surrogates::FitSummary FittedProcess::FitToSome(
    const surrogates::Observations& observations) {
  const int n = observations.size();
  const int most = options_.most_fitted;
  if (n <= most) {
    return process_.Fit(observations);
  }
  std::vector<int> chosen;  // the first and the last among them
  surrogates::Observations some;
  for (int i = 0; i < most; ++i) {
    chosen.push_back(
        static_cast<int>(static_cast<std::int64_t>(i) * (n - 1) / (most - 1)));
    some.candidate.push_back(observations.candidate[chosen.back()]);
  }
  some.value = observations.value(chosen);
  some.noise_variance = observations.noise_variance(chosen);
  surrogates::FitSummary fit = process_.Fit(some);
  surrogates::FitSummary all =
      process_.Condition(observations, process_.hyperparameters());
  fit.parameters = std::move(all.parameters);
  fit.log_posterior = all.log_posterior;
  return fit;
}

surrogates::FitSummary FittedProcess::Fit(const FitInput& input) {
  SetPriors(input);
  surrogates::Observations observations = input.observations;
  if (input.offset.size() > 0) {
    observations.value -= input.offset;
  }
  // What stands for a bound depends on all other observations.
  const bool bounded = prior_.logarithmic() && !input.bounds.empty();
  const int n = observations.size() +
                (bounded ? static_cast<int>(input.bounds.size()) : 0);
  const bool recent = fitted_ >= options_.refit_every_trial_until &&
                      n < (1.0 + options_.refit_growth) * fitted_;
  const auto fit = [&] {
    return recent && bounded
               ? process_.Condition(observations, process_.hyperparameters())
               : FitToSome(observations);
  };
  if (bounded) {
    (void)fit();
    observations =
        surrogates::WithBounds(process_, std::move(observations), input.bounds);
  }
  const int old = known_.size();
  const bool appends = recent && !bounded && Extends(observations);
  known_ = observations;
  if (!appends) {
    fitted_ = recent && bounded ? fitted_ : n;
    return fit();
  }
  surrogates::FitSummary summary;
  for (int i = old; i < n; ++i) {
    summary = process_.Append(observations.candidate[i], observations.value[i],
                              observations.noise_variance[i]);
  }
  return summary;
}

}  // namespace methods
