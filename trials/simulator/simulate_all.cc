#include "trials/simulator/simulate_all.h"

#include <cstddef>
#include <exception>
#include <utility>

#include "common/parallel.h"

namespace trials {
namespace {

// Large enough that consecutive items share memoized costs.
constexpr int kBlock = 512;

}  // namespace

void ForAll(int tasks, int threads, const std::function<Simulator()>& make,
            const std::function<void(const Simulator&, int)>& task) {
  std::vector<std::optional<Simulator>> simulators(threads);
  common::ParallelFor(
      tasks, threads,
      [&](int worker, int i) {
        auto& simulator = simulators[worker];
        if (!simulator) {
          simulator.emplace(make());
        }
        task(*simulator, i);
      },
      kBlock);
}

std::vector<StepReport> SimulateAll(std::span<const ParallelConfig> configs,
                                    int threads,
                                    const std::function<Simulator()>& make) {
  std::vector<StepReport> reports(configs.size());
  ForAll(static_cast<int>(configs.size()), threads, make,
         [&](const Simulator& simulator, int i) {
           const auto at = static_cast<std::size_t>(i);
           reports[at] = simulator.Simulate(configs[at]);
         });
  return reports;
}

}  // namespace trials
