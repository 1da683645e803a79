// A stage with costs that are round numbers.

#ifndef TESTS_TRIALS_SIMULATOR_STAGE_OF_FIVE_H_
#define TESTS_TRIALS_SIMULATOR_STAGE_OF_FIVE_H_

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/simulator/action_time.h"

namespace trials {

// A stage of five blocks, two of them without experts, with costs that are easy
// to add up: 3 x 10 + 2 x 6 s forward, 3 x 20 + 2 x 14 s backward.
class StageOfFive : public testing::Test {
 protected:
  StageOfFive() {
    Framework& framework = problem_.framework;
    framework.overlap_slowdown = 0.25;
    framework.dispatch_norm = 0.0;
    framework.message_dispatch_s = 0.0;
    framework.microbatch_overhead_s = 0.0;
    framework.bucket_overhead_s = 0.0;
    plan_.shared.microbatches = 1;
    layers_.block.forward_s = 10.0;
    layers_.block.backward_s = 20.0;
    layers_.dense_block.forward_s = 6.0;
    layers_.dense_block.backward_s = 14.0;
    layers_.embedding.forward_s = 0.5;
    layers_.embedding.backward_s = 0.75;
    layers_.head.forward_s = 2.5;
    layers_.head.backward_s = 4.25;
    chunk_.blocks = 5;
    chunk_.dense = 2;
  }

  [[nodiscard]] StageContext Stage() const {
    return {problem_, plan_, 0, gpu_, layers_, links_, /*contended=*/false};
  }
  [[nodiscard]] TimeBreakdown Forward() const {
    return ForwardTime(Stage(), chunk_);
  }
  [[nodiscard]] TimeBreakdown Backward() const {
    return BackwardTime(Stage(), chunk_);
  }

  // Four ranks of a ring; a message takes 1 s and a second for every 2 bytes.
  void AddRing() {
    plan_.shared.cp = 4;
    links_.cp = {
        .size = 4, .bandwidth_bytes_per_s = 2.0, .intra_latency_s = 1.0};
    layers_.block.ring_bytes = 4.0;
    layers_.block.core_forward_s = 2.0;
    layers_.block.core_backward_s = 6.0;
  }

  Problem problem_{SmallWorkload(), {SmallCluster()}, {}, {}};
  GpuModel gpu_{SmallCluster().gpu, Precision::kBf16, 0.0};
  Plan plan_{.shared = {}, .stages = {{}}, .layers = {5}};
  LayerCosts layers_;
  StageLinks links_;
  Chunk chunk_;
};

}  // namespace trials

#endif  // TESTS_TRIALS_SIMULATOR_STAGE_OF_FIVE_H_
