#include "methods/trusted_process.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/quantiles.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/shared_scale.h"
#include "surrogates/gp/measurement.h"
#include "trials/predictions.h"

namespace methods {
namespace {

constexpr double kPredictedError = 0.15;   // of the logarithm
constexpr double kUnpredictedError = 0.6;  // likewise
constexpr double kRecordWeight = 0.25;
// The rate of failures of candidates that trustworthy predictions are sure of,
// and of any others: a quarter of random trials ran out of memory.
constexpr double kFailureRate = 0.05;
constexpr double kUnpredictedFailureRate = 0.25;
constexpr int kFirstComparison = 2;  // observations
constexpr double kSettled = 0.02;
constexpr double kGrowth = 1.5;

double Median(const Eigen::VectorXd& values) {
  return common::UpperMedian({values.begin(), values.end()});
}

// -log of the density of a logarithmic error.
double NegativeLogDensity(double error, double scale) {
  return surrogates::NegativeLogDensity(error, 0.0, scale * scale);
}

}  // namespace

FittedProcess::FittedProcess(const surrogates::EncodedSpace& space,
                             surrogates::ParametricMean prior,
                             const Options& options)
    : prior_(std::move(prior)),
      options_(options),
      process_(space, prior_, options.fit) {}

Eigen::VectorXd FittedProcess::MatchedCenters(const FitInput& input) const {
  return surrogates::CentersAtScale(
      prior_, surrogates::MatchSharedScale(prior_, input.observations,
                                           input.at_most_one));
}

void FittedProcess::SetPriors(const FitInput& input) {
  const Eigen::VectorXd& values = input.observations.value;
  if (prior_.shared_scale) {
    process_.SetLogCenters(MatchedCenters(input));
  } else if (options_.centers_follow_median && values.size() > 0) {
    process_.SetLogCenters(surrogates::CentersFor(prior_, Median(values)));
  }
  if (options_.relative_error > 0.0 && values.size() > 0) {
    process_.SetTargetScale(options_.relative_error * values.maxCoeff());
  }
}

surrogates::FitSummary FittedProcess::Fit(const FitInput& input) {
  SetPriors(input);
  surrogates::Observations observations = input.observations;
  if (input.offset.size() > 0) {
    observations.value -= input.offset;
  }
  const int old = known_.size();
  const bool recent =
      fitted_ >= options_.refit_every_trial_until &&
      observations.size() < (1.0 + options_.refit_growth) * fitted_;
  const bool appends =
      recent && old < observations.size() &&
      std::equal(known_.candidate.begin(), known_.candidate.end(),
                 observations.candidate.begin()) &&
      known_.value == observations.value.head(old) &&
      known_.noise_variance == observations.noise_variance.head(old);
  known_ = observations;
  if (!appends) {
    fitted_ = observations.size();
    return process_.Fit(observations);
  }
  surrogates::FitSummary summary;
  for (int i = old; i < observations.size(); ++i) {
    summary = process_.Append(observations.candidate[i], observations.value[i],
                              observations.noise_variance[i]);
  }
  return summary;
}

Eigen::VectorXd FittedProcess::UnclippedMean() const {
  return prior_.features *
         process_.hyperparameters().log_coefficients.array().exp().matrix();
}

FitInput FittedProcess::Measured(const FitInput& input) const {
  FitInput measured{.at_most_one = input.at_most_one};
  const surrogates::Observations& all = input.observations;
  std::vector<Eigen::Index> rows;
  for (int i = 0; i < all.size(); ++i) {
    if (all.value[i] < prior_.clip) {
      rows.push_back(i);
      measured.observations.candidate.push_back(all.candidate[i]);
    }
  }
  measured.observations.value = all.value(rows);
  measured.observations.noise_variance = all.noise_variance(rows);
  return measured;
}

double FittedProcess::FailureEvidence(const FitInput& input,
                                      const FitInput& measured) const {
  Eigen::VectorXd predicted;
  prior_.Evaluate(input.observations.candidate, MatchedCenters(measured),
                  predicted, nullptr);
  double sum = 0.0;
  for (int i = 0; i < input.observations.size(); ++i) {
    if (input.observations.value[i] >= prior_.clip) {
      const double fails =
          1.0 -
          trials::FitProbability(predicted[i], 1.0, trials::kMemoryLogStddev);
      sum += std::min(0.0, std::log(std::max(fails, kFailureRate) /
                                    kUnpredictedFailureRate));
    }
  }
  return sum;
}

double FittedProcess::LogRecord(const FitInput& measured) const {
  const surrogates::Observations& observations = measured.observations;
  const int n = observations.size();
  if (n == 0) {
    return 0.0;
  }
  Eigen::VectorXd predicted;
  prior_.Evaluate(observations.candidate, MatchedCenters(measured), predicted,
                  nullptr);
  const double median = Median(observations.value);
  double sum = 0.0;
  for (int i = 0; i < n; ++i) {
    const double value = observations.value[i];
    if (value > 0.0 && median > 0.0) {
      sum +=
          NegativeLogDensity(std::log(value / median), kUnpredictedError) -
          NegativeLogDensity(std::log(value / predicted[i]), kPredictedError);
    }
  }
  return sum * (n - 1) / n;
}

TrustedProcess::TrustedProcess(std::unique_ptr<FittedProcess> preferred,
                               MakeProcess make_fallback)
    : preferred_(std::move(preferred)),
      make_fallback_(std::move(make_fallback)),
      trust_(make_fallback_ ? kPriorTrust : 1.0) {}

bool TrustedProcess::Settled(int observations) const {
  return (trust_ < kSettled || trust_ > 1.0 - kSettled) &&
         observations >= compared_ && observations < kGrowth * compared_;
}

std::vector<const FittedProcess*> TrustedProcess::plausible() const {
  std::vector<const FittedProcess*> processes = {&chosen()};
  if (undecided_) {
    processes.push_back((uses_fallback_ ? preferred_ : fallback_).get());
  }
  return processes;
}

surrogates::FitSummary TrustedProcess::WithTrust(
    surrogates::FitSummary summary) const {
  if (make_fallback_) {
    summary.parameters.push_back({"trust", trust_});
    summary.parameters.push_back(
        {"uses_predictions", uses_fallback_ ? 0.0 : 1.0});
  }
  return summary;
}

surrogates::FitSummary TrustedProcess::FitChosen(const FitInput& input) {
  return WithTrust((uses_fallback_ ? fallback_ : preferred_)->Fit(input));
}

surrogates::FitSummary TrustedProcess::Fit(const FitInput& input,
                                           double threshold) {
  const int n = input.observations.size();
  undecided_ = false;
  if (!make_fallback_ || n < kFirstComparison) {
    return FitChosen(input);
  }
  if (Settled(n)) {
    uses_fallback_ = trust_ < 0.5;
    return FitChosen(input);
  }
  if (!fallback_) {
    fallback_ = make_fallback_();
  }
  surrogates::FitSummary preferred = preferred_->Fit(input);
  surrogates::FitSummary fallback = fallback_->Fit(input);
  const FitInput measured = preferred_->Measured(input);
  double log_odds = std::log(kPriorTrust / (1.0 - kPriorTrust)) +
                    kRecordWeight * preferred_->LogRecord(measured) +
                    preferred_->FailureEvidence(input, measured);
  // Both explain failures alone by any scale that is large enough.
  if (measured.observations.size() >= kFirstComparison) {
    log_odds += preferred.log_posterior - fallback.log_posterior;
  }
  trust_ = 1.0 / (1.0 + std::exp(-log_odds));
  compared_ = n;
  uses_fallback_ = trust_ < threshold;
  undecided_ = !Settled(n);
  return WithTrust(uses_fallback_ ? fallback : preferred);
}

}  // namespace methods
