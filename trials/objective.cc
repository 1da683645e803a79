#include "trials/objective.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace trials {
namespace {

constexpr double kHour = 3600.0;

}  // namespace

int GpusOf(const ParallelConfig& config) {
  return config.dp * config.tp * config.pp * config.cp;
}

double StepMoney(double step_time_s, int gpus, double price_per_gpu_hour) {
  return step_time_s / kHour * gpus * price_per_gpu_hour;
}

double Valuation::Factor(const ParallelConfig& config) const {
  return FactorOfGpus(GpusOf(config));
}

double Valuation::FactorOfGpus(int gpus) const {
  return IsThroughput() ? 1.0 : 1.0 / StepMoney(1.0, gpus, price_per_gpu_hour);
}

const ValueNames& Valuation::names() const {
  static constexpr std::array<ValueNames, 2> kNames = {{
      {.unit = "steps/s",
       .quantity = "throughput (steps/s)",
       .column = "_steps_per_s",
       .best = "Best throughput",
       .ratio = "Speed-up",
       .measured =
           "measured throughput of the best configuration, with noise, so that "
           "it can exceed the noise-free optimum; 0 for a run without a "
           "completed trial"},
      {.unit = "steps/USD",
       .quantity = "steps per money (steps/USD)",
       .column = "_steps_per_usd",
       .best = "Most steps per money",
       .ratio = "Steps per money",
       .measured =
           "steps for the price of a USD with the cheapest configuration, as "
           "measured, with noise, so that it can exceed the noise-free "
           "optimum; 0 for a run without a completed trial"},
  }};
  return kNames[static_cast<std::size_t>(objective)];
}

std::vector<std::size_t> ParetoFront(std::span<const TimeAndMoney> points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, auto b) {
    return std::pair(points[a].step_time_s, points[a].money) <
           std::pair(points[b].step_time_s, points[b].money);
  });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t i : order) {
    if (points[i].money < least) {
      least = points[i].money;
      front.push_back(i);
    }
  }
  return front;
}

void MoneyInfo::SetExact(int gpus_of_optimum,
                         const std::vector<ParetoPoint>& feasible) {
  optimum_gpus = gpus_of_optimum;
  if (!(price_per_gpu_hour > 0.0) || gpus.size() == 1) {
    return;
  }
  std::vector<TimeAndMoney> points;
  for (const ParetoPoint& each : feasible) {
    const double step_time_s = 1.0 / each.steps_per_s;
    points.push_back(
        {step_time_s, StepMoney(step_time_s, each.gpus, price_per_gpu_hour)});
  }
  for (const std::size_t i : ParetoFront(points)) {
    pareto.push_back(feasible[i]);
  }
}

std::optional<MoneyInfo> MoneyOf(const Valuation& valuation,
                                 const Machine& machine) {
  if (valuation.IsThroughput() && !machine.resizable()) {
    return std::nullopt;
  }
  MoneyInfo money{.objective = valuation.objective, .gpus = machine.sizes()};
  if (valuation.has_price()) {
    money.price_per_gpu_hour = valuation.price_per_gpu_hour;
  }
  return money;
}

}  // namespace trials
