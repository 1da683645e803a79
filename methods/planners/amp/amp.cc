#include "methods/planners/amp/amp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "methods/planners/aceso/conversions.h"
#include "methods/planners/amp/layer_assignment.h"

namespace methods {
namespace {

// All hosts alike.
AmpCluster ClusterOf(const Problem& problem) {
  const int hosts =
      std::max(1, problem.machine.gpus() / problem.machine.gpus_per_node());
  return {problem.machine.gpus() / hosts,
          std::vector<double>(static_cast<std::size_t>(hosts), 1.0)};
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

MeanSizes SizesOf(const AmpModel& model, const AmpStrategy& strategy) {
  const AmpSizes& sizes = strategy.sizes;
  return {static_cast<double>(sizes.dp), static_cast<double>(sizes.tp),
          static_cast<double>(sizes.pp),
          static_cast<double>(model.MicrobatchesOf(sizes)), false};
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
      const Problem& part, std::uint64_t /*seed*/) const override {
    const OperatorModel operators = ModelOfCandidates(part, options_);
    const AmpModel model(operators, ClusterOf(part));
    std::vector<Proposal> proposals;
    for (const AmpStrategy& strategy : SearchAmp(model)) {
      const bool fits = !options_.memory_filter ||
                        strategy.memory_mb <= operators.job().memory_limit_mb;
      proposals.push_back({SizesOf(model, strategy), fits ? 0 : 1,
                           strategy.cost.iteration_ms *
                               part.weight.OfGpus(part.machine.gpus())});
    }
    std::stable_partition(proposals.begin(), proposals.end(),
                          [](const Proposal& each) { return each.tier == 0; });
    return proposals;
  }

  [[nodiscard]] Estimator EstimatorOf(const Problem& part) const override {
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
  std::ranges::stable_sort(strategies, [](const auto& a, const auto& b) {
    return a.cost.iteration_ms < b.cost.iteration_ms;
  });
  return strategies;
}

std::vector<Option> OptionsOf(AmpOptions& o) {
  return OperatorJobRows(
      o, {{"memory_filter", Boolean{&o.memory_filter},
           "Strategies that need more memory come last; AMP itself has no "
           "model of memory."}});
}

std::unique_ptr<Planner> MakePlanner(const AmpOptions& options) {
  return std::make_unique<AmpPlanner>(options);
}

}  // namespace methods
