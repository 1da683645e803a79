#include "methods/planners/astra/heterogeneous.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "methods/planners/astra/astra_model.h"

namespace methods {
namespace {

class Solver {
 public:
  Solver(const HeterogeneousJob& job, std::span<const AstraGpuType> types,
         const std::function<void(const std::vector<TypeShare>&)>& visit)
      : job_(job), types_(types), visit_(visit), shares_(types.size()) {}

  void Run() { Choose(0, job_.stages, job_.layers); }

 private:
  // Chooses the stages and layers of this type and of those after it.
  void Choose(std::size_t type, int stages, int layers) {
    if (type == types_.size()) {
      if (stages == 0 && layers == 0) {
        visit_(shares_);
      }
      return;
    }
    const AstraGpuType& gpu = types_[type];
    const int most = std::min(stages, gpu.limit / (job_.dp * job_.tp));
    for (int m = 0; m <= most; ++m) {
      const int most_layers =
          m == 0 ? 0 : std::min(gpu.most_layers, layers / m);
      for (int n = m == 0 ? 0 : 1; n <= most_layers; ++n) {
        shares_[type] = {m, n};
        Choose(type + 1, stages - m, layers - m * n);
      }
    }
  }

  const HeterogeneousJob& job_;
  std::span<const AstraGpuType> types_;
  const std::function<void(const std::vector<TypeShare>&)>& visit_;
  std::vector<TypeShare> shares_;
};

// The time of a solution by Eq. 22.
double MillisecondsOf(const HeterogeneousJob& job,
                      std::span<const AstraGpuType> types,
                      const std::vector<TypeShare>& shares) {
  std::vector<double> stage_ms;
  for (std::size_t i = 0; i < types.size(); ++i) {
    stage_ms.insert(
        stage_ms.end(), shares[i].stages,
        shares[i].layers * types[i].layer_ms + types[i].transfer_ms);
  }
  return PipelineTime(stage_ms, job.microbatches);
}

}  // namespace

void ForEachSolution(
    const HeterogeneousJob& job, std::span<const AstraGpuType> types,
    const std::function<void(const std::vector<TypeShare>&)>& visit) {
  if (std::min({job.layers, job.stages, job.tp, job.dp, job.microbatches}) <
      1) {
    throw common::InputError(fmt::format(
        "layers = {}, stages = {}, tp = {}, dp = {}, microbatches = {}: each "
        "must be at least 1",
        job.layers, job.stages, job.tp, job.dp, job.microbatches));
  }
  Solver(job, types, visit).Run();
}

HeterogeneousResult SearchHeterogeneous(const HeterogeneousJob& job,
                                        std::span<const AstraGpuType> types) {
  HeterogeneousResult result;
  ForEachSolution(job, types, [&](const std::vector<TypeShare>& shares) {
    ++result.solutions;
    const double ms = MillisecondsOf(job, types, shares);
    if (!result.best || ms < result.best->ms) {
      result.best = HeterogeneousPlan{shares, ms};
    }
  });
  return result;
}

double MoneyOf(const HeterogeneousPlan& plan, const HeterogeneousJob& job,
               std::span<const AstraGpuType> types, double seconds) {
  constexpr double kSecondsPerHour = 3600.0;
  double money = 0.0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    money += plan.shares[i].stages * job.dp * job.tp * types[i].price_per_hour *
             seconds / kSecondsPerHour;
  }
  return money;
}

std::vector<Strategy> OptimalPool(std::vector<Strategy> strategies) {
  std::stable_sort(strategies.begin(), strategies.end(),
                   [](const Strategy& a, const Strategy& b) {
                     return a.samples_per_s != b.samples_per_s
                                ? a.samples_per_s > b.samples_per_s
                                : a.money < b.money;
                   });
  // The least money among strictly faster strategies.
  std::vector<Strategy> gpu_type;
  double least_faster = std::numeric_limits<double>::infinity();
  double least_here = least_faster;
  double here = std::numeric_limits<double>::infinity();
  for (const Strategy& strategy : strategies) {
    if (strategy.samples_per_s < here) {
      least_faster = std::min(least_faster, least_here);
      here = strategy.samples_per_s;
    }
    least_here = std::min(least_here, strategy.money);
    if (!(least_faster < strategy.money)) {
      gpu_type.push_back(strategy);
    }
  }
  return gpu_type;
}

std::optional<Strategy> WithinLimit(const std::vector<Strategy>& gpu_type,
                                    double most_money) {
  const auto found = std::find_if(
      gpu_type.begin(), gpu_type.end(),
      [&](const Strategy& strategy) { return strategy.money <= most_money; });
  return found == gpu_type.end() ? std::nullopt : std::optional(*found);
}

}  // namespace methods
