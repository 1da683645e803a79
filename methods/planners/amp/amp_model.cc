#include "methods/planners/amp/amp_model.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "common/units.h"
#include "methods/planners/aceso/conversions.h"

namespace methods {
namespace {

using common::kInfinity;

const OperatorProfile* ProfileOf(const OperatorModel& model, int op,
                                 const AmpSizes& sizes) {
  return model.Profile(op, sizes.dp * sizes.micro_batch,
                       OperatorChoice::Of(sizes.tp, sizes.dp));
}

// What precedes the first repeated layer, each layer, and what follows the last
// one, which has as many operators as the others.
std::vector<int> AmpLayers(const OperatorModel& model) {
  std::vector<int> first = LayersOf(model);
  if (first.size() > 1) {
    const int end = first.back() + (first[1] - first[0]);
    if (end < model.operators()) {
      first.push_back(end);
    }
  }
  if (first.empty() || first.front() > 0) {
    first.insert(first.begin(), 0);
  }
  first.push_back(model.operators());
  return first;
}

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
  std::ranges::stable_sort(slowest_first, [&](int a, int b) {
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
        if (std::ranges::find(placements, placement) == placements.end()) {
          placements.push_back(std::move(placement));
        }
      }
    }
  }
  return placements;
}

AmpModel::AmpModel(const OperatorModel& operators, AmpCluster cluster)
    : operators_(operators),
      cluster_(std::move(cluster)),
      layers_(AmpLayers(operators)) {
  if (cluster_.hosts() * cluster_.gpus_per_host != operators.job().gpus) {
    throw std::invalid_argument("the cluster has another number of GPUs");
  }
}

int AmpModel::MicrobatchesOf(const AmpSizes& sizes) const {
  const int batch = operators_.job().batch;
  const int sequences = sizes.dp * sizes.micro_batch;
  return batch % sequences == 0 ? batch / sequences : 0;
}

std::vector<double> AmpModel::LayerMs(const AmpSizes& sizes) const {
  std::vector<double> ms(layers_.size() - 1, 0.0);
  for (std::size_t layer = 0; layer < ms.size(); ++layer) {
    for (int op = layers_[layer]; op < layers_[layer + 1]; ++op) {
      const OperatorProfile* profile = ProfileOf(operators_, op, sizes);
      ms[layer] += profile == nullptr
                       ? kInfinity
                       : 1e-3 * (profile->forward_us + profile->backward_us);
    }
  }
  return ms;
}

double AmpModel::LinkMs(double mb, int host, int other) const {
  const auto factor = [this](int of) { return cluster_.bandwidth[of]; };
  return 1e-3 * operators_.links().TransferUs(mb, host != other) /
         std::min(factor(host), factor(other));
}

double AmpModel::TransferMs(const AmpSizes& sizes, const std::vector<int>& from,
                            const std::vector<int>& to, double mb) const {
  double sum = 0.0;
  for (int replica = 0; replica < sizes.dp; ++replica) {
    double slowest = 0.0;
    for (int rank = 0; rank < sizes.tp; ++rank) {
      const int gpu = replica * sizes.tp + rank;
      slowest = std::max(
          slowest, LinkMs(mb, *(from.begin() + gpu), *(to.begin() + gpu)));
    }
    sum += slowest;
  }
  return sum / sizes.dp;
}

double AmpModel::SentMb(const AmpSizes& sizes, std::size_t layer) const {
  const OperatorProfile* last =
      ProfileOf(operators_, layers_[layer + 1] - 1, sizes);
  return last == nullptr ? kInfinity : last->output_mb;
}

std::vector<std::vector<double>> AmpModel::TransferMs(
    const AmpSizes& sizes, const Placement& placement) const {
  std::vector<std::vector<double>> all;
  for (std::size_t stage = 0; stage + 1 < placement.hosts.size(); ++stage) {
    std::vector<double> by_layer;
    double mb_before = -1.0;
    for (std::size_t layer = 0; layer + 2 < layers_.size(); ++layer) {
      const double mb = SentMb(sizes, layer);
      by_layer.push_back(
          mb == mb_before ? by_layer.back()
                          : 2.0 * TransferMs(sizes, placement.hosts[stage],
                                             placement.hosts[stage + 1], mb));
      mb_before = mb;
    }
    all.push_back(std::move(by_layer));
  }
  return all;
}

double AmpModel::ReduceMs(const AmpSizes& sizes, const std::vector<int>& hosts,
                          double gradients_mb) const {
  double slowest = 0.0;
  for (int rank = 0; rank < sizes.tp; ++rank) {
    for (int replica = 0; replica < sizes.dp; ++replica) {
      const auto at = [&](int of) {
        return *(hosts.begin() + of % sizes.dp * sizes.tp + rank);
      };
      slowest = std::max(slowest,
                         LinkMs(2.0 * (sizes.dp - 1) / sizes.dp * gradients_mb,
                                at(replica), at(replica + 1)));
    }
  }
  return slowest;
}

AmpCost AmpModel::Cost(const AmpSizes& sizes, const Placement& placement,
                       const std::vector<int>& first) const {
  const std::vector<double> layer_ms = LayerMs(sizes);
  AmpCost cost;
  for (std::size_t stage = 0; stage + 1 < first.size(); ++stage) {
    const auto begin = static_cast<std::size_t>(first[stage]);
    const auto end = static_cast<std::size_t>(first[stage + 1]);
    cost.stage_ms.push_back(std::accumulate(layer_ms.begin() + first[stage],
                                            layer_ms.begin() + first[stage + 1],
                                            0.0));
    if (stage + 2 < first.size()) {
      cost.transfer_ms.push_back(2.0 * TransferMs(sizes, placement.hosts[stage],
                                                  placement.hosts[stage + 1],
                                                  SentMb(sizes, end - 1)));
    }
    double weights_mb = 0.0;
    for (int op = layers_[begin]; op < layers_[end]; ++op) {
      const OperatorProfile* profile = ProfileOf(operators_, op, sizes);
      weights_mb += profile == nullptr ? kInfinity : profile->weights_mb;
    }
    // Weights have 16 bits and gradients 32.
    cost.reduce_ms =
        std::max(cost.reduce_ms,
                 ReduceMs(sizes, placement.hosts[stage], 2.0 * weights_mb));
  }
  const auto sum = [](const std::vector<double>& ms) {
    return std::accumulate(ms.begin(), ms.end(), 0.0);
  };
  cost.iteration_ms =
      sum(cost.stage_ms) + sum(cost.transfer_ms) +
      (MicrobatchesOf(sizes) - 1) * *std::ranges::max_element(cost.stage_ms) +
      cost.reduce_ms;
  return cost;
}

OperatorPlan AmpModel::PlanOf(const AmpSizes& sizes,
                              const std::vector<int>& first) const {
  OperatorPlan plan;
  plan.micro_batch = sizes.dp * sizes.micro_batch;
  for (const int layer : first) {
    plan.first.push_back(layers_[layer]);
  }
  plan.choices.assign(operators_.operators(),
                      OperatorChoice::Of(sizes.tp, sizes.dp));
  return plan;
}

}  // namespace methods
