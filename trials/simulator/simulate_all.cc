#include "trials/simulator/simulate_all.h"

#include <limits>
#include <optional>
#include <stdexcept>

#include "common/parallel.h"

namespace trials {
namespace {

// Calls task(simulator, i) for i in [0, tasks). Every thread has its own
// simulator, created by `make`, and takes blocks of consecutive items, which in
// a SearchSpace share most memoized costs. Each i must write to its own result.
void ForAll(std::size_t tasks, int threads,
            const std::function<Simulator()>& make,
            const std::function<void(const Simulator&, int)>& task) {
  constexpr int kBlock = 512;  // large enough to share memoized costs
  std::vector<std::optional<Simulator>> simulators(threads);
  common::ParallelFor(
      static_cast<int>(tasks), threads,
      [&](int worker, int i) {
        auto& simulator = simulators[worker];
        if (!simulator) {
          simulator.emplace(make());
        }
        task(*simulator, i);
      },
      kBlock);
}

}  // namespace

std::vector<StepReport> SimulateAll(std::span<const ParallelConfig> configs,
                                    int threads,
                                    const std::function<Simulator()>& make) {
  std::vector<StepReport> reports(configs.size());
  ForAll(configs.size(), threads, make, [&](const Simulator& simulator, int i) {
    reports[i] = simulator.Simulate(configs[i]);
  });
  return reports;
}

SimulatedCosts PredictCosts(const SimulatedTraining& training, int threads) {
  constexpr double kRejected = std::numeric_limits<double>::quiet_NaN();
  Framework framework = training.framework;
  framework.pipeline.full_pipeline = false;
  const auto& configs = training.configs;
  SimulatedCosts costs{std::vector(configs.size(), kRejected),
                       std::vector(configs.size(), kRejected)};
  ForAll(
      configs.size(), threads,
      [&] {
        return Simulator(training.workload, training.cluster, {framework});
      },
      [&](const Simulator& simulator, int i) {
        try {
          const StepReport report = simulator.Simulate(configs[i]);
          costs.step_time_s[i] = report.step_time_s;
          costs.peak_memory_bytes[i] = report.peak_memory_bytes;
        } catch (const std::invalid_argument&) {  // InvalidPlan, or unsupported
        }
      });
  return costs;
}

}  // namespace trials
