// The assignment of layers to pipeline stages by AMP's dynamic program.

#ifndef METHODS_PLANNERS_AMP_LAYER_ASSIGNMENT_H_
#define METHODS_PLANNERS_AMP_LAYER_ASSIGNMENT_H_

#include <vector>

namespace methods {

// The first layer of each stage, then the number of layers.
struct LayerAssignment {
  std::vector<int> first;  // [stages + 1]; empty: there are too few layers
  double ms = 0.0;
};

// The assignment of contiguous layers to stages, at least one each, with the
// least
//
//   sum_i t_i + sum_i e_i + (B - 1) max_i t_i,
//
// where t_i is the sum over the layers of stage i, e_i the transfer from stage
// i to i + 1 and B the number of microbatches. For each bound on max_i t_i, a
// dynamic program over layers and stages finds the least sum of e_i; bounds are
// the sums of contiguous layers.
// Shapes: layer_ms is [L]; transfer_ms is [stages - 1][L - 1], by stage and by
//         the layer whose output is sent. All >= 0 and finite.
// Source: Li et al. (2022), arXiv 2210.07297, its layer assignment.
[[nodiscard]] LayerAssignment AssignLayers(
    const std::vector<double>& layer_ms,
    const std::vector<std::vector<double>>& transfer_ms, int stages,
    int microbatches);

}  // namespace methods

#endif  // METHODS_PLANNERS_AMP_LAYER_ASSIGNMENT_H_
