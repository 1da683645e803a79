// What a search optimizes: the time of a step, or its money.

#ifndef TRIALS_OBJECTIVE_H_
#define TRIALS_OBJECTIVE_H_

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"
#include "trials/machine.h"
#include "trials/parallel_config.h"

namespace trials {

using common::FromText;
using common::ToString;

// kMoney differs from kTime only where candidates use different numbers of
// GPUs.
enum class Objective { kTime, kMoney };
constexpr std::array<std::string_view, 2> NamesOf(Objective /*type*/) {
  return {"time", "money"};
}

// dp * tp * pp * cp.
[[nodiscard]] int GpusOf(const ParallelConfig& config);

// What a second of a candidate weighs, relative to one of the whole machine.
// Methods maximize the value of a candidate,
//
//   value = steps/s / weight.
//
// With the objective kMoney, the weight is the candidate's share of the GPUs,
// and the value the throughput that the price of the whole machine would buy: a
// step that costs less money has a higher value. With kTime, the weight is 1,
// and the value is the throughput.
struct Weight {
  int machine_gpus = 0;  // 0: every weight is 1

  [[nodiscard]] double operator()(const ParallelConfig& config) const {
    return OfGpus(GpusOf(config));
  }
  [[nodiscard]] double OfGpus(int gpus) const {
    return machine_gpus == 0 ? 1.0 : gpus / static_cast<double>(machine_gpus);
  }
};

// The money of a step. Source: Astra Eq. 32.
// Units: USD; `price_per_gpu_hour` in USD.
[[nodiscard]] double StepMoney(double step_time_s, int gpus,
                               double price_per_gpu_hour);

// The names of a value in reports.
struct ValueNames {
  std::string_view unit;      // "steps/s"
  std::string_view quantity;  // "throughput (steps/s)", for labels
  std::string_view column;    // "_steps_per_s", behind names of CSV columns
  std::string_view best;      // "Best throughput"
  std::string_view ratio;     // "Speed-up", of two values
  std::string_view measured;  // what the measured value of a run means
};

// The value in the unit of reports: steps/s, or steps/USD.
struct Valuation {
  Objective objective = Objective::kTime;
  double price_per_gpu_hour = 0.0;  // USD; 0 or NaN: unknown. > 0 with kMoney

  [[nodiscard]] bool IsThroughput() const {
    return objective == Objective::kTime;
  }
  [[nodiscard]] bool has_price() const { return price_per_gpu_hour > 0.0; }
  // The weight of the candidates of a machine.
  [[nodiscard]] Weight WeightOn(const Machine& machine) const {
    return {!IsThroughput() && machine.resizable() ? machine.gpus() : 0};
  }
  // The value of a configuration with a throughput of 1 step/s.
  [[nodiscard]] double Factor(const ParallelConfig& config) const;
  // The same of one with this number of GPUs; for the GPUs of the machine, also
  // the factor of methods' values (Weight).
  [[nodiscard]] double FactorOfGpus(int gpus) const;
  [[nodiscard]] const ValueNames& names() const;
  [[nodiscard]] std::string_view unit() const { return names().unit; }
  [[nodiscard]] std::string_view quantity() const { return names().quantity; }
};

struct TimeAndMoney {
  double step_time_s = 0.0;
  double money = 0.0;  // of a step, USD
};

// The Pareto front: the indices of the points for which no other one is better
// in one respect and at least as good in the other, the fastest first. Of equal
// points, the first.
[[nodiscard]] std::vector<std::size_t> ParetoFront(
    std::span<const TimeAndMoney> points);

// A configuration on the Pareto front of step time and money.
struct ParetoPoint {
  std::string config;
  int gpus = 0;
  double steps_per_s = 0.0;
};

void VisitFields(common::FieldsOf<ParetoPoint> auto& point, const auto& visit) {
  visit("config", point.config);
  visit("gpus", point.gpus);
  visit("steps_per_s", point.steps_per_s);
}

// The money of a problem whose candidates use several numbers of GPUs, or whose
// objective is money.
struct MoneyInfo {
  Objective objective = Objective::kTime;
  double price_per_gpu_hour = std::numeric_limits<double>::quiet_NaN();  // USD
  std::vector<int> gpus;  // of candidates, ascending
  int optimum_gpus = 0;   // of the optimum; 0: unknown
  // Of all configurations, noise-free, the fastest first; empty: unknown.
  std::vector<ParetoPoint> pareto;

  // Adds what simulating all configurations gives. `feasible`: those that fit.
  // Without a price, and for one number of GPUs, where the fastest one is the
  // whole front, there is no front.
  void SetExact(int gpus_of_optimum, const std::vector<ParetoPoint>& feasible);
};

// Absent for problems of time alone.
[[nodiscard]] std::optional<MoneyInfo> MoneyOf(const Valuation& valuation,
                                               const Machine& machine);

void VisitFields(common::FieldsOf<MoneyInfo> auto& money, const auto& visit) {
  visit("objective", money.objective);
  visit("price_per_gpu_hour", money.price_per_gpu_hour);
  visit("gpus", money.gpus);
  visit("optimum_gpus", money.optimum_gpus);
  visit("pareto", money.pareto);
}

}  // namespace trials

#endif  // TRIALS_OBJECTIVE_H_
