// What a search optimizes: the time of a step, or its money.

#ifndef TRIALS_OBJECTIVE_H_
#define TRIALS_OBJECTIVE_H_

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "common/fields.h"
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

// The price of a configuration's GPUs relative to that of the whole cluster.
//
// Methods maximize the value of a configuration,
//
//   value = steps/s / price,
//
// the throughput that the price of the whole cluster would buy: a step that
// costs less money has a higher value. With the objective kTime, the price is
// 1, and the value is the throughput.
struct RelativePrice {
  int cluster_gpus = 0;  // 0: the price is 1

  [[nodiscard]] double operator()(const ParallelConfig& config) const {
    return OfGpus(GpusOf(config));
  }
  [[nodiscard]] double OfGpus(int gpus) const {
    return cluster_gpus == 0 ? 1.0 : gpus / static_cast<double>(cluster_gpus);
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
  double price_per_gpu_hour = 0.0;  // USD; > 0 with kMoney

  [[nodiscard]] bool IsThroughput() const {
    return objective == Objective::kTime;
  }
  // The value of a configuration with a throughput of 1 step/s.
  [[nodiscard]] double Factor(const ParallelConfig& config) const;
  // The same of one with this number of GPUs; for the GPUs of the cluster, also
  // the factor of methods' values (RelativePrice).
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

}  // namespace trials

#endif  // TRIALS_OBJECTIVE_H_
