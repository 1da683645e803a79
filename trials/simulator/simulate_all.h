// Simulation of many configurations or plans on several threads.

#ifndef TRIALS_SIMULATOR_SIMULATE_ALL_H_
#define TRIALS_SIMULATOR_SIMULATE_ALL_H_

#include <functional>
#include <span>
#include <vector>

#include "trials/simulator/simulator.h"

namespace trials {

// Simulates each of `tasks` items: `task(simulator, i)` for i in [0, tasks).
// Every thread has its own simulator, created by `make`, and takes blocks of
// consecutive items, which in a SearchSpace share most memoized costs. Each i
// must write to its own result; then results are the same on any number of
// threads. Errors: rethrows the first exception of a task after all threads
// have ended.
void ForAll(int tasks, int threads, const std::function<Simulator()>& make,
            const std::function<void(const Simulator&, int)>& task);

// The reports of all configurations, in their order.
[[nodiscard]] std::vector<StepReport> SimulateAll(
    std::span<const ParallelConfig> configs, int threads,
    const std::function<Simulator()>& make);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_SIMULATE_ALL_H_
