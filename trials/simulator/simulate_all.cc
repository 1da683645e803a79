#include "trials/simulator/simulate_all.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

namespace trials {
namespace {

// Large enough that successive items find what the ones before them left.
constexpr int kBlock = 512;

}  // namespace

void ForAll(int tasks,
            int threads,
            const std::function<Simulator()>& make,
            const std::function<void(const Simulator&, int)>& task) {
  std::atomic<int> taken = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      const Simulator simulator = make();
      while (!failed.load()) {
        const int begin = taken.fetch_add(kBlock);
        if (begin >= tasks) {
          return;
        }
        const int end = std::min(begin + kBlock, tasks);
        for (int i = begin; i < end; ++i) {
          task(simulator, i);
        }
      }
    } catch (...) {
      if (!failed.exchange(true)) {
        error = std::current_exception();
      }
    }
  };
  {
    const int useful = (tasks + kBlock - 1) / kBlock;
    std::vector<std::jthread> others;
    for (int t = 1; t < std::min(threads, useful); ++t) {
      others.emplace_back(work);
    }
    work();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

std::vector<StepReport> SimulateAll(std::span<const ParallelConfig> configs,
                                    int threads,
                                    const std::function<Simulator()>& make) {
  std::vector<StepReport> reports(configs.size());
  ForAll(static_cast<int>(configs.size()),
         threads,
         make,
         [&](const Simulator& simulator, int i) {
           const auto at = static_cast<std::size_t>(i);
           reports[at] = simulator.Simulate(configs[at]);
         });
  return reports;
}

}  // namespace trials
