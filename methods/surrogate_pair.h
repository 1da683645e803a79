// The two surrogates of constrained search: throughput and memory.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "methods/acquisition.h"
#include "methods/fitted_process.h"
#include "methods/history.h"
#include "methods/method.h"
#include "methods/options.h"
#include "surrogates/cost/cost_model.h"
#include "surrogates/cost/predicted_prior.h"
#include "surrogates/encoding.h"
#include "surrogates/gp/gaussian_process.h"
#include "surrogates/gp/measurement.h"
#include "trials/remaining.h"

namespace methods {

struct Predicted;  // predictions with the alternatives to them

// Throughput (the value of a candidate, see trials::Weight) and peak
// memory in units of the capacity, each a Gaussian process over the
// same embedded candidates.
//
// With predictions of every candidate, a process models the logarithm of its
// target, the residual of the predictions (surrogates::PredictedMean): their
// errors are ratios that configurations of a kind share, and a few trials
// correct them. There, out of memory is a bound (surrogates::WithBounds), and
// cUCB compares throughputs by their ratio to the best.
// docs/decisions/0024-residual-process.md has the reasons.
class SurrogatePair {
 public:
  struct Options {
    // The equations of the two prior means.
    surrogates::CostModelForm throughput_prior =
        surrogates::CostModelForm::kPhysical;
    surrogates::CostModelForm memory_prior =
        surrogates::CostModelForm::kPhysical;
    surrogates::CostModelChoices choices;
    // Start the physical form at the sizes of the job, where the manifest or
    // the facts of a table describe it (CostModelChoices::sizes).
    bool job_sizes = true;
    // The source of a predicted prior; see Problem::predict.
    std::string predictions;
    // The fit of both processes. `seed` is that of the throughput process,
    // `threads` is replaced by the problem's.
    surrogates::GaussianProcess::Options fit;
    // Replaces fit.family.scale for throughput: the error of the prior of a
    // whole family, in units of the highest throughput. >= 0
    double family_error = 0.3;
    int refit_every_trial_until = 100;  // observations, >= 0
    double refit_growth = 0.1;          // >= 0; 0: refit at every trial
    // Clip a memory prior at the capacity, as printed, instead of at the
    // observation of an out-of-memory trial.
    bool clip_at_capacity = false;
    // Gradient of a clipped memory prior, as a share of the unclipped one. With
    // 0, as printed, trials that ran out of memory do not move its coefficients
    // once it is clipped at them. In [0, 1].
    double clip_gradient = 0.1;
    // False: inactive parameters at their defaults, the paper's embedding.
    bool neutral_inactive_parameters = true;
    surrogates::SizeScale encoding = surrogates::SizeScale::kLog2;
    // Amplitude of a perturbation of the throughput's prior mean in units of
    // the best throughput so far, or of its logarithm; 0: none. See
    // Misspecification. >= 0
    double prior_error = 0.0;

    // Whether a prior is of the physical form, also pooled with predictions,
    // and starts at the sizes of the job.
    [[nodiscard]] bool ReadsJob() const {
      using Form = surrogates::CostModelForm;
      return job_sizes && (throughput_prior == Form::kPhysical ||
                           throughput_prior == Form::kPredicted ||
                           memory_prior == Form::kPhysical ||
                           memory_prior == Form::kPredicted);
    }
  };

  SurrogatePair(const Problem& problem, const Options& options);

  // The processes point to the embedding of this object.
  SurrogatePair(const SurrogatePair&) = delete;
  SurrogatePair& operator=(const SurrogatePair&) = delete;

  // Fits both to the history. Until the next Fit, ArgMax and FirstToTry assume
  // that running trials measure what was predicted for them, their posterior
  // means (the kriging believer of Ginsbourger et al., 2010, Sec. 4). From
  // refit_every_trial_until observations on, hyperparameters are refitted only
  // when the observations have grown by refit_growth; those in between are
  // appended.
  [[nodiscard]] std::vector<Suggestion::Fit> Fit(const History& history);

  // The candidates that were tried or run, and, where the prior of memory knows
  // the job, those whose parameters, gradients and optimizer state alone exceed
  // the capacity, unless that leaves none. A trial that ran in less than its
  // own (offloading, few trained parameters) lowers those of all. [N]
  [[nodiscard]] std::vector<char> TriedOrTooLarge(const History& history) const;

  // These, and, where a running trial fits with a probability below 0.9, its
  // family: two of them would fail together. [N]
  [[nodiscard]] std::vector<char> Excluded(const History& history) const;

  // Predicts every candidate.
  void Predict(surrogates::Prediction& throughput,
               surrogates::Prediction& memory) const;

  // The throughput that a trial of each candidate would measure, with
  // calibrated intervals for reports; the search does not use it.
  [[nodiscard]] surrogates::MeasurementPrediction
  PredictThroughputMeasurements() const;

  // The families of the candidates.
  [[nodiscard]] const surrogates::Families& families() const {
    return encoded_.families;
  }

  // Information gain of the throughputs of the last Fit, in nats.
  [[nodiscard]] double information_gain() const {
    return throughput_.process().information_gain();
  }

  // A candidate and its prediction.
  struct Choice {
    int candidate = -1;        // -1: there is none
    double acquisition = 0.0;  // its value
    double throughput_mean = 0.0;
    double throughput_variance = 0.0;
    double memory_mean = 0.0;
    double memory_variance = 0.0;
  };

  // The candidate with the highest value of an acquisition function among those
  // with excluded[i] == 0 (see AcquisitionSearch), with the threads of the
  // problem. Predicts memory only for candidates that may win.
  [[nodiscard]] Choice ArgMax(ArgMaxOptions options,
                              const std::vector<char>& excluded);

  // The candidate with excluded[i] == 0 to try before any has run, by the means
  // of both processes and the spread of measured peaks around predictions
  // (trials::FirstToTry); that of LeastMemory if none has a chance to fit.
  [[nodiscard]] Choice FirstToTry(const std::vector<char>& excluded);

  // The candidate with the least predicted memory among those with
  // excluded[i] == 0, also where all of them are predicted not to fit.
  [[nodiscard]] Choice LeastMemory(const std::vector<char>& excluded);

  // How much the search may still gain, running trials included, by the
  // predictions of the last ArgMax, where alternatives to predictions are as
  // probable as they are; nothing before the first completed trial.
  [[nodiscard]] std::optional<trials::Remaining> EstimateRemaining(
      const History& history);

 private:
  SurrogatePair(const Problem& problem, const Options& options,
                const Predicted& predicted);
  // The processes at the observations and, after Believe, at running trials.
  struct Believers {
    surrogates::GaussianProcess throughput, memory;
    // Of running trials that are predicted to fit, as the process has it.
    double best_value;
  };
  void Believe(const std::vector<int>& running);
  // Sets offset_ by the throughputs and by the memory process.
  void SetOffset(const surrogates::Observations& observed);
  // Compares what the process predicts with the observations that it has not
  // seen.
  void Check(const surrogates::Observations& observed);
  // The factor of a variance by which the errors of the last trials exceed what
  // was predicted for them,
  //
  //   max(1, (2 + sum_i z_i^2) / (2 + n))^2,
  //
  // of the squared errors z_i^2 in units of their variance. A process around
  // predictions knows their error only from its trials, and one that is wrong
  // does not know it: the acquisition and the expected gain are as uncertain.
  [[nodiscard]] double Doubt() const;
  [[nodiscard]] const surrogates::GaussianProcess& throughput() const {
    return believers_ ? believers_->throughput : throughput_.process();
  }
  [[nodiscard]] const surrogates::GaussianProcess& memory() const {
    return believers_ ? believers_->memory : memory_.process();
  }
  void PredictThroughput(const surrogates::GaussianProcess& process,
                         surrogates::Prediction& prediction) const;
  // The capacity in the unit of the memory process.
  [[nodiscard]] double MemoryLimit() const {
    return memory_.process().logarithmic() ? 0.0 : 1.0;
  }
  // prediction_ with throughputs that acquisition functions can compare, and
  // the best one among these.
  const surrogates::Prediction& Comparable(double& best_value);
  void AddPredictions(Choice& choice) const;

  double capacity_bytes_;
  double memory_log_stddev_;  // of predictions
  Options options_;
  surrogates::EncodedSpace encoded_;
  FittedProcess throughput_;
  FittedProcess memory_;
  // What TriedOrTooLarge compares with the capacity, in its unit; [N] or empty.
  Eigen::VectorXd state_;
  std::optional<Believers> believers_;  // while trials run
  std::vector<double> checks_;          // squared errors over variances
  // Other assumptions than those of the predictions.
  surrogates::Alternatives alternatives_;
  Eigen::VectorXd misspecification_;  // see Options::prior_error; [N] or empty
  // What is added to the throughput's prior mean, [N]; empty: nothing.
  Eigen::VectorXd offset_;
  int threads_;
  // Of throughput, all candidates, and Comparable() for logarithms.
  surrogates::Prediction prediction_, relative_;
  AcquisitionSearch search_;
};

// The surrogates that App. D and Sec. 4.1 of the paper print. The bounds of the
// fit only keep its numbers finite.
[[nodiscard]] SurrogatePair::Options PrintedSurrogates();

// The surrogates of VANILLA-BO (App. H.2): constant means, with the embedding
// of the paper and the fit of BoTorch, the maximum of the posterior under weak
// priors.
[[nodiscard]] SurrogatePair::Options VanillaSurrogates();

[[nodiscard]] std::vector<Option> OptionsOf(SurrogatePair::Options& options);
// The option `t_comp` of a method.
[[nodiscard]] Option ComputeTimeOption(SurrogatePair::Options& options);

}  // namespace methods
