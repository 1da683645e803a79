#include "surrogates/gp/fit.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/parallel.h"
#include "surrogates/gp/bfgs.h"

namespace surrogates {

HyperparameterFit MaximiseOverStarts(const Likelihood& likelihood,
                                     const std::vector<Hyperparameters>& starts,
                                     const HyperparameterBox& box,
                                     const FitOptions& options) {
  if (starts.empty()) {
    throw std::invalid_argument("MaximiseOverStarts: no start");
  }
  const int count = static_cast<int>(starts.size());
  const int workers = std::min(options.threads, count);
  // An evaluation keeps buffers, so each worker has its own copy.
  std::vector<Likelihood> copies(static_cast<std::size_t>(workers), likelihood);
  std::vector<BoxBfgs> searches;
  for (const Hyperparameters& start : starts) {
    searches.emplace_back(likelihood.Pack(start), box.lower, box.upper);
  }
  std::vector<int> order(starts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto advance = [&](int starts_left, int iterations) {
    common::ParallelFor(starts_left, workers, [&](int worker, int place) {
      Likelihood& copy = copies[static_cast<std::size_t>(worker)];
      const Objective objective = [&](const Eigen::VectorXd& x,
                                      Eigen::VectorXd* gradient) {
        const double value = -copy.Evaluate(x, gradient);
        *gradient = -*gradient;
        return value;
      };
      const int start = order[static_cast<std::size_t>(place)];
      searches[static_cast<std::size_t>(start)].Advance(objective, iterations);
    });
    // Stable: the first of equals stays in front.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return searches[static_cast<std::size_t>(a)].summary().value <
             searches[static_cast<std::size_t>(b)].summary().value;
    });
  };
  advance(count,
          std::min(options.screening_iterations, options.max_iterations));
  advance(std::min(options.survivors, count), options.max_iterations);

  const BfgsSummary best =
      searches[static_cast<std::size_t>(order.front())].summary();
  HyperparameterFit fit{.best = likelihood.Unpack(best.x),
                        .log_posterior = -best.value,
                        .converged = best.converged};
  for (const BoxBfgs& search : searches) {
    fit.evaluations += search.summary().evaluations;
  }
  for (const Likelihood& copy : copies) {
    fit.jitter_retries += copy.jitter_retries();
  }
  return fit;
}

}  // namespace surrogates
