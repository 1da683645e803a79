#include "methods/posterior_predictions.h"

#include <algorithm>

#include "methods/history.h"
#include "methods/surrogate_pair.h"
#include "surrogates/surrogate.h"

namespace methods {

trials::Predictions PosteriorPredictions(
    const Problem& problem, const std::vector<trials::Trial>& trials) {
  // Far from the trials, a mean may be 0 or negative.
  constexpr double kLeast =
      0.01;  // of the best throughput, and of the capacity
  // The least share of the memory that the priors expect before any trial: the
  // trials may be of a smaller model.
  constexpr double kShareOfPrior = 0.5;
  const int n = problem.space->size();
  History history(n, {}, problem.weight);
  for (const trials::Trial& trial : trials) {
    history.Add(trial);
  }
  SurrogatePair surrogates(problem, {});
  surrogates::Prediction before;
  surrogates::Prediction unused;
  (void)surrogates.Fit(History(n, {}, problem.weight));
  surrogates.Predict(unused, before);
  (void)surrogates.Fit(history);
  surrogates::Prediction throughput;
  surrogates::Prediction memory;
  surrogates.Predict(throughput, memory);
  trials::Predictions predictions;
  for (int i = 0; i < n; ++i) {
    // A value is a throughput over the weight (trials::Weight).
    predictions.step_time_s.push_back(
        1.0 / (std::max(throughput.mean[i], kLeast * history.best_value()) *
               problem.weight((*problem.space)[i])));
    predictions.peak_memory_bytes.push_back(
        std::max({memory.mean[i], kShareOfPrior * before.mean[i], kLeast}) *
        problem.machine.memory_bytes());
  }
  return predictions;
}

}  // namespace methods
