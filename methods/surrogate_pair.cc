#include "methods/surrogate_pair.h"

#include <algorithm>
#include <vector>

#include "common/quantiles.h"
#include "methods/remaining.h"
#include "surrogates/cost/misspecification.h"
#include "surrogates/cost/shared_scale.h"

namespace methods {
namespace {

// The two fits draw different starting points.
constexpr std::uint64_t kMemorySeedOffset = 1;

// The centers of the throughput's coefficients after these observations.
Eigen::VectorXd Centers(const surrogates::ParametricMean& prior,
                        const surrogates::Observations& observations) {
  if (prior.shared_scale) {
    return surrogates::CentersAtScale(
        prior, surrogates::MatchSharedScale(prior, observations));
  }
  // Before the first value only ratios are known and any scale serves.
  return surrogates::CentersFor(
      prior,
      observations.size() > 0 ? common::UpperMedian({observations.value.begin(),
                                                     observations.value.end()})
                              : 1.0);
}

surrogates::GaussianProcess::Options ForThroughput(
    const Problem& problem, const SurrogatePair::Options& options) {
  surrogates::GaussianProcess::Options fit = options.fit;
  fit.threads = problem.threads;
  fit.nugget = options.throughput_nugget;
  fit.family.scale = options.family_error;
  return fit;
}

surrogates::GaussianProcess::Options ForMemory(
    const Problem& problem, const SurrogatePair::Options& options) {
  surrogates::GaussianProcess::Options fit = options.fit;
  fit.threads = problem.threads;
  fit.seed += kMemorySeedOffset;
  fit.family.scale = options.memory_family_error;
  if (options.memory_prior == surrogates::CostModelForm::kPhysical &&
      options.choices.typical_values) {
    fit.target_scale = options.memory_error;
  }
  return fit;
}

surrogates::ClusterShape ShapeOf(const Problem& problem) {
  return {problem.gpus, problem.gpus_per_node, problem.rank_order};
}

surrogates::ParametricMean MemoryPriorOf(
    const Problem& problem, const SurrogatePair::Options& options) {
  surrogates::ParametricMean mean = surrogates::MemoryPrior(
      *problem.space,
      ShapeOf(problem),
      options.memory_prior,
      options.clip_at_capacity ? 1.0 : options.out_of_memory_value,
      options.choices);
  mean.clip_gradient = options.clip_gradient;
  return mean;
}

}  // namespace

SurrogatePair::SurrogatePair(const Problem& problem, const Options& options)
    : capacity_bytes_(problem.memory_capacity_bytes),
      options_(options),
      encoded_(surrogates::Encode(*problem.space,
                                  options.neutral_inactive_parameters
                                      ? surrogates::InactiveKnobs::kNeutral
                                      : surrogates::InactiveKnobs::kDefault,
                                  options.encoding)),
      throughput_prior_(surrogates::ThroughputPrior(*problem.space,
                                                    ShapeOf(problem),
                                                    options.throughput_prior,
                                                    options.choices)),
      memory_prior_(MemoryPriorOf(problem, options)),
      throughput_(encoded_, throughput_prior_, ForThroughput(problem, options)),
      memory_(encoded_, memory_prior_, ForMemory(problem, options)),
      threads_(problem.threads) {
  if (options.prior_error > 0.0) {
    prior_perturbation_ =
        surrogates::Misspecification(encoded_, options.fit.seed);
  }
}

std::vector<Suggestion::Fit> SurrogatePair::Fit(const History& history) {
  surrogates::Observations throughput = history.ThroughputObservations();
  throughput_.SetLogCenters(Centers(throughput_prior_, throughput));
  if (prior_perturbation_.size() > 0 && throughput.size() > 0) {
    // A process around the mean plus an offset is the process around the mean
    // of the remainder after the offset.
    perturbation_steps_per_s_ =
        options_.prior_error * throughput.value.maxCoeff();
    throughput.value -=
        perturbation_steps_per_s_ * prior_perturbation_(throughput.candidate);
  }
  std::vector<Suggestion::Fit> fits;
  fits.push_back(
      {"throughput", Update(throughput, throughput_, known_throughput_)});
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
  fits.push_back({"memory", Update(memory, memory_, known_memory_)});
  return fits;
}

surrogates::FitSummary SurrogatePair::Update(
    const surrogates::Observations& observations,
    surrogates::GaussianProcess& process,
    Known& known) const {
  const int old = known.observations.size();
  const bool recent =
      known.fitted >= options_.refit_every_trial_until &&
      observations.size() < (1.0 + options_.refit_growth) * known.fitted;
  const bool appends =
      recent && old < observations.size() &&
      std::equal(known.observations.candidate.begin(),
                 known.observations.candidate.end(),
                 observations.candidate.begin()) &&
      known.observations.value == observations.value.head(old) &&
      known.observations.noise_variance ==
          observations.noise_variance.head(old);
  known.observations = observations;
  if (!appends) {
    known.fitted = observations.size();
    return process.Fit(observations);
  }
  surrogates::FitSummary summary;
  for (int i = old; i < observations.size(); ++i) {
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
  if (prior_perturbation_.size() > 0) {
    prediction.mean += perturbation_steps_per_s_ * prior_perturbation_;
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
  // In the order of the process, whose values exclude the perturbation.
  const surrogates::Observations& observed = throughput_.observations();
  Eigen::VectorXd values = observed.value.head(others.mean.size());
  if (prior_perturbation_.size() > 0) {
    const Eigen::VectorXd perturbation =
        perturbation_steps_per_s_ * prior_perturbation_(observed.candidate);
    values += perturbation.head(values.size());
    others.mean += perturbation.head(values.size());
  }
  return surrogates::PredictMeasurements(values, others, prediction);
}

std::optional<trials::Remaining> SurrogatePair::EstimateRemaining(
    const History& history) const {
  return methods::EstimateRemaining(history, prediction_, throughput_, memory_);
}

SurrogatePair::Choice SurrogatePair::ArgMaxConstrainedUcb(
    double beta, const std::vector<char>& excluded) {
  return ArgMax({.beta = beta}, excluded);
}

SurrogatePair::Choice SurrogatePair::ArgMax(ArgMaxOptions options,
                                            const std::vector<char>& excluded) {
  options.threads = threads_;
  PredictThroughput(prediction_);
  Choice choice;
  choice.candidate = search_.ArgMax(
      prediction_,
      [this](const std::vector<int>& candidates,
             const surrogates::PredictionView& excess) {
        memory_.PredictSome(candidates, excess);
        ToMemoryExcess(1.0, options_.memory_scale, excess);
      },
      excluded,
      options);
  if (choice.candidate >= 0) {
    choice.acquisition = search_.summary().value;
    choice.throughput_mean = prediction_.mean[choice.candidate];
    choice.throughput_variance = prediction_.variance[choice.candidate];
    using One = Eigen::Map<Eigen::VectorXd>;
    memory_.PredictSome(
        {&choice.candidate, 1},
        {One(&choice.memory_mean, 1), One(&choice.memory_variance, 1)});
  }
  return choice;
}

SurrogatePair::Options PrintedSurrogates() {
  return {.throughput_prior = surrogates::CostModelForm::kPrinted,
          .memory_prior = surrogates::CostModelForm::kPrinted,
          .fit = {.as_printed = true,
                  .max_length_scale = 1e4,
                  .coefficient_reach = 20.0},
          .family_error = 0.0,
          .clip_at_capacity = true,
          .clip_gradient = 0.0,
          .neutral_inactive_parameters = false,
          .encoding = surrogates::SizeScale::kLinear};
}

SurrogatePair::Options VanillaSurrogates() {
  return {.throughput_prior = surrogates::CostModelForm::kNone,
          .memory_prior = surrogates::CostModelForm::kNone,
          .fit = {.integrate_coefficients = false, .learn_nugget = false},
          .family_error = 0.0,
          .neutral_inactive_parameters = false,
          .encoding = surrogates::SizeScale::kLinear};
}

Option ComputeTimeOption(SurrogatePair::Options& options) {
  using surrogates::ComputeTime;
  return {"t_comp",
          ChoiceOf(options.choices.t_comp,
                   {{"batch", ComputeTime::kOfBatch},
                    {"microbatch", ComputeTime::kOfMicrobatch}}),
          "What takes the computation time of the printed form: the batch, or "
          "each microbatch.",
          "Eq. 10"};
}

}  // namespace methods
