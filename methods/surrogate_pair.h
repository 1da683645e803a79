// The two surrogates of constrained search: throughput and memory.

#ifndef METHODS_SURROGATE_PAIR_H_
#define METHODS_SURROGATE_PAIR_H_

#include <cstdint>
#include <vector>

#include "methods/acquisition.h"
#include "methods/history.h"
#include "methods/method.h"
#include "surrogates/encoding.h"
#include "surrogates/gp/gaussian_process.h"
#include "surrogates/gp/measurement.h"
#include "surrogates/parametric_mean.h"

namespace methods {

// Throughput in steps/s and peak memory in units of the capacity, each a
// Gaussian process over the same embedded candidates.
class SurrogatePair {
 public:
  struct Options {
    double out_of_memory_value = 1.1;          // >= 1, see OppaOptions
    double memory_noise = 0.002;               // > 0, see OppaOptions
    surrogates::GaussianProcess::Options fit;  // threads: the problem's
    int refit_every_trial_until = 100;         // observations, >= 0
    double refit_growth = 0.1;                 // >= 0; 0: every trial
    // In the place of fit's, for the throughput: it scatters more.
    double throughput_misfit_scale = 0.5;
    double throughput_misfit_log_stddev = 0.7;
    // By how much of the capacity a memory prior that knows its job's size may
    // be wrong. > 0
    double memory_error = 0.2;
    surrogates::InactiveKnobs inert_knobs = surrogates::InactiveKnobs::kNeutral;
    // A wrong opinion added to the throughput's prior mean, at most so much of
    // the best throughput so far; 0: none. See Misspecification. >= 0
    double prior_error = 0.0;
  };

  // The means have a row per candidate of problem.space.
  SurrogatePair(const Problem& problem,
                surrogates::ParametricMean throughput_prior,
                surrogates::ParametricMean memory_prior,
                const Options& options);

  // The processes point to the embedding in here.
  SurrogatePair(const SurrogatePair&) = delete;
  SurrogatePair& operator=(const SurrogatePair&) = delete;

  // Fits both to the history. From refit_every_trial_until observations on,
  // hyperparameters are learned anew only when the observations have grown by
  // refit_growth since; those in between are appended.
  [[nodiscard]] std::vector<Suggestion::Fit> Fit(const History& history);

  // Predicts every candidate.
  void Predict(surrogates::Prediction& throughput,
               surrogates::Prediction& memory) const;

  // What a person is told of the throughput that a trial of each candidate
  // would measure; the search does not use it.
  [[nodiscard]] surrogates::MeasurementPrediction
  PredictThroughputMeasurements() const;

  // Of the throughputs of the last Fit, in nats.
  [[nodiscard]] double information_gain() const {
    return throughput_.information_gain();
  }

  // A candidate and what is believed of it.
  struct Choice {
    int candidate = -1;  // -1: there is none
    double cucb = 0.0;
    double throughput_mean = 0.0;
    double throughput_variance = 0.0;
    double memory_mean = 0.0;
    double memory_variance = 0.0;
  };

  // The candidate with the highest cUCB among those with excluded[i] == 0 (see
  // ConstrainedUcbSearch), the memory's excess in units of `memory_scale` > 0.
  // Predicts the memory of those only that may win.
  [[nodiscard]] Choice ArgMaxConstrainedUcb(double beta,
                                            double memory_scale,
                                            const std::vector<char>& excluded);

 private:
  void PredictThroughput(surrogates::Prediction& prediction) const;

  double capacity_bytes_;
  Options options_;
  surrogates::EncodedSpace encoded_;
  // What a process was last shown, in the order of the history.
  struct Shown {
    surrogates::Observations observations;
    int fitted = 0;  // of them, when hyperparameters were learned
  };
  [[nodiscard]] surrogates::FitSummary Learn(
      const surrogates::Observations& observations,
      surrogates::GaussianProcess& process,
      Shown& shown) const;

  surrogates::ParametricMean throughput_prior_;
  surrogates::ParametricMean memory_prior_;
  surrogates::GaussianProcess throughput_;
  surrogates::GaussianProcess memory_;
  Shown shown_throughput_, shown_memory_;
  // What is added to the throughput's prior mean, [N], empty: nothing; and by
  // how much, in steps/s.
  Eigen::VectorXd wrong_opinion_;
  double opinion_steps_per_s_ = 0.0;
  int threads_;
  surrogates::Prediction prediction_;  // of throughput, all candidates
  ConstrainedUcbSearch search_;
};

}  // namespace methods

#endif  // METHODS_SURROGATE_PAIR_H_
