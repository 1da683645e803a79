// Gradient-boosted regression trees, by the XGBoost library, alone and as a
// surrogate of a search space.

#pragma once

#include <memory>
#include <vector>

#include "surrogates/surrogate.h"
#include "trials/search_space.h"

namespace surrogates {

// What trees are fitted to: the labels, or their order. Predictions of an order
// have no unit.
enum class TreeObjective { kSquaredError, kPairwiseRanking };

struct TreeOptions {
  TreeObjective objective = TreeObjective::kSquaredError;
  int rounds = 10;                // >= 1
  int max_depth = 3;              // >= 1
  double eta = 0.3;               // in (0, 1]
  double gamma = 1e-4;            // >= 0
  double min_child_weight = 1.0;  // >= 0
  double lambda = 1.0;            // >= 0, L2 on leaf weights
  double alpha = 0.0;             // >= 0, L1 on leaf weights
};

// Boosted trees, on one thread.
//
// Shapes: rows is [N, columns], row-major; labels [N], N >= 1.
// Source: Chen & Guestrin (2016).
// Note: version 1 of the library, which is linked, ranks one random partner of
// each row in a round; later versions compare all pairs with the best 32 rows.
// Errors: throws std::runtime_error with the library's message.
class TreeEnsemble {
 public:
  TreeEnsemble(const std::vector<float>& rows, const std::vector<float>& labels,
               int columns, const TreeOptions& options);

  // The predictions of rows, [M, columns].
  [[nodiscard]] std::vector<float> Predict(
      const std::vector<float>& rows) const;

 private:
  int columns_;
  std::shared_ptr<void> train_;  // the library's matrix, which outlives its use
  std::shared_ptr<void> booster_;
};

// Regression trees on the raw fields of the configurations (no scaling: trees
// do not need it), target divided by its largest value.
//
// Source: Chen & Guestrin (2016); the defaults are the settings of DeepSpeed's
// autotuner but for the objective, which it sets to pairwise ranking.
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
