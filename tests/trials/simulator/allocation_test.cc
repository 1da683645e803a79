// The allocations of a simulation.

#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/allocations.h"
#include "tests/trials/simulator/paper_problem.h"
#include "trials/simulator/simulator.h"

namespace trials::allocation_test {

class SimulatorAllocations : public fakes::AllocationTest {
 protected:
  // The allocations of simulating all these again.
  int AllocationsOf(const std::vector<ParallelConfig>& configs) {
    double total_s = 0.0;
    const int count = Allocations([&] {
      for (const ParallelConfig& config : configs) {
        total_s += simulator_.Simulate(config).step_time_s;
      }
    });
    EXPECT_GT(total_s, 0.0);
    return count;
  }

  const PaperProblem problem_{"qwen-8gpu"};
  Simulator simulator_{problem_.workload, problem_.cluster};
};

TEST_F(SimulatorAllocations, NoneWhereAllHasBeenSimulatedBefore) {
  const std::vector<ParallelConfig> all = problem_.Space().configs();
  EXPECT_GT(AllocationsOf(all), 0);
  EXPECT_EQ(AllocationsOf(all), 0);
}

}  // namespace trials::allocation_test
