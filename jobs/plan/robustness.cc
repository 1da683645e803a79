#include "jobs/plan/robustness.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/parallel.h"
#include "common/ranges.h"
#include "common/units.h"
#include "trials/knobs.h"
#include "trials/programs/trial_rendering.h"
#include "trials/simulator/layer_operators.h"

namespace jobs {
namespace {

using common::kGiga;
using trials::ParallelConfig;

// The parameters of which a step is tried; the others follow the best.
struct Step {
  const char* name;
  bool shards;  // a larger value distributes more
};
constexpr std::array<Step, 7> kSteps = {{{"tp", true},
                                         {"pp", true},
                                         {"cp", true},
                                         {"ep", true},
                                         {"zero_stage", true},
                                         {"grad_checkpoint", false},
                                         {"micro_batch_size", false}}};

int StepValue(const Step& step, const ParallelConfig& config, const Job& job) {
  return trials::ValueOf(trials::BuiltInKnobs().Require(step.name), config,
                         job.workload.batch_size);
}

// The configurations that differ from `best` in one parameter, by its place in
// kSteps and its value.
std::map<std::pair<std::size_t, int>, std::vector<ParallelConfig>> OneApart(
    const Forecaster& forecaster, const ParallelConfig& best) {
  const Job& job = forecaster.job();
  std::map<std::pair<std::size_t, int>, std::vector<ParallelConfig>> others;
  for (const ParallelConfig& config : forecaster.space().configs()) {
    std::vector<std::size_t> different;
    for (std::size_t i = 0; i < kSteps.size(); ++i) {
      if (StepValue(kSteps[i], config, job) !=
          StepValue(kSteps[i], best, job)) {
        different.push_back(i);
      }
    }
    if (different.size() == 1) {
      const std::size_t i = different.front();
      others[{i, StepValue(kSteps[i], config, job)}].push_back(config);
    }
  }
  return others;
}

std::string NeighborText(const Forecaster& forecaster, const Prediction& best) {
  const Neighbor* worst = nullptr;
  std::vector<std::string> too_large;
  std::vector<std::string> costly;
  const std::vector<Neighbor> neighbors = NeighborsOf(forecaster, best.config);
  for (const Neighbor& each : neighbors) {
    const double more = each.one.peak_memory_bytes - best.peak_memory_bytes;
    if (each.shards && more > 0.01 * best.peak_memory_bytes) {
      costly.push_back(fmt::format("{} by {:.1f} GB", each.step, more / kGiga));
    }
    if (!forecaster.Fits(each.one)) {
      too_large.push_back(each.step);
    } else if (worst == nullptr ||
               each.one.step_time_s > worst->one.step_time_s) {
      worst = &each;
    }
  }
  std::string text;
  if (worst != nullptr) {
    text = fmt::format(
        "one step away in any parameter: at worst {:.0f}% slower ({})",
        100.0 * (worst->one.step_time_s / best.step_time_s - 1.0), worst->step);
  }
  if (!too_large.empty()) {
    text += fmt::format("{}too large for the memory: {}",
                        text.empty() ? "one step away, " : "; ",
                        fmt::join(too_large, ", "));
  }
  text += text.empty() ? "" : "\n";
  return costly.empty() ? text
                        : text + fmt::format(
                                     "note: more sharding needs more "
                                     "memory here: {}\n",
                                     fmt::join(costly, ", "));
}

// A quantity that a plan assumes, and how its value is written.
struct Unknown {
  const char* name;
  bool matters;
  double& (*of)(Job& job);
  double unit;
  const char* format;
  double least = 0.0;  // that is possible
};

std::vector<Unknown> UnknownsOf(const Job& job) {
  return {{"a network card", job.cluster.nodes > 1,
           [](Job& of) -> double& {
             return of.cluster.inter.bandwidth_bytes_per_s;
           },
           kGiga, "{:.3g} GB/s"},
          {"the link in a node", job.cluster.gpus_per_node > 1,
           [](Job& of) -> double& {
             return of.cluster.intra.bandwidth_bytes_per_s;
           },
           kGiga, "{:.3g} GB/s"},
          {"matrix products", true,
           [](Job& of) -> double& { return of.cluster.gpu.power_fraction; },
           job.cluster.gpu.power_fraction, "{:.2f} of the assumed rate"},
          {"the busiest expert rank", job.workload.model.experts > 0,
           [](Job& of) -> double& {
             return of.framework.framework.experts.expert_imbalance;
           },
           1.0, "{:.2f} times the mean", 1.0}};
}

// The layouts that may become the fastest, the fastest first, each with what a
// calibration makes of its simulated time.
using Contenders = std::vector<std::pair<const Prediction*, double>>;

Contenders ContendersOf(const Forecaster& forecaster,
                        const Forecast& forecast) {
  constexpr double kNear = 1.5;
  const double best_s = forecast.layouts.front().best.step_time_s;
  Contenders contenders;
  for (const auto& [one, configurations] : forecast.layouts) {
    if (one.step_time_s <= kNear * best_s && contenders.size() < kContenders) {
      contenders.emplace_back(
          &one, one.step_time_s / forecaster.Report(one.config).step_time_s);
    }
  }
  return contenders;
}

// The fastest for a changed job; nothing if the first one stays within 1% of
// it.
const Prediction* Winner(const Contenders& contenders, const Job& job) {
  constexpr double kClear = 1.01;
  const trials::Simulator simulator(job.workload, job.cluster,
                                    {job.framework.framework});
  const auto& [first, first_factor] = contenders.front();
  const double first_s =
      first_factor * simulator.Simulate(first->config).step_time_s;
  const Prediction* winner = nullptr;
  double least_s = first_s;
  for (const auto& [one, factor] : contenders) {
    const double bound_s = factor * simulator.LeastStepTime(one->config);
    if (bound_s >= least_s || first_s <= kClear * bound_s) {
      continue;
    }
    const double time_s = factor * simulator.Simulate(one->config).step_time_s;
    if (time_s < least_s) {
      least_s = time_s;
      winner = one;
    }
  }
  return first_s > kClear * least_s ? winner : nullptr;
}

// The first value in a direction at which another layout wins.
std::optional<TippingPoint> FirstTurn(const Contenders& contenders, Job job,
                                      const Unknown& unknown, double ratio) {
  constexpr double kFurthest = 4.0;
  const double assumed = unknown.of(job);
  for (double factor = ratio; factor > 1.0 / kFurthest && factor < kFurthest &&
                              assumed * factor >= unknown.least;
       factor *= ratio) {
    unknown.of(job) = assumed * factor;
    if (const Prediction* winner = Winner(contenders, job)) {
      const double turn = unknown.of(job) / std::sqrt(ratio);
      return TippingPoint{
          unknown.name, factor,
          fmt::format(fmt::runtime(unknown.format), turn / unknown.unit),
          winner->config};
    }
  }
  return std::nullopt;
}

std::string UnknownsText(const Forecaster& forecaster,
                         const Forecast& forecast) {
  const auto changes =
      common::Map(TippingPoints(forecaster, forecast), [](const auto& point) {
        return fmt::format("{} {} {}: {}", point.unknown,
                           point.factor < 1.0 ? "below" : "above", point.value,
                           LayoutName(point.winner));
      });
  return changes.empty()
             ? "the choice stays if bandwidths or the rate of matrix products "
               "are up to 4 times lower or higher\n"
             : fmt::format("another layout is faster with {}\n",
                           fmt::join(changes, "; "));
}

// What training with a configuration changes in addition to its speed.
std::string ChangesText(const Job& job, const ParallelConfig& config) {
  std::vector<std::string> changes;
  const trials::Workload& workload = job.workload;
  const trials::Framework framework =
      ForWorkload(job.framework.framework, workload, job.cluster.gpu);
  if (workload.precision == trials::Precision::kFp8) {
    changes.emplace_back("matrix products in 8 bits");
  }
  if (workload.precision != trials::Precision::kFp32 &&
      config.microbatches > 1 && !framework.gradients.fp32_gradients &&
      !(framework.sharding.fsdp && !framework.sharding.no_sync)) {
    changes.emplace_back("gradients of microbatches summed in 16 bits");
  }
  if (HasDropout(workload.model) && job.cluster.gpus() > 1) {
    changes.emplace_back("the random numbers of dropout");
  }
  return fmt::format(
      "besides speed it changes: {}the order of sums; the batch stays {} "
      "sequences\n",
      changes.empty() ? "only " : fmt::format("{}, ", fmt::join(changes, ", ")),
      workload.batch_size);
}

}  // namespace

std::vector<Neighbor> NeighborsOf(const Forecaster& forecaster,
                                  const ParallelConfig& best) {
  const auto others = OneApart(forecaster, best);
  std::vector<Neighbor> neighbors;
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    const Step& step = kSteps[i];
    const auto above =
        others.upper_bound({i, StepValue(step, best, forecaster.job())});
    for (const bool up : {false, true}) {
      if (up ? above == others.end() : above == others.begin()) {
        continue;
      }
      const auto& [key, configs] = up ? *above : *std::prev(above);
      const auto one =
          key.first == i ? forecaster.BestOf(configs) : std::nullopt;
      if (one) {
        neighbors.push_back({fmt::format("{}={}", step.name, key.second),
                             up && step.shards, *one});
      }
    }
  }
  return neighbors;
}

std::vector<TippingPoint> TippingPoints(const Forecaster& forecaster,
                                        const Forecast& forecast) {
  const Contenders contenders = ContendersOf(forecaster, forecast);
  std::vector<std::pair<Unknown, double>> directions;
  for (const Unknown& unknown : UnknownsOf(forecaster.job())) {
    for (const double ratio : {0.9, 1.1}) {
      if (unknown.matters) {
        directions.emplace_back(unknown, ratio);
      }
    }
  }
  std::vector<std::optional<TippingPoint>> found(directions.size());
  common::ParallelFor(
      static_cast<int>(found.size()), common::Cores(), [&](int, int i) {
        const auto& [unknown, ratio] = directions[i];
        found[i] = FirstTurn(contenders, forecaster.job(), unknown, ratio);
      });
  std::vector<TippingPoint> points;
  for (std::optional<TippingPoint>& point : found) {
    if (point) {
      points.push_back(*std::move(point));
    }
  }
  return points;
}

namespace {

// The numbers of divisors of a batch, first of those that divide the GPUs, too:
// a batch that more sizes divide allows more layouts.
std::pair<int, int> DivisorsOf(int batch, int gpus) {
  std::pair divisors(0, 0);
  for (int one = 1; one * one <= batch; ++one) {
    for (const int divisor : {one, batch / one}) {
      if (batch % one == 0 && (divisor == one || one * one < batch)) {
        ++divisors.second;
        divisors.first += gpus % divisor == 0 ? 1 : 0;
      }
    }
  }
  return divisors;
}

}  // namespace

std::optional<NearbyBatch> BetterBatch(const Forecaster& forecaster,
                                       const Forecast& forecast) {
  constexpr double kNear = 0.02;
  constexpr double kFaster = 1.03;
  constexpr std::size_t kTried = 2;
  const Job& job = forecaster.job();
  const int batch = job.workload.batch_size;
  const int gpus = job.cluster.gpus();
  const auto own = DivisorsOf(batch, gpus);
  std::vector<std::pair<std::pair<int, int>, int>> others;
  const int most = static_cast<int>(kNear * batch);
  for (int other = batch - most; other <= batch + most; ++other) {
    if (const auto of = DivisorsOf(other, gpus); of > own) {
      others.emplace_back(of, other);
    }
  }
  std::ranges::stable_sort(others, std::greater(),
                           [](const auto& each) { return each.first; });
  const double now_s = forecast.layouts.front().best.step_time_s;
  std::optional<NearbyBatch> best;
  for (std::size_t i = 0; i < std::min(kTried, others.size()); ++i) {
    const int other = others[i].second;
    Job changed = job;
    changed.workload.batch_size = other;
    const double share = static_cast<double>(other) / batch;
    try {
      const auto found =
          Forecaster(changed, forecaster.options(), forecaster.grids())
              .FastestWithin(share * now_s / (best ? best->gain : kFaster));
      if (found) {
        best = {other, share * now_s / found->step_time_s, *found};
      }
    } catch (const common::InputError&) {
      continue;  // no configuration of this batch is valid
    }
  }
  return best;
}

std::string BatchText(const Forecaster& forecaster, const Forecast& forecast) {
  const auto other = BetterBatch(forecaster, forecast);
  return other
             ? fmt::format(
                   "{} instead of {} sequences: {:.0f}% more tokens "
                   "per second ({})\n",
                   other->batch_size, forecaster.job().workload.batch_size,
                   100.0 * (other->gain - 1.0), LayoutName(other->best.config))
             : "";
}

std::string RobustnessText(const Forecaster& forecaster,
                           const Forecast& forecast) {
  const Prediction& best = forecast.layouts.front().best;
  return NeighborText(forecaster, best) + UnknownsText(forecaster, forecast) +
         ChangesText(forecaster.job(), best.config);
}

}  // namespace jobs
