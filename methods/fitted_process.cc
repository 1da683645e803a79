#include "methods/fitted_process.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "common/quantiles.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/shared_scale.h"
#include "surrogates/gp/bounds.h"

namespace methods {
namespace {

std::vector<int> AllOf(int n) {
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// At most `most` of them, the first and the last among them.
std::vector<int> EvenlySpaced(const std::vector<int>& all, int most) {
  const auto n = static_cast<std::int64_t>(all.size());
  if (n <= most) {
    return all;
  }
  std::vector<int> some;
  for (int i = 0; i < most; ++i) {
    some.push_back(all[static_cast<std::int64_t>(i) * (n - 1) / (most - 1)]);
  }
  return some;
}

surrogates::Observations At(const surrogates::Observations& all,
                            const std::vector<int>& places) {
  surrogates::Observations some;
  for (const int place : places) {
    some.candidate.push_back(all.candidate[place]);
  }
  some.value = all.value(places);
  some.noise_variance = all.noise_variance(places);
  return some;
}

}  // namespace

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
  if (n <= std::min(options_.most_fitted, options_.most_conditioned)) {
    return process_.Fit(observations);
  }
  surrogates::FitSummary fit = process_.Fit(
      At(observations, EvenlySpaced(AllOf(n), options_.most_fitted)));
  surrogates::FitSummary all = Condition(observations);
  fit.parameters = std::move(all.parameters);
  fit.log_posterior = all.log_posterior;
  return fit;
}

surrogates::FitSummary FittedProcess::Condition(
    const surrogates::Observations& observations) {
  const int most = options_.most_conditioned;
  if (observations.size() <= most) {
    return process_.Condition(observations, process_.hyperparameters());
  }
  std::vector<int> order = AllOf(observations.size());
  std::ranges::stable_sort(order, [&](int a, int b) {
    return observations.value[a] > observations.value[b];
  });
  const auto others = order.begin() + most / 2;
  std::vector<int> chosen(order.begin(), others);
  std::sort(others, order.end());
  const std::vector<int> spaced =
      EvenlySpaced({others, order.end()}, most - most / 2);
  chosen.insert(chosen.end(), spaced.begin(), spaced.end());
  std::ranges::sort(chosen);
  return process_.Condition(At(observations, chosen),
                            process_.hyperparameters());
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
  const double next_fit =
      std::min((1.0 + options_.refit_growth) * fitted_,
               fitted_ + options_.refit_growth * options_.most_conditioned);
  const bool recent =
      fitted_ >= options_.refit_every_trial_until && n < next_fit;
  const auto fit = [&] {
    return recent && bounded ? Condition(observations)
                             : FitToSome(observations);
  };
  if (bounded) {
    // By the hyperparameters of the last fit, to which bounds belonged: by
    // those of what ran alone, no failure would be possible.
    (void)(fitted_ > 0 ? Condition(observations) : fit());
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
