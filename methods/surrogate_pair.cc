#include "methods/surrogate_pair.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/statistics.h"
#include "methods/remaining.h"
#include "surrogates/cost/misspecification.h"
#include "surrogates/cost/predicted_prior.h"
#include "trials/predictions.h"

namespace methods {
namespace {

// In units of the capacity: the observation of an out-of-memory trial, to which
// the sigmoid of cUCB would give a feasibility of one half at exactly 1; the
// standard deviation of a memory observation, the lambda of Eq. 26; and the
// scale of the sigmoid of Eq. 4, which the paper does not give.
constexpr double kOutOfMemoryValue = 1.1;
constexpr double kMemoryNoise = 0.002;
constexpr double kMemoryScale = 0.025;

// Replaces family_error for a predicted prior.
constexpr double kPredictedFamilyError = 0.1;

using surrogates::CostModelForm;

// The two fits draw different starting points.
constexpr std::uint64_t kMemorySeedOffset = 1;

// Makes the processes of both targets around priors of any form.
class ProcessMaker {
 public:
  ProcessMaker(const Problem& problem, const SurrogatePair::Options& options,
               const surrogates::EncodedSpace& space)
      : problem_(problem), options_(options), space_(&space) {}

  // Makes the process of one target; `predictions` only matter to a predicted
  // prior.
  using Made = std::unique_ptr<FittedProcess>;
  using Make = Made (ProcessMaker::*)(CostModelForm,
                                      const trials::Predictions&) const;

  [[nodiscard]] Made Throughput(CostModelForm form,
                                const trials::Predictions& predictions) const {
    const bool predicted = form == CostModelForm::kPredicted;
    FittedProcess::Options process = Common();
    process.fit.nugget = options_.throughput_nugget;
    process.fit.family.scale =
        predicted ? kPredictedFamilyError : options_.family_error;
    process.centers_follow_median = true;
    process.relative_error =
        predicted ? options_.predicted_throughput_error : 0.0;
    surrogates::ParametricMean prior =
        predicted ? surrogates::PredictedThroughputPrior(predictions)
                  : surrogates::ThroughputPrior(*problem_.space, Shape(), form,
                                                Choices(form));
    // The prior of the value: each term of the step time, times the weight. A
    // constant has no such terms.
    if (prior.link == surrogates::ParametricMean::Link::kInverse) {
      for (int i = 0; i < problem_.space->size(); ++i) {
        prior.features.row(i) *= problem_.weight((*problem_.space)[i]);
      }
    }
    return std::make_unique<FittedProcess>(*space_, std::move(prior), process);
  }

  [[nodiscard]] Made Memory(CostModelForm form,
                            const trials::Predictions& predictions) const {
    const bool predicted = form == CostModelForm::kPredicted;
    FittedProcess::Options process = Common();
    process.fit.seed += kMemorySeedOffset;
    process.fit.family.scale = 0.0;
    if (predicted) {
      process.fit.target_scale = options_.predicted_memory_error;
    } else if (form == CostModelForm::kPhysical &&
               options_.choices.typical_values) {
      process.fit.target_scale = options_.memory_error;
    }
    const double clip = options_.clip_at_capacity ? 1.0 : kOutOfMemoryValue;
    surrogates::ParametricMean prior =
        predicted ? surrogates::PredictedMemoryPrior(
                        predictions, problem_.machine.memory_bytes(), clip)
                  : surrogates::MemoryPrior(*problem_.space, Shape(), form,
                                            clip, Choices(form));
    if (!predicted) {
      prior.clip_gradient = options_.clip_gradient;
    }
    return std::make_unique<FittedProcess>(*space_, std::move(prior), process);
  }

  // One with predictions falls back on the physical form.
  [[nodiscard]] TrustedProcess Trusted(
      Make make, CostModelForm form,
      const trials::Predictions& predictions) const {
    TrustedProcess::MakeProcess fallback;
    if (form == CostModelForm::kPredicted) {
      fallback = [maker = *this, make] {
        return (maker.*make)(CostModelForm::kPhysical, {});
      };
    }
    return {(this->*make)(form, predictions), std::move(fallback)};
  }

 private:
  [[nodiscard]] FittedProcess::Options Common() const {
    FittedProcess::Options common{
        .fit = options_.fit,
        .refit_every_trial_until = options_.refit_every_trial_until,
        .refit_growth = options_.refit_growth};
    common.fit.threads = problem_.threads;
    return common;
  }

  [[nodiscard]] surrogates::ClusterShape Shape() const {
    const trials::Machine& machine = problem_.machine;
    return {machine.gpus(), machine.gpus_per_node(), problem_.rank_order,
            machine.resizable()};
  }

  [[nodiscard]] surrogates::CostModelChoices Choices(CostModelForm form) const {
    surrogates::CostModelChoices choices = options_.choices;
    if (!options_.job_sizes || form != CostModelForm::kPhysical) {
      return choices;
    }
    const trials::TrainedJob* described = JobIfDescribed(problem_);
    const trials::Workload* workload =
        described == nullptr ? problem_.workload : &described->workload;
    if (workload != nullptr) {
      choices.sizes =
          surrogates::SizesOf(*workload, problem_.machine.memory_bytes());
    }
    return choices;
  }

  Problem problem_;
  SurrogatePair::Options options_;
  const surrogates::EncodedSpace* space_;
};

trials::Predictions PredictionsFor(const Problem& problem,
                                   const SurrogatePair::Options& options) {
  if (options.throughput_prior != CostModelForm::kPredicted &&
      options.memory_prior != CostModelForm::kPredicted) {
    return {};
  }
  if (!problem.predict) {
    throw common::InputError(
        "a predicted prior needs predictions: add a table [predictions]");
  }
  return problem.predict(options.predictions);
}

struct Marginal {
  double mean = 0.0;
  double variance = 0.0;
};

Marginal At(const surrogates::GaussianProcess& process, int candidate) {
  using One = Eigen::Map<Eigen::VectorXd>;
  Marginal at;
  process.PredictSome({&candidate, 1},
                      {One(&at.mean, 1), One(&at.variance, 1)});
  return at;
}

// The larger gain and the lower probabilities.
trials::Remaining Cautious(const trials::Remaining& a,
                           const trials::Remaining& b) {
  trials::Remaining worse = a.expected_gain < b.expected_gain ? b : a;
  worse.p_within_1 = std::min(a.p_within_1, b.p_within_1);
  worse.p_within_3 = std::min(a.p_within_3, b.p_within_3);
  worse.p_within_5 = std::min(a.p_within_5, b.p_within_5);
  return worse;
}

// The trust in throughput predictions from which the trial after `trials`
// others uses them. The first three trials use them unless they have failed.
// After that, it is the radical inverse of a count, 1/2, 1/4, 3/4, 1/8, 5/8,
// ..., so that the share of trials that use predictions is the trust in them.
double TrustThreshold(int trials) {
  constexpr int kFirst = 3;
  if (trials < kFirst) {
    return 0.3;
  }
  double inverse = 0.0;
  double digit = 0.5;
  for (int count = trials - kFirst + 1; count > 0; count /= 2) {
    inverse += digit * (count % 2);
    digit /= 2.0;
  }
  return inverse;
}

}  // namespace

SurrogatePair::SurrogatePair(const Problem& problem, const Options& options)
    : SurrogatePair(problem, options, PredictionsFor(problem, options)) {}

SurrogatePair::SurrogatePair(const Problem& problem, const Options& options,
                             const trials::Predictions& predictions)
    : capacity_bytes_(problem.machine.memory_bytes()),
      memory_log_stddev_(predictions.memory_log_stddev),
      options_(options),
      encoded_(surrogates::Encode(*problem.space,
                                  options.neutral_inactive_parameters
                                      ? surrogates::InactiveKnobs::kNeutral
                                      : surrogates::InactiveKnobs::kDefault,
                                  options.encoding)),
      throughput_(ProcessMaker(problem, options, encoded_)
                      .Trusted(&ProcessMaker::Throughput,
                               options.throughput_prior, predictions)),
      memory_(ProcessMaker(problem, options, encoded_)
                  .Trusted(&ProcessMaker::Memory, options.memory_prior,
                           predictions)),
      threads_(problem.threads) {
  if (options.prior_error > 0.0) {
    prior_perturbation_ =
        surrogates::Misspecification(encoded_, options.fit.seed);
  }
}

std::vector<Suggestion::Fit> SurrogatePair::Fit(const History& history) {
  FitInput throughput{.observations = history.ThroughputObservations()};
  if (prior_perturbation_.size() > 0 && throughput.observations.size() > 0) {
    // A process around the mean plus an offset is the process around the mean
    // of the remainder after the offset.
    perturbation_amplitude_ =
        options_.prior_error * throughput.observations.value.maxCoeff();
    throughput.offset = perturbation_amplitude_ *
                        prior_perturbation_(throughput.observations.candidate);
  }
  const FitInput memory{
      .observations = history.MemoryObservations(
          capacity_bytes_, kOutOfMemoryValue, kMemoryNoise * kMemoryNoise),
      .at_most_one = history.RanWithUnknownMemory()};
  std::vector<Suggestion::Fit> fits = {
      {"throughput",
       throughput_.Fit(throughput, TrustThreshold(history.turn()))},
      {"memory", memory_.Fit(memory)}};
  beyond_clip_ = BeyondClip(memory_.chosen());
  believers_.reset();
  if (!history.running().empty()) {
    Believe(history.running());
  }
  return fits;
}

void SurrogatePair::Believe(const std::vector<int>& running) {
  believers_ = {throughput_.process(), memory_.process(),
                -std::numeric_limits<double>::infinity()};
  for (const int candidate : running) {
    double value = At(believers_->throughput, candidate).mean;
    const double used = At(believers_->memory, candidate).mean;
    believers_->throughput.Append(candidate, value, 0.0);
    believers_->memory.Append(candidate, used, kMemoryNoise * kMemoryNoise);
    if (prior_perturbation_.size() > 0) {
      value += perturbation_amplitude_ * prior_perturbation_[candidate];
    }
    if (used <= 1.0) {
      believers_->best_value = std::max(believers_->best_value, value);
    }
  }
}

std::vector<char> SurrogatePair::Excluded(const History& history) const {
  constexpr double kDoubt = 0.9;
  std::vector<char> excluded = history.tried();
  const std::vector<int>& family = families().of_candidate;
  for (const int candidate : history.running()) {
    const Marginal used = At(memory_.process(), candidate);
    if (common::NormalProbability((1.0 - used.mean) /
                                  std::sqrt(used.variance)) < kDoubt) {
      for (std::size_t i = 0; i < excluded.size(); ++i) {
        if (family[i] == family[candidate]) {
          excluded[i] = 1;
        }
      }
    }
  }
  return excluded;
}

Eigen::VectorXd SurrogatePair::BeyondClip(const FittedProcess& memory) const {
  return options_.memory_prior == CostModelForm::kPredicted
             ? memory.MeanBeyondClip()
             : Eigen::VectorXd();
}

void SurrogatePair::PredictThroughput(
    const surrogates::GaussianProcess& process,
    surrogates::Prediction& prediction) const {
  process.Predict(prediction);
  if (prior_perturbation_.size() > 0) {
    prediction.mean += perturbation_amplitude_ * prior_perturbation_;
  }
}

void SurrogatePair::Predict(surrogates::Prediction& throughput,
                            surrogates::Prediction& memory) const {
  PredictThroughput(this->throughput(), throughput);
  this->memory().Predict(memory);
}

surrogates::MeasurementPrediction SurrogatePair::PredictThroughputMeasurements()
    const {
  surrogates::Prediction prediction;
  PredictThroughput(this->throughput(), prediction);
  surrogates::Prediction others = throughput_.process().LeaveOneOut();
  // In the order of the process, whose values exclude the perturbation.
  const surrogates::Observations& observed =
      throughput_.process().observations();
  Eigen::VectorXd values = observed.value.head(others.mean.size());
  if (prior_perturbation_.size() > 0) {
    const Eigen::VectorXd perturbation =
        perturbation_amplitude_ * prior_perturbation_(observed.candidate);
    values += perturbation.head(values.size());
    others.mean += perturbation.head(values.size());
  }
  return surrogates::PredictMeasurements(values, others, prediction);
}

std::optional<trials::Remaining> SurrogatePair::EstimateRemaining(
    const History& history) {
  if (believers_) {
    believers_.reset();
    PredictThroughput(throughput(), prediction_);
  }
  std::optional<trials::Remaining> most;
  for (const FittedProcess* throughput : throughput_.plausible()) {
    surrogates::Prediction other;
    const bool chosen = throughput == &throughput_.chosen();
    if (!chosen) {
      PredictThroughput(throughput->process(), other);
    }
    for (const FittedProcess* memory : memory_.plausible()) {
      const std::optional<trials::Remaining> remaining =
          methods::EstimateRemaining(history, chosen ? prediction_ : other,
                                     throughput->process(), memory->process(),
                                     BeyondClip(*memory));
      most = most ? Cautious(*most, *remaining) : remaining;
      if (!most) {
        return most;
      }
    }
  }
  return most;
}

SurrogatePair::Choice SurrogatePair::ArgMax(ArgMaxOptions options,
                                            const std::vector<char>& excluded) {
  options.threads = threads_;
  if (believers_) {
    options.best_value = std::max(options.best_value, believers_->best_value);
  }
  PredictThroughput(throughput(), prediction_);
  Choice choice;
  choice.candidate = search_.ArgMax(
      prediction_,
      [this](const std::vector<int>& candidates,
             const surrogates::PredictionView& excess) {
        memory().PredictSome(candidates, excess);
        if (beyond_clip_.size() > 0) {
          Eigen::Ref<Eigen::VectorXd> mean = excess.mean;
          mean += beyond_clip_(candidates);
        }
        ToMemoryExcess(1.0, kMemoryScale, excess);
      },
      excluded, options);
  if (choice.candidate >= 0) {
    choice.acquisition = search_.summary().value;
    AddPredictions(choice);
  }
  return choice;
}

SurrogatePair::Choice SurrogatePair::FirstToTry(
    const std::vector<char>& excluded) {
  PredictThroughput(throughput(), prediction_);
  const Eigen::VectorXd memory = memory_.chosen().UnclippedMean();
  const auto size = static_cast<std::size_t>(memory.size());
  std::vector<double> step_time_s(size,
                                  std::numeric_limits<double>::infinity());
  std::vector<double> fit_probability(size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    if (excluded[i] == 0 && prediction_.mean[at] > 0.0) {
      step_time_s[i] = 1.0 / prediction_.mean[at];
      fit_probability[i] =
          trials::FitProbability(memory[at], 1.0, memory_log_stddev_);
    }
  }
  Choice choice;
  choice.candidate = trials::FirstToTry(step_time_s, fit_probability);
  const auto first = static_cast<std::size_t>(choice.candidate);
  if (choice.candidate < 0 || !(fit_probability[first] > 0.0)) {
    return LeastMemory(excluded);
  }
  choice.acquisition = fit_probability[first] / step_time_s[first];
  AddPredictions(choice);
  return choice;
}

SurrogatePair::Choice SurrogatePair::LeastMemory(
    const std::vector<char>& excluded) {
  PredictThroughput(throughput(), prediction_);
  const Eigen::VectorXd memory = memory_.chosen().UnclippedMean();
  Choice choice;
  for (int i = 0; i < memory.size(); ++i) {
    if (excluded[i] == 0 &&
        (choice.candidate < 0 || memory[i] < memory[choice.candidate])) {
      choice.candidate = i;
    }
  }
  if (choice.candidate >= 0) {
    AddPredictions(choice);
  }
  return choice;
}

void SurrogatePair::AddPredictions(Choice& choice) const {
  choice.throughput_mean = prediction_.mean[choice.candidate];
  choice.throughput_variance = prediction_.variance[choice.candidate];
  const Marginal used = At(memory(), choice.candidate);
  choice.memory_mean = used.mean;
  if (beyond_clip_.size() > 0) {
    choice.memory_mean += beyond_clip_[choice.candidate];
  }
  choice.memory_variance = used.variance;
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

std::vector<Option> OptionsOf(SurrogatePair::Options& o) {
  using surrogates::CostModelForm;
  const auto form_of = [](CostModelForm& form) {
    return ChoiceOf(form, {{"none", CostModelForm::kNone},
                           {"printed", CostModelForm::kPrinted},
                           {"physical", CostModelForm::kPhysical},
                           {"predicted", CostModelForm::kPredicted}});
  };
  return {
      {"throughput_prior", form_of(o.throughput_prior),
       "Prior mean of throughput: a constant, the cost model as the paper "
       "prints it, the cost model with terms that depend on every size, or "
       "predictions of every candidate.",
       "App. D.1"},
      {"memory_prior", form_of(o.memory_prior),
       "Prior mean of memory, with the same choices.", "App. D.2"},
      ComputeTimeOption(o),
      {"typical_values", Boolean{&o.choices.typical_values},
       "Start the coefficients of the physical form at values that hold for "
       "most training jobs; otherwise every term starts at a tenth of a step.",
       ""},
      {"job_sizes", Boolean{&o.job_sizes},
       "Start the sizes to which these values are ratios, model state and "
       "computation, at those of the job, where [workload] or the facts of a "
       "table describe it.",
       ""},
      PredictionsOption(o.predictions),
      {"neutral_inactive_parameters", Boolean{&o.neutral_inactive_parameters},
       "Embed an inactive parameter in the middle of its values; the paper "
       "embeds it at its default.",
       "Sec. 4.1"},
      {"encoding",
       ChoiceOf(o.encoding, {{"log2", surrogates::SizeScale::kLog2},
                             {"linear", surrogates::SizeScale::kLinear},
                             {"rank", surrogates::SizeScale::kRank}}),
       "Scale of sizes and buckets in the embedding: their logarithm, their "
       "value, or their position among the values of the space.",
       "Sec. 4.1"},
      {"fit", ChoiceOf(o.fit.as_printed, {{"map", false}, {"printed", true}}),
       "Fit of the hyperparameters: the maximum of their posterior, or of the "
       "marginal likelihood without priors.",
       "Eq. 23"},
      {"max_length_scale", Number{&o.fit.max_length_scale, 1.0},
       "Largest length scale of the fit; the values of a parameter span a "
       "length of 1.",
       "Eq. 23, Table 5"},
      {"coefficient_reach", Number{&o.fit.coefficient_reach, 1e-6},
       "Bounds of the coefficients of a prior mean, in standard deviations of "
       "their priors.",
       "Eq. 23"},
      {"integrate_coefficients", Boolean{&o.fit.integrate_coefficients},
       "Integrate over the coefficients of the prior means instead of fixing "
       "them at their best values; not with fit = \"printed\".",
       ""},
      {"learn_nugget", Boolean{&o.fit.learn_nugget},
       "Learn an independent variance of single configurations, which covers "
       "unreported noise.",
       ""},
      {"family_error", Number{&o.family_error, 0.0},
       "Prior center of the error of the throughput prior that all "
       "configurations of a family share, in units of the best throughput; 0: "
       "none.",
       ""},
      {"memory_clip",
       ChoiceOf(o.clip_at_capacity,
                {{"observation", false}, {"capacity", true}}),
       "Where the prior of memory is clipped: at the memory that an "
       "out-of-memory trial observes, or at the capacity.",
       "Eq. 21"},
      {"clip_gradient", Number{&o.clip_gradient, 0.0, 1.0},
       "Gradient of the clipped prior of memory in the fit, as a share of the "
       "unclipped one.",
       "Eq. 21"},
      {"prior_error", Number{&o.prior_error, 0.0},
       "Amplitude of a perturbation of the throughput's prior, in units of the "
       "best throughput.",
       "App. I.5"},
  };
}

Option ComputeTimeOption(SurrogatePair::Options& options) {
  using surrogates::ComputeTime;
  return {"t_comp",
          ChoiceOf(options.choices.t_comp,
                   {{"batch", ComputeTime::kOfBatch},
                    {"microbatch", ComputeTime::kOfMicrobatch}}),
          "Reading of t_comp in the printed form: the time of the batch, or of "
          "each microbatch.",
          "Eq. 10"};
}

}  // namespace methods
