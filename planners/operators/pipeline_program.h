// The dynamic program by which planners join stages to pipelines.

#pragma once

#include <functional>
#include <vector>

#include "common/units.h"

namespace planners {

// A stage from one of the places where stages may begin to another.
struct PipelineStage {
  int begin = 0;
  int end = 0;
  int gpus = 0;  // a power of two
};

// The best pipelines from every place to the last one, for every number of GPUs
// and of stages. The best one has the least time of its slowest stage, the
// least sum of the times, or, of those with the least slowest stage, the least
// sum.
class PipelineProgram {
 public:
  enum class Least { kSlowest, kSum, kSlowestThenSum };
  PipelineProgram(Least least, int last_place, int gpus)
      : least_(least), last_(last_place), gpus_(gpus) {}

  // Finds the pipelines of exactly so many stages; Solve was called for one
  // stage less. `ms_of` a stage is infinite where the stage is not allowed.
  // Pipelines of earlier calls stay unless better ones are found.
  void Solve(int stages,
             const std::function<double(const PipelineStage&)>& ms_of);

  // The best pipeline of the whole model on all GPUs. Infinite: there is none.
  struct Times {
    double slowest_ms = common::kInfinity;
    double sum_ms = common::kInfinity;
  };
  [[nodiscard]] const Times& Best(int stages) const {
    return At(stages, 0, gpus_).times;
  }
  // Its stages in their order. Precondition: there is one.
  [[nodiscard]] std::vector<PipelineStage> StagesOf(int stages) const;

 private:
  struct Rest {
    Times times;
    PipelineStage first;
  };
  [[nodiscard]] int Index(int stages, int begin, int gpus) const {
    return ((stages - 1) * last_ + begin) * (gpus_ + 1) + gpus;
  }
  [[nodiscard]] const Rest& At(int stages, int begin, int gpus) const {
    return rests_[Index(stages, begin, gpus)];
  }
  void Join(int stages, const PipelineStage& first, double ms);
  [[nodiscard]] bool IsLess(const Times& a, const Times& b) const;

  Least least_;
  int last_;
  int gpus_;
  std::vector<Rest> rests_;  // by stages, beginning, GPUs
};

}  // namespace planners
