#include "methods/planners/amp/placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace methods {
namespace {

// Stages of `high` GPUs in each of `wide` hosts, in the order of `hosts`.
Placement Rectangles(const std::vector<int>& hosts, int gpus_per_host, int high,
                     int wide, bool within_hosts_first) {
  const int rows = gpus_per_host / high;
  const int columns = static_cast<int>(hosts.size()) / wide;
  Placement placement;
  for (int s = 0; s < rows * columns; ++s) {
    const int column = within_hosts_first ? s / rows : s % columns;
    const auto first = hosts.begin() + column * wide;
    std::vector<int> stage;
    for (int w = 0; w < wide; ++w) {
      stage.insert(stage.end(), high, *(first + w));
    }
    placement.hosts.push_back(std::move(stage));
  }
  return placement;
}

std::vector<std::vector<int>> HostOrders(const AmpCluster& cluster) {
  std::vector<int> given(cluster.bandwidth.size());
  std::iota(given.begin(), given.end(), 0);
  std::vector<int> slowest_first = given;
  std::stable_sort(slowest_first.begin(), slowest_first.end(),
                   [&](int a, int b) {
                     return cluster.bandwidth[a] < cluster.bandwidth[b];
                   });
  std::vector<int> fastest_first(slowest_first.rbegin(), slowest_first.rend());
  if (cluster.bandwidth[slowest_first.front()] ==
      cluster.bandwidth[slowest_first.back()]) {
    return {given};
  }
  return {given, fastest_first, slowest_first};
}

}  // namespace

std::vector<Placement> RegularPlacements(const AmpCluster& cluster, int stages,
                                         int gpus_per_stage) {
  std::vector<Placement> placements;
  if (stages * gpus_per_stage != cluster.hosts() * cluster.gpus_per_host) {
    return placements;
  }
  for (const std::vector<int>& hosts : HostOrders(cluster)) {
    for (int high = 1; high <= cluster.gpus_per_host; ++high) {
      if (cluster.gpus_per_host % high != 0 || gpus_per_stage % high != 0 ||
          cluster.hosts() % (gpus_per_stage / high) != 0) {
        continue;
      }
      for (const bool within_hosts_first : {true, false}) {
        Placement placement =
            Rectangles(hosts, cluster.gpus_per_host, high,
                       gpus_per_stage / high, within_hosts_first);
        if (std::find(placements.begin(), placements.end(), placement) ==
            placements.end()) {
          placements.push_back(std::move(placement));
        }
      }
    }
  }
  return placements;
}

}  // namespace methods
