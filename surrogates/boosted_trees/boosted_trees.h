// Boosted trees as a surrogate of a search space.

#ifndef SURROGATES_BOOSTED_TREES_BOOSTED_TREES_H_
#define SURROGATES_BOOSTED_TREES_BOOSTED_TREES_H_

#include <string>
#include <vector>

#include "surrogates/boosted_trees/tree_ensemble.h"
#include "surrogates/surrogate.h"
#include "trials/search_space.h"

namespace surrogates {

// Regression trees on the raw fields of the configurations (no scaling: trees
// do not need it), target divided by its largest value.
//
// Source: Chen & Guestrin (2016); settings of DeepSpeed's autotuner, with
// squared error instead of its pairwise ranking, as in OPPA App. H.2.
// Errors: throws std::runtime_error with the library's message.
// Note: trees give no uncertainty; Prediction::variance is zero.
class BoostedTrees {
 public:
  using Options = TreeOptions;

  BoostedTrees(const trials::SearchSpace& space, const Options& options);

  // Noise variances are ignored, as DeepSpeed does.
  FitSummary Fit(const Observations& observations);
  // Before the first fit every prediction is zero.
  void Predict(Prediction& prediction) const;

 private:
  Options options_;
  int columns_ = 0;
  std::vector<float> features_;  // [N, columns], row-major
  Eigen::VectorXd prediction_;
};

}  // namespace surrogates

#endif  // SURROGATES_BOOSTED_TREES_BOOSTED_TREES_H_
