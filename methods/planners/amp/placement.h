// The hosts on which AMP places pipeline stages.

#ifndef METHODS_PLANNERS_AMP_PLACEMENT_H_
#define METHODS_PLANNERS_AMP_PLACEMENT_H_

#include <vector>

namespace methods {

// Hosts with the same number of GPUs. `bandwidth` has a factor for the links of
// each host, within it and to others: a transfer between hosts has the smaller
// factor of both.
struct AmpCluster {
  int gpus_per_host = 1;
  std::vector<double> bandwidth;  // [hosts], > 0

  [[nodiscard]] int hosts() const { return static_cast<int>(bandwidth.size()); }
};

// The host of every GPU. GPU k of a stage has the tensor-parallel rank k % tp
// and belongs to replica k / tp.
struct Placement {
  std::vector<std::vector<int>> hosts;  // [stages][GPUs of a stage]

  friend bool operator==(const Placement&, const Placement&) = default;
};

// The regular placements of stages with so many GPUs: a stage is a rectangle of
// h GPUs in each of w hosts, the same for all stages, and stages follow each
// other within hosts first or across hosts first. If the hosts differ, also
// with the fastest hosts first and with the slowest first. None is twice in the
// result. Tilings that mix rectangles of two shapes are not built.
// Source: the published program of Li et al. (2022), which tiles the cluster.
[[nodiscard]] std::vector<Placement> RegularPlacements(
    const AmpCluster& cluster, int stages, int gpus_per_stage);

}  // namespace methods

#endif  // METHODS_PLANNERS_AMP_PLACEMENT_H_
