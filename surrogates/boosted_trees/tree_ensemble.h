// Gradient-boosted regression trees, by the XGBoost library.

#ifndef SURROGATES_BOOSTED_TREES_TREE_ENSEMBLE_H_
#define SURROGATES_BOOSTED_TREES_TREE_ENSEMBLE_H_

#include <memory>
#include <vector>

namespace surrogates {

struct TreeOptions {
  int rounds = 10;                // >= 1
  int max_depth = 3;              // >= 1
  double eta = 0.3;               // in (0, 1]
  double gamma = 1e-4;            // >= 0
  double min_child_weight = 1.0;  // >= 0
  double lambda = 1.0;            // >= 0, L2 on leaf weights
  double alpha = 0.0;             // >= 0, L1 on leaf weights
};

// Trees of least squared errors, on one thread.
//
// Shapes: rows is [N, columns], row-major; labels [N], N >= 1.
// Source: Chen & Guestrin (2016).
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

}  // namespace surrogates

#endif  // SURROGATES_BOOSTED_TREES_TREE_ENSEMBLE_H_
