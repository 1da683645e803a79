#include "surrogates/gp/fit.h"

#include <algorithm>
#include <stdexcept>

#include "surrogates/gp/bfgs.h"
#include "surrogates/gp/parallel.h"

namespace surrogates {

HyperparameterFit MaximiseOverStarts(const Likelihood& likelihood,
                                     const std::vector<Hyperparameters>& starts,
                                     const HyperparameterBox& box,
                                     int max_iterations,
                                     int threads) {
  if (starts.empty()) {
    throw std::invalid_argument("MaximiseOverStarts: no start");
  }
  const int count = static_cast<int>(starts.size());
  const int workers = std::min(threads, count);
  // An evaluation keeps buffers, so each worker has its own copy.
  std::vector<Likelihood> copies(static_cast<std::size_t>(workers), likelihood);
  std::vector<BfgsSummary> summaries(starts.size());
  ParallelFor(count, workers, [&](int worker, int start) {
    Likelihood& copy = copies[static_cast<std::size_t>(worker)];
    const Objective objective = [&](const Eigen::VectorXd& x,
                                    Eigen::VectorXd* gradient) {
      const double value = -copy.Evaluate(x, gradient);
      *gradient = -*gradient;
      return value;
    };
    summaries[static_cast<std::size_t>(start)] =
        MinimizeBfgs(objective,
                     copy.Pack(starts[static_cast<std::size_t>(start)]),
                     box.lower,
                     box.upper,
                     {.max_iterations = max_iterations});
  });
  HyperparameterFit fit;
  const auto best =
      std::min_element(summaries.begin(),
                       summaries.end(),
                       [](const BfgsSummary& a, const BfgsSummary& b) {
                         return a.value < b.value;
                       });
  fit.best = likelihood.Unpack(best->x);
  fit.log_posterior = -best->value;
  fit.converged = best->converged;
  for (const BfgsSummary& summary : summaries) {
    fit.evaluations += summary.evaluations;
  }
  for (const Likelihood& copy : copies) {
    fit.jitter_retries += copy.jitter_retries();
  }
  return fit;
}

}  // namespace surrogates
