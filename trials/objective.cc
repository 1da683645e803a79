#include "trials/objective.h"

#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/units.h"

namespace trials {
int GpusOf(const ParallelConfig& config) {
  return config.dp * config.tp * config.pp * config.cp;
}

std::string Valuation::ProblemOn(const Machine& machine) const {
  if (IsThroughput()) {
    return "";
  }
  if (const std::string types = machine.SeveralTypes(); !types.empty()) {
    return fmt::format(
        "the objective \"{}\" knows one price, and this cluster has {}",
        names().name, types);
  }
  return price_per_gpu_hour > 0.0 ? ""
                                  : fmt::format("the objective \"{}\" needs {}",
                                                names().name, names().needs);
}

double Valuation::CostOf(double step_time_s, int gpus) const {
  return step_time_s / common::kSecondsPerHour * gpus * price_per_gpu_hour;
}

double Valuation::Factor(const ParallelConfig& config) const {
  return FactorOfGpus(GpusOf(config));
}

double Valuation::FactorOfGpus(int gpus) const {
  return IsThroughput() ? 1.0 : 1.0 / CostOf(1.0, gpus);
}

std::vector<std::size_t> ParetoFront(std::span<const TimeAndCost> points) {
  auto order = common::Indices<std::size_t>(points.size());
  std::ranges::stable_sort(order, [&](std::size_t a, auto b) {
    return std::pair(points[a].step_time_s, points[a].cost) <
           std::pair(points[b].step_time_s, points[b].cost);
  });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    if (points[i].cost < least) {
      least = points[i].cost;
      front.push_back(i);
    }
  }
  return front;
}

void TradeOff::SetExact(int gpus_of_optimum,
                        const std::vector<ParetoPoint>& feasible) {
  optimum_gpus = gpus_of_optimum;
  if (!HasFront()) {
    return;
  }
  std::vector<TimeAndCost> points;
  for (const ParetoPoint& each : feasible) {
    const double step_time_s = 1.0 / each.steps_per_s;
    points.push_back({step_time_s, valuation().CostOf(step_time_s, each.gpus)});
  }
  for (const std::size_t i : ParetoFront(points)) {
    pareto.push_back(feasible[i]);
  }
}

std::optional<TradeOff> TradeOff::Of(const Valuation& valuation,
                                     const Machine& machine) {
  if (valuation.IsThroughput() && !machine.resizable()) {
    return std::nullopt;
  }
  TradeOff trade_off{.objective = valuation.objective, .gpus = machine.sizes()};
  if (valuation.price_per_gpu_hour > 0.0) {
    trade_off.price_per_gpu_hour = valuation.price_per_gpu_hour;
  }
  return trade_off;
}

}  // namespace trials
