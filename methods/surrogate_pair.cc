#include "methods/surrogate_pair.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/quantiles.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/misspecification.h"
#include "surrogates/cost/shared_scale.h"

namespace methods {
namespace {

surrogates::GaussianProcess::Options FitOptions(
    const Problem& problem,
    const SurrogatePair::Options& options,
    std::uint64_t offset) {
  surrogates::GaussianProcess::Options fit = options.fit;
  fit.seed += offset;
  fit.threads = problem.threads;
  return fit;
}

// The centres of the throughput's coefficients after these observations.
Eigen::VectorXd Centers(const surrogates::ParametricMean& prior,
                        const surrogates::Observations& observations) {
  if (prior.shared_scale) {
    return surrogates::CentersAtScale(
        prior, surrogates::MatchSharedScale(prior, observations));
  }
  // Before the first value only ratios are known: any scale does.
  return surrogates::CentersFor(
      prior,
      observations.size() > 0 ? common::UpperMedian({observations.value.begin(),
                                                     observations.value.end()})
                              : 1.0);
}

surrogates::GaussianProcess::Options ForMemory(
    const Problem& problem,
    const SurrogatePair::Options& options,
    const surrogates::ParametricMean& prior) {
  surrogates::GaussianProcess::Options fit = FitOptions(problem, options, 1);
  if (prior.shared_scale) {
    fit.target_scale = options.memory_error;
  }
  return fit;
}

surrogates::GaussianProcess::Options ForThroughput(
    const Problem& problem, const SurrogatePair::Options& options) {
  surrogates::GaussianProcess::Options fit = FitOptions(problem, options, 0);
  fit.misfit_scale = options.throughput_misfit_scale;
  fit.misfit_log_stddev = options.throughput_misfit_log_stddev;
  return fit;
}

}  // namespace

SurrogatePair::SurrogatePair(const Problem& problem,
                             surrogates::ParametricMean throughput_prior,
                             surrogates::ParametricMean memory_prior,
                             const Options& options)
    : capacity_bytes_(problem.memory_capacity_bytes),
      options_(options),
      encoded_(surrogates::Encode(*problem.space, options.inert_knobs)),
      throughput_prior_(throughput_prior),
      memory_prior_(memory_prior),
      throughput_(encoded_,
                  std::move(throughput_prior),
                  ForThroughput(problem, options)),
      memory_(encoded_,
              std::move(memory_prior),
              ForMemory(problem, options, memory_prior_)),
      threads_(problem.threads) {
  if (options.prior_error > 0.0) {
    wrong_opinion_ = surrogates::Misspecification(encoded_, options.fit.seed);
  }
}

std::vector<Suggestion::Fit> SurrogatePair::Fit(const History& history) {
  surrogates::Observations throughput = history.ThroughputObservations();
  throughput_.SetLogCenters(Centers(throughput_prior_, throughput));
  if (wrong_opinion_.size() > 0 && throughput.size() > 0) {
    // A process around the mean plus an offset is the process around the mean
    // of what is left after the offset.
    opinion_steps_per_s_ = options_.prior_error * throughput.value.maxCoeff();
    throughput.value -=
        opinion_steps_per_s_ * wrong_opinion_(throughput.candidate);
  }
  std::vector<Suggestion::Fit> fits;
  fits.push_back(
      {"throughput", Learn(throughput, throughput_, shown_throughput_)});
  const surrogates::Observations memory =
      history.MemoryObservations(capacity_bytes_,
                                 options_.out_of_memory_value,
                                 options_.memory_noise * options_.memory_noise);
  if (memory_prior_.shared_scale) {
    memory_.SetLogCenters(surrogates::CentersAtScale(
        memory_prior_,
        surrogates::MatchSharedScale(
            memory_prior_, memory, history.RanWithUnknownMemory())));
  }
  fits.push_back({"memory", Learn(memory, memory_, shown_memory_)});
  return fits;
}

surrogates::FitSummary SurrogatePair::Learn(
    const surrogates::Observations& observations,
    surrogates::GaussianProcess& process,
    Shown& shown) const {
  const int known = shown.observations.size();
  const bool recent =
      shown.fitted >= options_.refit_every_trial_until &&
      observations.size() < (1.0 + options_.refit_growth) * shown.fitted;
  const bool appends =
      recent && known < observations.size() &&
      std::equal(shown.observations.candidate.begin(),
                 shown.observations.candidate.end(),
                 observations.candidate.begin()) &&
      shown.observations.value == observations.value.head(known) &&
      shown.observations.noise_variance ==
          observations.noise_variance.head(known);
  shown.observations = observations;
  if (!appends) {
    shown.fitted = observations.size();
    return process.Fit(observations);
  }
  surrogates::FitSummary summary;
  for (int i = known; i < observations.size(); ++i) {
    summary =
        process.Append(observations.candidate[static_cast<std::size_t>(i)],
                       observations.value[i],
                       observations.noise_variance[i]);
  }
  return summary;
}

void SurrogatePair::PredictThroughput(
    surrogates::Prediction& prediction) const {
  throughput_.Predict(prediction);
  if (wrong_opinion_.size() > 0) {
    prediction.mean += opinion_steps_per_s_ * wrong_opinion_;
  }
}

void SurrogatePair::Predict(surrogates::Prediction& throughput,
                            surrogates::Prediction& memory) const {
  PredictThroughput(throughput);
  memory_.Predict(memory);
}

surrogates::MeasurementPrediction SurrogatePair::PredictThroughputMeasurements()
    const {
  surrogates::Prediction prediction;
  PredictThroughput(prediction);
  surrogates::Prediction others = throughput_.LeaveOneOut();
  // The order of the process, which knows nothing of the wrong opinion.
  const surrogates::Observations& observed = throughput_.observations();
  Eigen::VectorXd values = observed.value.head(others.mean.size());
  if (wrong_opinion_.size() > 0) {
    const Eigen::VectorXd opinion =
        opinion_steps_per_s_ * wrong_opinion_(observed.candidate);
    values += opinion.head(values.size());
    others.mean += opinion.head(values.size());
  }
  return surrogates::PredictMeasurements(values, others, prediction);
}

SurrogatePair::Choice SurrogatePair::ArgMaxConstrainedUcb(
    double beta, double memory_scale, const std::vector<char>& excluded) {
  PredictThroughput(prediction_);
  Choice choice;
  choice.candidate = search_.ArgMax(
      prediction_,
      [this, memory_scale](const std::vector<int>& candidates,
                           const surrogates::PredictionView& excess) {
        memory_.PredictSome(candidates, excess);
        ToMemoryExcess(1.0, memory_scale, excess);
      },
      excluded,
      {.beta = beta, .threads = threads_});
  if (choice.candidate >= 0) {
    choice.cucb = search_.summary().value;
    choice.throughput_mean = prediction_.mean[choice.candidate];
    choice.throughput_variance = prediction_.variance[choice.candidate];
    using One = Eigen::Map<Eigen::VectorXd>;
    memory_.PredictSome(
        {&choice.candidate, 1},
        {One(&choice.memory_mean, 1), One(&choice.memory_variance, 1)});
  }
  return choice;
}

}  // namespace methods
