#include "methods/surrogate_pair.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "methods/remaining.h"
#include "surrogates/cost/misspecification.h"
#include "surrogates/cost/predicted_prior.h"
#include "surrogates/cost/shared_scale.h"
#include "trials/predictions.h"

namespace methods {

struct Predicted {
  trials::Predictions predictions;
  std::vector<trials::Predictions::Alternative> alternatives = {};
};

namespace {

// In units of the capacity: the observation of an out-of-memory trial, to which
// the sigmoid of cUCB would give a feasibility of one half at exactly 1; the
// standard deviation of a memory observation, the lambda of Eq. 26; and the
// scale of the sigmoid of Eq. 4, which the paper does not give.
constexpr double kOutOfMemoryValue = 1.1;
constexpr double kMemoryNoise = 0.002;
constexpr double kMemoryScale = 0.025;

using surrogates::CostModelForm;

// Without predictions: the nugget of throughput, which scatters more than
// memory, and the error of a memory prior with a known job size, in units of
// the capacity.
constexpr surrogates::NuggetPrior kThroughputNugget{.scale = 0.5,
                                                    .log_stddev = 0.7};
constexpr double kTypicalMemoryError = 0.2;

// The two fits draw different starting points.
constexpr std::uint64_t kMemorySeedOffset = 1;

// Processes around predictions. Of the logarithm of throughput and of memory:
// the error of predictions, which is the priors' unit, that of their level, and
// that of a whole family. Nobody knows the error of predictions beforehand, so
// log s^2 has a wide deviation; that of families a narrower one, because exact
// predictions of some families say little about others. The length scales let a
// trial correct all of its kind.
constexpr double kThroughputError = 0.2;
constexpr double kThroughputLevelError = 2.0;
constexpr double kThroughputFamilyError = 0.3;
constexpr double kMemoryError = 0.2;
constexpr double kMemoryLevelError = 0.3;
constexpr double kMemoryFamilyError = 0.2;
constexpr double kErrorLogStddev = 2.0;
constexpr double kFamilyErrorLogStddev = 1.0;
constexpr surrogates::LogNormalPrior kResidualLengths{
    .log_center = 1.1, .log_stddev = 0.7, .density_in_x = false};
constexpr double kLargestMinimum = 0.8;  // of the smallest predicted peak

// SurrogatePair::Doubt: the last trials that are checked, and the weight of the
// expectation that the process knows its own error, in trials.
constexpr int kChecks = 10;
constexpr double kDoubtWeight = 2.0;

Eigen::VectorXd LogarithmOf(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::ArrayXd>(values.data(), std::ssize(values))
      .log();
}

// The logarithm of a mean at its typical coefficients.
Eigen::VectorXd LogarithmOf(const surrogates::ParametricMean& mean) {
  return mean
      .EvaluateAll(surrogates::CentersAtScale(
          mean, mean.shared_scale ? mean.shared_scale->log_center : 0.0))
      .array()
      .log();
}

// Makes the processes of both targets around priors of any form. One around
// predictions is of logarithms, and pooled with the physical terms.
class ProcessMaker {
 public:
  ProcessMaker(const Problem& problem, const SurrogatePair::Options& options,
               const surrogates::EncodedSpace& space,
               const Predicted& predicted)
      : problem_(problem),
        options_(options),
        space_(space),
        predictions_(predicted.predictions),
        alternatives_(predicted.alternatives) {}

  [[nodiscard]] FittedProcess Throughput() const {
    const CostModelForm form = options_.throughput_prior;
    FittedProcess::Options process = Common();
    if (form == CostModelForm::kPredicted) {
      SetResidual(process.fit, kThroughputError, kThroughputFamilyError);
      process.fit.nugget = {.scale = 0.3, .log_stddev = 1.0};
      return {space_,
              surrogates::PredictedMean(
                  Predicted(), LogarithmOf(Weighted(CostModelForm::kPhysical)),
                  false, 0.0, kThroughputLevelError),
              process};
    }
    process.fit.nugget = kThroughputNugget;
    process.fit.family.scale = options_.family_error;
    process.centers_follow_median = true;
    return {space_, Weighted(form), process};
  }

  // Of the predicted throughputs.
  [[nodiscard]] surrogates::Alternatives Alternatives() const {
    if (options_.throughput_prior != CostModelForm::kPredicted ||
        alternatives_.empty()) {
      return {};
    }
    return {Predicted(),
            common::Map(alternatives_,
                        [](const trials::Predictions::Alternative& each) {
                          return surrogates::Alternative{
                              each.assumption, each.log_odds,
                              -LogarithmOf(each.slowdown), each.another_model,
                              !each.memory.empty()};
                        }),
            space_.families.of_candidate};
  }

  // The last term of a memory prior of the job: model state over the capacity.
  [[nodiscard]] Eigen::VectorXd ModelState(
      const surrogates::ParametricMean& prior) const {
    if (options_.memory_prior != CostModelForm::kPhysical ||
        !prior.shared_scale ||
        !Choices(CostModelForm::kPhysical).sizes.known()) {
      return {};
    }
    const double log_state = surrogates::CentersAtScale(
        prior, prior.shared_scale->log_center)[prior.size() - 1];
    return std::exp(log_state) * prior.features.col(prior.size() - 1);
  }

  [[nodiscard]] FittedProcess Memory() const {
    const CostModelForm form = options_.memory_prior;
    FittedProcess::Options process = Common();
    process.fit.seed += kMemorySeedOffset;
    process.fit.family.scale = 0.0;
    if (form == CostModelForm::kPredicted) {
      SetResidual(process.fit, kMemoryError, kMemoryFamilyError);
      const Eigen::VectorXd predicted =
          LogarithmOf(predictions_.peak_memory_bytes).array() -
          std::log(problem_.machine.memory_bytes());
      // A user searches only spaces in which something runs. A level that is
      // shifted for that is as uncertain.
      const double shift =
          std::min(0.0, std::log(kLargestMinimum) - predicted.minCoeff());
      const surrogates::CostModelChoices choices =
          Choices(CostModelForm::kPhysical);
      return {space_,
              surrogates::PredictedMean(
                  predicted,
                  LogarithmOf(surrogates::MemoryPrior(
                      *problem_.space, Shape(), CostModelForm::kPhysical,
                      std::numeric_limits<double>::infinity(), choices)),
                  choices.sizes.known(), shift, kMemoryLevelError - 0.5 * shift,
                  OtherMemory()),
              process};
    }
    if (form == CostModelForm::kPhysical && options_.choices.typical_values) {
      process.fit.target_scale = kTypicalMemoryError;
    }
    const double clip = options_.clip_at_capacity ? 1.0 : kOutOfMemoryValue;
    surrogates::ParametricMean prior = surrogates::MemoryPrior(
        *problem_.space, Shape(), form, clip, Choices(form));
    prior.clip_gradient = options_.clip_gradient;
    return {space_, std::move(prior), process};
  }

 private:
  static void SetResidual(surrogates::GaussianProcess::Options& fit,
                          double error, double family_error) {
    fit.target_scale = error;
    fit.signal_log_stddev = kErrorLogStddev;
    fit.length_scale = kResidualLengths;
    fit.family.scale = family_error;
    fit.family.log_stddev = kFamilyErrorLogStddev;
  }

  // The logarithm of the ratio of an alternative's peaks to the predicted ones;
  // empty: all have those.
  [[nodiscard]] Eigen::VectorXd OtherMemory() const {
    for (const trials::Predictions::Alternative& each : alternatives_) {
      if (!each.memory.empty()) {
        return LogarithmOf(each.memory);
      }
    }
    return {};
  }

  // The logarithm of the predicted values.
  [[nodiscard]] Eigen::VectorXd Predicted() const {
    Eigen::VectorXd predicted = -LogarithmOf(predictions_.step_time_s);
    for (int i = 0; i < problem_.space->size(); ++i) {
      predicted[i] -= std::log(problem_.weight((*problem_.space)[i]));
    }
    return predicted;
  }

  // The throughput's prior of the value: each term of the step time, times the
  // weight. A constant has no such terms.
  [[nodiscard]] surrogates::ParametricMean Weighted(CostModelForm form) const {
    surrogates::ParametricMean prior = surrogates::ThroughputPrior(
        *problem_.space, Shape(), form, Choices(form));
    if (prior.link == surrogates::ParametricMean::Link::kInverse) {
      for (int i = 0; i < problem_.space->size(); ++i) {
        prior.features.row(i) *= problem_.weight((*problem_.space)[i]);
      }
    }
    return prior;
  }

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

  const Problem& problem_;
  const SurrogatePair::Options& options_;
  const surrogates::EncodedSpace& space_;
  const trials::Predictions& predictions_;
  const std::vector<trials::Predictions::Alternative>& alternatives_;
};

Predicted PredictedFor(const Problem& problem,
                       const SurrogatePair::Options& options) {
  if (options.throughput_prior != CostModelForm::kPredicted &&
      options.memory_prior != CostModelForm::kPredicted) {
    return {};
  }
  if (!problem.predict) {
    throw common::InputError(
        "a predicted prior needs predictions: add a table [predictions]");
  }
  Predicted predicted{problem.predict(options.predictions)};
  if (predicted.predictions.alternatives) {
    predicted.alternatives = predicted.predictions.alternatives();
  }
  return predicted;
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

}  // namespace

SurrogatePair::SurrogatePair(const Problem& problem, const Options& options)
    : SurrogatePair(problem, options, PredictedFor(problem, options)) {}

SurrogatePair::SurrogatePair(const Problem& problem, const Options& options,
                             const Predicted& predicted)
    : capacity_bytes_(problem.machine.memory_bytes()),
      memory_log_stddev_(predicted.predictions.memory_log_stddev),
      options_(options),
      encoded_(surrogates::Encode(*problem.space,
                                  options.neutral_inactive_parameters
                                      ? surrogates::InactiveKnobs::kNeutral
                                      : surrogates::InactiveKnobs::kDefault,
                                  options.encoding)),
      throughput_(
          ProcessMaker(problem, options, encoded_, predicted).Throughput()),
      memory_(ProcessMaker(problem, options, encoded_, predicted).Memory()),
      state_(ProcessMaker(problem, options, encoded_, predicted)
                 .ModelState(memory_.prior())),
      alternatives_(
          ProcessMaker(problem, options, encoded_, predicted).Alternatives()),
      threads_(problem.threads) {
  if (options.prior_error > 0.0) {
    misspecification_ =
        surrogates::Misspecification(encoded_, options.fit.seed);
  }
}

std::vector<Suggestion::Fit> SurrogatePair::Fit(const History& history) {
  FitInput throughput{.observations = history.ThroughputObservations()};
  surrogates::Observations& observed = throughput.observations;
  if (throughput_.process().logarithmic()) {
    observed.noise_variance.array() /= observed.value.array().square();
    observed.value = observed.value.array().log();
  }
  Check(observed);
  const bool logarithmic = memory_.process().logarithmic();
  FitInput memory{
      .observations = history.MemoryObservations(
          capacity_bytes_,
          logarithmic ? std::nullopt : std::optional(kOutOfMemoryValue),
          kMemoryNoise * kMemoryNoise),
      .bounds = history.MemoryBounds()};
  if (logarithmic) {
    memory.observations.value = memory.observations.value.array().log();
  }
  surrogates::FitSummary of_memory = memory_.Fit(memory);
  SetOffset(observed);
  if (offset_.size() > 0) {
    // A process around the mean plus an offset is the process around the mean
    // of the remainder after the offset.
    throughput.offset = offset_(observed.candidate);
  }
  std::vector<Suggestion::Fit> fits = {
      {"throughput", throughput_.Fit(throughput)},
      {"memory", std::move(of_memory)}};
  for (const auto& [assumption, probability] : alternatives_.shares()) {
    fits.front().summary.parameters.push_back(
        {fmt::format("share[{}]", assumption), probability});
  }
  believers_.reset();
  if (!history.running().empty()) {
    Believe(history.running());
  }
  return fits;
}

void SurrogatePair::SetOffset(const surrogates::Observations& observed) {
  if (!alternatives_.empty()) {
    surrogates::Alternatives::Evidence by_memory;
    if (memory_.process().logarithmic() &&
        options_.fit.integrate_coefficients) {
      using surrogates::kAssumption, surrogates::kDifference;
      by_memory.another_model = memory_.process().LogOddsOfOne(kDifference);
      if (memory_.prior().size() > kAssumption) {
        by_memory.other_memory = memory_.process().LogOddsOfOne(kAssumption);
      }
    }
    alternatives_.Weigh(observed, by_memory);
    offset_ = alternatives_.difference();
  }
  if (misspecification_.size() > 0 && observed.size() > 0) {
    const double amplitude =
        options_.prior_error *
        (throughput_.process().logarithmic() ? 1.0 : observed.value.maxCoeff());
    if (alternatives_.empty()) {
      offset_.setZero(misspecification_.size());
    }
    offset_ += amplitude * misspecification_;
  }
}

void SurrogatePair::Check(const surrogates::Observations& observed) {
  if (!throughput_.process().logarithmic()) {
    return;
  }
  for (int i = static_cast<int>(checks_.size()); i < observed.size(); ++i) {
    const Marginal at = At(throughput_.process(), observed.candidate[i]);
    const double offset =
        offset_.size() > 0 ? offset_[observed.candidate[i]] : 0.0;
    const double error = observed.value[i] - at.mean - offset;
    checks_.push_back(error * error /
                      (at.variance + observed.noise_variance[i]));
  }
}

double SurrogatePair::Doubt() const {
  if (!throughput_.process().logarithmic()) {
    return 1.0;
  }
  const auto n = std::min<std::ptrdiff_t>(kChecks, std::ssize(checks_));
  const double misses = std::accumulate(checks_.end() - n, checks_.end(), 0.0);
  const double ratio =
      (kDoubtWeight + misses) / (kDoubtWeight + static_cast<double>(n));
  return std::max(1.0, ratio * ratio);
}

void SurrogatePair::Believe(const std::vector<int>& running) {
  believers_ = {throughput_.process(), memory_.process(),
                -std::numeric_limits<double>::infinity()};
  for (const int candidate : running) {
    double value = At(believers_->throughput, candidate).mean;
    const double used = At(believers_->memory, candidate).mean;
    believers_->throughput.Append(candidate, value, 0.0);
    believers_->memory.Append(candidate, used, kMemoryNoise * kMemoryNoise);
    if (offset_.size() > 0) {
      value += offset_[candidate];
    }
    if (used <= MemoryLimit()) {
      believers_->best_value = std::max(believers_->best_value, value);
    }
  }
}

std::vector<char> SurrogatePair::TriedOrTooLarge(const History& history) const {
  double share = 1.0;
  for (const trials::Trial& trial : history.trials()) {
    if (trial.HasThroughput() && state_.size() > 0) {
      const double used =
          trial.measurement.peak_memory_bytes.value_or(capacity_bytes_) /
          capacity_bytes_;
      share = std::min(share, used / state_[trial.candidate]);
    }
  }
  std::vector<char> excluded = history.tried();
  for (Eigen::Index i = 0; i < state_.size(); ++i) {
    if (share * state_[i] > 1.0) {
      excluded[static_cast<std::size_t>(i)] = 1;
    }
  }
  return common::Contains(excluded, 0) ? excluded : history.tried();
}

std::vector<char> SurrogatePair::Excluded(const History& history) const {
  constexpr double kInDoubt = 0.9;
  std::vector<char> excluded = TriedOrTooLarge(history);
  const std::vector<int>& family = families().of_candidate;
  for (const int candidate : history.running()) {
    const Marginal used = At(memory_.process(), candidate);
    if (common::NormalProbability((MemoryLimit() - used.mean) /
                                  std::sqrt(used.variance)) < kInDoubt) {
      for (std::size_t i = 0; i < excluded.size(); ++i) {
        if (family[i] == family[candidate]) {
          excluded[i] = 1;
        }
      }
    }
  }
  return excluded;
}

void SurrogatePair::PredictThroughput(
    const surrogates::GaussianProcess& process,
    surrogates::Prediction& prediction) const {
  process.Predict(prediction);
  if (offset_.size() > 0) {
    prediction.mean += offset_;
  }
}

void SurrogatePair::Predict(surrogates::Prediction& throughput,
                            surrogates::Prediction& memory) const {
  PredictThroughput(this->throughput(), throughput);
  this->memory().Predict(memory);
  if (this->throughput().logarithmic()) {
    throughput = throughput.Exponential();
  }
  if (this->memory().logarithmic()) {
    memory = memory.Exponential();
  }
}

surrogates::MeasurementPrediction SurrogatePair::PredictThroughputMeasurements()
    const {
  surrogates::Prediction prediction;
  PredictThroughput(this->throughput(), prediction);
  surrogates::Prediction others = throughput_.process().LeaveOneOut();
  // In the order of the process, whose values exclude the offset.
  const surrogates::Observations& observed =
      throughput_.process().observations();
  Eigen::VectorXd values = observed.value.head(others.mean.size());
  if (offset_.size() > 0) {
    const Eigen::VectorXd offset = offset_(observed.candidate);
    values += offset.head(values.size());
    others.mean += offset.head(values.size());
  }
  if (throughput().logarithmic()) {
    values = values.array().exp();
    others = others.Exponential();
    prediction = prediction.Exponential();
  }
  return surrogates::PredictMeasurements(values, others, prediction);
}

std::optional<trials::Remaining> SurrogatePair::EstimateRemaining(
    const History& history) {
  if (believers_) {
    believers_.reset();
    PredictThroughput(throughput(), prediction_);
  }
  surrogates::Prediction prediction = prediction_;
  if (!alternatives_.empty()) {
    prediction.variance += alternatives_.variance();
  }
  return methods::EstimateRemaining(history, prediction, throughput_.process(),
                                    memory_.process(), Doubt());
}

// A throughput r of logarithm f counts as r / r_b = exp(f - f_b), with the
// standard deviation of f times the slope of the chord between f_b and f: the
// distance to the best is as many deviations as that of the logarithms.
const surrogates::Prediction& SurrogatePair::Comparable(double& best_value) {
  if (!throughput().logarithmic()) {
    if (believers_) {
      best_value = std::max(best_value, believers_->best_value);
    }
    return prediction_;
  }
  double best =
      best_value > 0.0 ? std::log(best_value) : prediction_.mean.maxCoeff();
  if (believers_) {
    best = std::max(best, believers_->best_value);
  }
  relative_.mean = (prediction_.mean.array() - best).exp();
  relative_.variance = Doubt() * prediction_.variance;
  for (Eigen::Index i = 0; i < relative_.size(); ++i) {
    const double d = prediction_.mean[i] - best;
    const double slope =  // (exp(d) - 1) / d
        std::abs(d) > 1e-3 ? (relative_.mean[i] - 1.0) / d
                           : 1.0 + d / 2.0 + d * d / 6.0;
    relative_.variance[i] *= slope * slope;
  }
  best_value = 1.0;
  return relative_;
}

SurrogatePair::Choice SurrogatePair::ArgMax(ArgMaxOptions options,
                                            const std::vector<char>& excluded) {
  options.threads = threads_;
  PredictThroughput(throughput(), prediction_);
  const surrogates::Prediction& comparable = Comparable(options.best_value);
  Choice choice;
  choice.candidate = search_.ArgMax(
      comparable,
      [this](const std::vector<int>& candidates,
             const surrogates::PredictionView& excess) {
        memory().PredictSome(candidates, excess);
        ToMemoryExcess(MemoryLimit(), kMemoryScale, excess);
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
  surrogates::Prediction value, used;
  Predict(value, used);
  const auto size = static_cast<std::size_t>(used.size());
  std::vector<double> step_time_s(size,
                                  std::numeric_limits<double>::infinity());
  std::vector<double> fit_probability(size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    if (excluded[i] == 0 && value.mean[at] > 0.0) {
      step_time_s[i] = 1.0 / value.mean[at];
      fit_probability[i] =
          trials::FitProbability(used.mean[at], 1.0, memory_log_stddev_);
    }
  }
  Choice choice;
  choice.candidate = trials::FirstToTry(step_time_s, fit_probability);
  const auto first = static_cast<std::size_t>(choice.candidate);
  if (choice.candidate < 0 || !(fit_probability[first] > 0.0)) {
    return LeastMemory(excluded);
  }
  choice.acquisition = fit_probability[first] / step_time_s[first];
  PredictThroughput(throughput(), prediction_);
  AddPredictions(choice);
  return choice;
}

SurrogatePair::Choice SurrogatePair::LeastMemory(
    const std::vector<char>& excluded) {
  PredictThroughput(throughput(), prediction_);
  surrogates::Prediction used;
  memory().Predict(used);
  Choice choice;
  for (int i = 0; i < used.size(); ++i) {
    if (excluded[i] == 0 &&
        (choice.candidate < 0 || used.mean[i] < used.mean[choice.candidate])) {
      choice.candidate = i;
    }
  }
  if (choice.candidate >= 0) {
    AddPredictions(choice);
  }
  return choice;
}

void SurrogatePair::AddPredictions(Choice& choice) const {
  const auto in_units = [](const surrogates::GaussianProcess& process,
                           Marginal at) {
    if (process.logarithmic()) {
      at.mean = std::exp(at.mean);
      at.variance *= at.mean * at.mean;
    }
    return at;
  };
  const Marginal value =
      in_units(throughput(), {prediction_.mean[choice.candidate],
                              prediction_.variance[choice.candidate]});
  const Marginal used = in_units(memory(), At(memory(), choice.candidate));
  choice.throughput_mean = value.mean;
  choice.throughput_variance = value.variance;
  choice.memory_mean = used.mean;
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
