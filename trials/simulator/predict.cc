#include "trials/simulator/predict.h"

#include <cstddef>
#include <limits>
#include <stdexcept>

#include "trials/simulator/simulate_all.h"

namespace trials {

SimulatedCosts PredictCosts(const SimulatedTraining& training, int threads) {
  constexpr double kRejected = std::numeric_limits<double>::quiet_NaN();
  Framework framework = training.framework;
  framework.pipeline.full_pipeline = false;
  SimulatedCosts costs{std::vector(training.configs.size(), kRejected),
                       std::vector(training.configs.size(), kRejected)};
  ForAll(
      static_cast<int>(training.configs.size()), threads,
      [&] {
        return Simulator(training.workload, training.cluster, {framework});
      },
      [&](const Simulator& simulator, int i) {
        const auto at = static_cast<std::size_t>(i);
        try {
          const StepReport report = simulator.Simulate(training.configs[at]);
          costs.step_time_s[at] = report.step_time_s;
          costs.peak_memory_bytes[at] = report.peak_memory_bytes;
        } catch (const std::invalid_argument&) {  // InvalidPlan, or unsupported
        }
      });
  return costs;
}

}  // namespace trials
