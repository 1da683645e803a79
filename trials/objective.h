// What a search optimizes: the time of a step, or what it costs.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"
#include "trials/cluster.h"
#include "trials/machine.h"
#include "trials/parallel_config.h"

namespace trials {

using common::FromText;
using common::ToString;

enum class Objective { kTime, kMoney };

// An objective in manifests and reports. A new one is a value of Objective, a
// row here, and a rate in Valuation.
struct ObjectiveText {
  std::string_view name;        // in manifests
  std::string_view unit;        // of values: "steps/s"
  std::string_view quantity;    // "throughput (steps/s)", for labels
  std::string_view column;      // "_steps_per_s", behind names of CSV columns
  std::string_view best;        // "Best throughput"
  std::string_view ratio;       // "Speed-up", of two values
  std::string_view measured;    // what the measured value of a run means
  std::string_view needs = {};  // what a problem lacks whose rate is unknown
};
inline constexpr std::array<ObjectiveText, 2> kObjectives = {{
    {.name = "time",
     .unit = "steps/s",
     .quantity = "throughput (steps/s)",
     .column = "_steps_per_s",
     .best = "Best throughput",
     .ratio = "Speed-up",
     .measured =
         "measured throughput of the best configuration, with noise, so that "
         "it can exceed the noise-free optimum; 0 for a run without a "
         "completed trial"},
    {.name = "money",
     .unit = "steps/USD",
     .quantity = "steps per money (steps/USD)",
     .column = "_steps_per_usd",
     .best = "Most steps per money",
     .ratio = "Steps per money",
     .measured =
         "steps for the price of a USD with the cheapest configuration, as "
         "measured, with noise, so that it can exceed the noise-free "
         "optimum; 0 for a run without a completed trial",
     .needs = "the price of a GPU: add price_per_gpu_hour, in USD, to "
              "[cluster] or to its file"},
}};
constexpr std::array<std::string_view, kObjectives.size()> NamesOf(
    Objective /*type*/) {
  std::array<std::string_view, kObjectives.size()> names;
  std::ranges::transform(kObjectives, names.begin(), &ObjectiveText::name);
  return names;
}

// The texts of what a step costs in reports.
struct CostText {
  std::string_view title;         // of the trade-off with time
  std::string_view quantity;      // "money of a step (USD)", for labels
  std::string_view column;        // name of a CSV column
  std::string_view per_thousand;  // unit of the cost of 1,000 steps
};
inline constexpr CostText kCost = {"Step time and money",
                                   "money of a step (USD)",
                                   "money_per_step_usd", "USD/1000 steps"};

// dp * tp * pp * cp.
[[nodiscard]] int GpusOf(const ParallelConfig& config);

// What a second of a candidate weighs, relative to one of the whole machine.
// Methods maximize the value of a candidate,
//
//   value = steps/s / weight.
//
// With the objective kMoney, the weight is the candidate's share of the GPUs,
// and the value the throughput that the price of the whole machine would buy: a
// step that costs less has a higher value. With kTime, and where all candidates
// use all GPUs, the weight is 1, and the value is the throughput.
struct Weight {
  int machine_gpus = 0;  // 0: every weight is 1

  [[nodiscard]] double operator()(const ParallelConfig& config) const {
    return OfGpus(GpusOf(config));
  }
  [[nodiscard]] double OfGpus(int gpus) const {
    return machine_gpus == 0 ? 1.0 : gpus / static_cast<double>(machine_gpus);
  }
};

// The value in the unit of reports: steps/s, or steps/USD.
struct Valuation {
  Objective objective = Objective::kTime;
  double price_per_gpu_hour = 0.0;  // USD; 0 or NaN: unknown. > 0 with kMoney

  // The throughput, at the price of such a GPU.
  [[nodiscard]] static Valuation Of(const Gpu& gpu) {
    return {.price_per_gpu_hour = gpu.price_per_hour};
  }
  [[nodiscard]] bool IsThroughput() const {
    return objective == Objective::kTime;
  }
  // Why the objective cannot be that of a search on this machine; "" if it can.
  [[nodiscard]] std::string ProblemOn(const Machine& machine) const;
  // What a step costs, in USD; NaN or 0 without a price.
  // Source: Astra Eq. 32.
  [[nodiscard]] double CostOf(double step_time_s, int gpus) const;
  // The weight of the candidates of a machine.
  [[nodiscard]] Weight WeightOn(const Machine& machine) const {
    return {!IsThroughput() && machine.resizable() ? machine.gpus() : 0};
  }
  // The value of a configuration with a throughput of 1 step/s.
  [[nodiscard]] double Factor(const ParallelConfig& config) const;
  // The factor of one with this number of GPUs; for the GPUs of the machine,
  // also the factor of methods' values (Weight).
  [[nodiscard]] double FactorOfGpus(int gpus) const;
  [[nodiscard]] const ObjectiveText& names() const {
    return kObjectives.at(static_cast<std::size_t>(objective));
  }
  [[nodiscard]] std::string_view unit() const { return names().unit; }
  [[nodiscard]] std::string_view quantity() const { return names().quantity; }
};

struct TimeAndCost {
  double step_time_s = 0.0;
  double cost = 0.0;  // of a step (Valuation::CostOf)
};

// The Pareto front: the indices of the points for which no other one is better
// in one respect and at least as good in the other, the fastest first. Of equal
// points, the first.
[[nodiscard]] std::vector<std::size_t> ParetoFront(
    std::span<const TimeAndCost> points);

// A configuration on the Pareto front of step time and cost.
struct ParetoPoint {
  std::string config;
  int gpus = 0;
  double steps_per_s = 0.0;

  OPPA_FIELDS(ParetoPoint, config, gpus, steps_per_s);
};

// What there is to choose in a problem whose candidates use several numbers of
// GPUs, or whose objective is not time.
struct TradeOff {
  Objective objective = Objective::kTime;
  double price_per_gpu_hour = std::numeric_limits<double>::quiet_NaN();  // USD
  std::vector<int> gpus;  // of candidates, ascending
  int optimum_gpus = 0;   // of the optimum; 0: unknown
  // The front of all configurations, noise-free, the fastest first; empty:
  // unknown.
  std::vector<ParetoPoint> pareto;

  // Absent for problems of time alone.
  [[nodiscard]] static std::optional<TradeOff> Of(const Valuation& valuation,
                                                  const Machine& machine);
  [[nodiscard]] Valuation valuation() const {
    return {objective, price_per_gpu_hour};
  }
  // Whether time and cost are at odds. Without a price the cost is unknown, and
  // of one number of GPUs the fastest configuration is the whole front.
  [[nodiscard]] bool HasFront() const {
    return gpus.size() > 1 && price_per_gpu_hour > 0.0;
  }
  // Adds what simulating all configurations gives. `feasible`: those that fit.
  void SetExact(int gpus_of_optimum, const std::vector<ParetoPoint>& feasible);

  OPPA_FIELDS(TradeOff, objective, price_per_gpu_hour, gpus, optimum_gpus,
              pareto);
};

}  // namespace trials
