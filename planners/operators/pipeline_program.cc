#include "planners/operators/pipeline_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace planners {

bool PipelineProgram::IsLess(const Times& a, const Times& b) const {
  switch (least_) {
    case Least::kSlowest:
      return a.slowest_ms < b.slowest_ms;
    case Least::kSum:
      return a.sum_ms < b.sum_ms;
    case Least::kSlowestThenSum:
      break;
  }
  return std::pair(a.slowest_ms, a.sum_ms) < std::pair(b.slowest_ms, b.sum_ms);
}

void PipelineProgram::Solve(
    int stages, const std::function<double(const PipelineStage&)>& ms_of) {
  rests_.resize(std::max(
      rests_.size(), static_cast<std::size_t>(stages * last_ * (gpus_ + 1))));
  for (int begin = 0; begin < last_; ++begin) {
    for (int end = begin + 1; end <= last_; ++end) {
      if ((stages == 1) != (end == last_)) {
        continue;
      }
      for (int gpus = 1; gpus <= gpus_; gpus *= 2) {
        const PipelineStage first{begin, end, gpus};
        const double ms = ms_of(first);
        if (std::isfinite(ms)) {
          Join(stages, first, ms);
        }
      }
    }
  }
}

// Puts a stage in front of the best rests on any number of GPUs.
void PipelineProgram::Join(int stages, const PipelineStage& first, double ms) {
  const int most = stages == 1 ? first.gpus : gpus_;
  for (int all = first.gpus + stages - 1; all <= most; ++all) {
    Times times{ms, ms};
    if (stages > 1) {
      const Times& rest = At(stages - 1, first.end, all - first.gpus).times;
      times = {std::max(ms, rest.slowest_ms), ms + rest.sum_ms};
    }
    Rest& best = rests_[Index(stages, first.begin, all)];
    if (IsLess(times, best.times)) {
      best = {times, first};
    }
  }
}

std::vector<PipelineStage> PipelineProgram::StagesOf(int stages) const {
  std::vector<PipelineStage> all;
  int begin = 0;
  int gpus = gpus_;
  for (; stages > 0; --stages) {
    all.push_back(At(stages, begin, gpus).first);
    begin = all.back().end;
    gpus -= all.back().gpus;
  }
  return all;
}

}  // namespace planners
