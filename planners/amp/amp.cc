#include "planners/amp/amp.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "common/ranges.h"
#include "common/units.h"
#include "planners/aceso/conversions.h"

namespace planners {
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

// Stages of `high` GPUs in each of `wide` hosts.
Placement Rectangles(const AmpCluster& cluster, int high, int wide,
                     bool within_hosts_first) {
  const int rows = cluster.gpus_per_host / high;
  const int columns = cluster.hosts / wide;
  Placement placement;
  for (int s = 0; s < rows * columns; ++s) {
    const int column = within_hosts_first ? s / rows : s % columns;
    std::vector<int> stage;
    for (int w = 0; w < wide; ++w) {
      stage.insert(stage.end(), high, column * wide + w);
    }
    placement.hosts.push_back(std::move(stage));
  }
  return placement;
}

class AssignmentProgram {
 public:
  AssignmentProgram(const std::vector<double>& layer_ms,
                    const std::vector<std::vector<double>>& transfer_ms,
                    int stages)
      : transfer_ms_(transfer_ms),
        layers_(layer_ms.size()),
        stages_(static_cast<std::size_t>(stages)),
        sums_(layers_ + 1, 0.0),
        least_(stages_, std::vector<double>(layers_ + 1)),
        begin_(stages_, std::vector<std::size_t>(layers_ + 1)) {
    std::partial_sum(layer_ms.begin(), layer_ms.end(), sums_.begin() + 1);
  }

  [[nodiscard]] double Total() const { return sums_.back(); }

  // All values of max_i t_i, ascending, from the least that may be one.
  [[nodiscard]] std::vector<double> Bounds() const {
    std::vector<double> bounds;
    for (std::size_t i = 0; i < layers_; ++i) {
      for (std::size_t j = i + 1; j <= layers_; ++j) {
        if (sums_[j] - sums_[i] >=
            Total() / static_cast<double>(stages_) * (1.0 - 1e-12)) {
          bounds.push_back(sums_[j] - sums_[i]);
        }
      }
    }
    std::ranges::sort(bounds);
    // Equal up to rounding: the largest of them admits what the others do.
    std::vector<double> distinct;
    for (const double bound : bounds) {
      if (!distinct.empty() && bound <= distinct.back() * (1.0 + 1e-12)) {
        distinct.back() = bound;
      } else {
        distinct.push_back(bound);
      }
    }
    return distinct;
  }

  // The least sum of transfers with stages of at most the bound; infinite if
  // there is none.
  double Solve(double bound) {
    for (std::size_t s = 0; s < stages_; ++s) {
      for (std::size_t end = 1; end <= layers_; ++end) {
        least_[s][end] = kInfinity;
        if (s == 0) {
          if (sums_[end] <= bound) {
            least_[s][end] = 0.0;
          }
          continue;
        }
        for (std::size_t begin = end; begin-- > s;) {
          if (sums_[end] - sums_[begin] > bound) {
            break;
          }
          const double ms =
              least_[s - 1][begin] + transfer_ms_[s - 1][begin - 1];
          if (ms < least_[s][end]) {
            least_[s][end] = ms;
            begin_[s][end] = begin;
          }
        }
      }
    }
    return least_[stages_ - 1][layers_];
  }

  // The assignment of the last Solve.
  [[nodiscard]] std::vector<int> First() const {
    std::vector<int> first(stages_ + 1);
    std::size_t end = layers_;
    for (std::size_t s = stages_; s > 0; --s) {
      first[s] = static_cast<int>(end);
      end = begin_[s - 1][end];
    }
    first[0] = 0;
    return first;
  }

 private:
  const std::vector<std::vector<double>>& transfer_ms_;
  std::size_t layers_;
  std::size_t stages_;
  std::vector<double> sums_;  // of the first layers
  // By stage and end of the stage.
  std::vector<std::vector<double>> least_;
  std::vector<std::vector<std::size_t>> begin_;
};

AmpCluster ClusterOf(const methods::Problem& problem) {
  const int hosts =
      std::max(1, problem.machine.gpus() / problem.machine.gpus_per_node());
  return {problem.machine.gpus() / hosts, hosts};
}

// The strategy of these sizes with the best placement and layers, if any.
std::optional<AmpStrategy> BestOf(const AmpModel& model,
                                  const AmpSizes& sizes) {
  const std::vector<double> layer_ms = model.LayerMs(sizes);
  const bool profiled = std::ranges::all_of(
      layer_ms, [](double ms) { return std::isfinite(ms); });
  const int microbatches = model.MicrobatchesOf(sizes);
  std::optional<AmpStrategy> best;
  if (!profiled || microbatches == 0) {
    return best;
  }
  for (Placement& placement :
       RegularPlacements(model.cluster(), sizes.pp, sizes.tp * sizes.dp)) {
    const LayerAssignment assignment = AssignLayers(
        layer_ms, model.TransferMs(sizes, placement), sizes.pp, microbatches);
    if (assignment.first.empty()) {
      return best;
    }
    AmpCost cost = model.Cost(sizes, placement, assignment.first);
    if (!best || cost.iteration_ms < best->cost.iteration_ms) {
      best = {sizes, std::move(placement), assignment.first, std::move(cost)};
    }
  }
  if (best) {
    best->memory_mb =
        model.operators().Cost(model.PlanOf(sizes, best->first)).memory_mb;
  }
  return best;
}

// Stages of equally many layers, as a LayerAssignment.
std::vector<int> EqualLayers(const AmpModel& model, int stages) {
  std::vector<int> first;
  for (const int op : EqualStages(model.operators(), stages).first) {
    first.push_back(static_cast<int>(
        std::lower_bound(model.layers().begin(), model.layers().end(), op) -
        model.layers().begin()));
  }
  return first;
}

// The least time over placements; NaN where operators are not profiled.
double EstimatedMs(const AmpModel& model, const AmpSizes& sizes) {
  double least = std::nan("");
  const std::vector<int> first = EqualLayers(model, sizes.pp);
  for (const Placement& placement :
       RegularPlacements(model.cluster(), sizes.pp, sizes.tp * sizes.dp)) {
    least = std::fmin(least, model.Cost(sizes, placement, first).iteration_ms);
  }
  return std::isfinite(least) ? least : std::nan("");
}

class AmpPlanner final : public Planner {
 public:
  explicit AmpPlanner(const AmpOptions& options) : options_(options) {}

  [[nodiscard]] std::vector<Proposal> Plans(
      const methods::Problem& part, std::uint64_t /*seed*/) const override {
    const OperatorModel operators = ModelOfCandidates(part, options_);
    const AmpModel model(operators, ClusterOf(part));
    std::vector<Proposal> proposals;
    for (const AmpStrategy& strategy : SearchAmp(model)) {
      const bool fits = !options_.memory_filter ||
                        strategy.memory_mb <= operators.job().memory_limit_mb;
      proposals.push_back({SizesOf(model.PlanOf(strategy.sizes, strategy.first),
                                   operators.job().batch),
                           fits ? 0 : 1,
                           strategy.cost.iteration_ms *
                               part.weight.OfGpus(part.machine.gpus())});
    }
    std::stable_partition(proposals.begin(), proposals.end(),
                          [](const Proposal& each) { return each.tier == 0; });
    return proposals;
  }

  [[nodiscard]] Estimator EstimatorOf(
      const methods::Problem& part) const override {
    const auto operators = std::make_shared<const OperatorModel>(
        ModelOfCandidates(part, options_));
    return [operators, model = AmpModel(*operators, ClusterOf(part))](
               const trials::ParallelConfig& config) -> Estimate {
      // A plan exists where AMP has the sizes.
      const auto plan = PlanOf(*operators, config);
      if (!plan) {
        return {};
      }
      const AmpSizes sizes{config.tp, config.dp, config.pp,
                           plan->micro_batch / config.dp};
      return EstimateOf(EstimatedMs(model, sizes),
                        operators->Cost(*plan).memory_mb);
    };
  }

 private:
  AmpOptions options_;
};

}  // namespace

std::vector<Placement> RegularPlacements(const AmpCluster& cluster, int stages,
                                         int gpus_per_stage) {
  std::vector<Placement> placements;
  if (stages * gpus_per_stage != cluster.hosts * cluster.gpus_per_host) {
    return placements;
  }
  for (int high = 1; high <= cluster.gpus_per_host; ++high) {
    if (cluster.gpus_per_host % high != 0 || gpus_per_stage % high != 0 ||
        cluster.hosts % (gpus_per_stage / high) != 0) {
      continue;
    }
    for (const bool within_hosts_first : {true, false}) {
      Placement placement =
          Rectangles(cluster, high, gpus_per_stage / high, within_hosts_first);
      if (!common::Contains(placements, placement)) {
        placements.push_back(std::move(placement));
      }
    }
  }
  return placements;
}

AmpModel::AmpModel(const OperatorModel& operators, const AmpCluster& cluster)
    : operators_(operators), cluster_(cluster), layers_(AmpLayers(operators)) {
  if (cluster_.hosts * cluster_.gpus_per_host != operators.job().gpus) {
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
  return 1e-3 * operators_.links().TransferUs(mb, host != other);
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

LayerAssignment AssignLayers(
    const std::vector<double>& layer_ms,
    const std::vector<std::vector<double>>& transfer_ms, int stages,
    int microbatches) {
  LayerAssignment best{{}, kInfinity};
  if (stages > static_cast<int>(layer_ms.size())) {
    return best;
  }
  AssignmentProgram program(layer_ms, transfer_ms, stages);
  for (const double bound : program.Bounds()) {
    const double at_least = program.Total() + (microbatches - 1) * bound;
    if (at_least >= best.ms) {
      break;
    }
    const double ms = at_least + program.Solve(bound);
    if (ms < best.ms) {
      best = {program.First(), ms};
    }
  }
  return best;
}

std::vector<AmpStrategy> SearchAmp(const AmpModel& model) {
  const OperatorTable& table = model.operators().table();
  const int gpus = model.operators().job().gpus;
  const int most_tp =
      std::min(table.largest_tp(), model.cluster().gpus_per_host);
  std::vector<AmpStrategy> strategies;
  for (int tp = 1; tp <= most_tp; tp *= 2) {
    for (int dp = 1; tp * dp <= gpus; dp *= 2) {
      if (gpus % (tp * dp) != 0) {
        continue;
      }
      for (const int micro_batch : table.micro_batches()) {
        auto best = BestOf(model, {tp, dp, gpus / (tp * dp), micro_batch});
        if (best) {
          strategies.push_back(*std::move(best));
        }
      }
    }
  }
  std::ranges::stable_sort(strategies, {}, [](const AmpStrategy& strategy) {
    return strategy.cost.iteration_ms;
  });
  return strategies;
}

std::vector<methods::Option> OptionsOf(AmpOptions& o) {
  return OperatorJobRows(
      o, {{"memory_filter", methods::Boolean{&o.memory_filter},
           "Strategies that need more memory come last; AMP itself has no "
           "model of memory."}});
}

std::unique_ptr<Planner> MakePlanner(const AmpOptions& options) {
  return std::make_unique<AmpPlanner>(options);
}

}  // namespace planners
