#include "methods/planners/amp/layer_assignment.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "common/units.h"

namespace methods {
namespace {

using common::kInfinity;

class AssignmentProgram {
 public:
  AssignmentProgram(const std::vector<double>& layer_ms,
                    const std::vector<std::vector<double>>& transfer_ms,
                    int stages)
      : transfer_ms_(transfer_ms),
        layers_(layer_ms.size()),
        stages_(static_cast<std::size_t>(stages)),
        sums_(layers_ + 1, 0.0),
        least_(stages_, std::vector<double>(layers_ + 1)),
        begin_(stages_, std::vector<std::size_t>(layers_ + 1)) {
    std::partial_sum(layer_ms.begin(), layer_ms.end(), sums_.begin() + 1);
  }

  [[nodiscard]] double Total() const { return sums_.back(); }

  // All values of max_i t_i, ascending, from the least that may be one.
  [[nodiscard]] std::vector<double> Bounds() const {
    std::vector<double> bounds;
    for (std::size_t i = 0; i < layers_; ++i) {
      for (std::size_t j = i + 1; j <= layers_; ++j) {
        if (sums_[j] - sums_[i] >=
            Total() / static_cast<double>(stages_) * (1.0 - 1e-12)) {
          bounds.push_back(sums_[j] - sums_[i]);
        }
      }
    }
    std::ranges::sort(bounds);
    // Equal up to rounding: the largest of them admits what the others do.
    std::vector<double> distinct;
    for (const double bound : bounds) {
      if (!distinct.empty() && bound <= distinct.back() * (1.0 + 1e-12)) {
        distinct.back() = bound;
      } else {
        distinct.push_back(bound);
      }
    }
    return distinct;
  }

  // The least sum of transfers with stages of at most the bound; infinite if
  // there is none.
  double Solve(double bound) {
    for (std::size_t s = 0; s < stages_; ++s) {
      for (std::size_t end = 1; end <= layers_; ++end) {
        least_[s][end] = kInfinity;
        if (s == 0) {
          if (sums_[end] <= bound) {
            least_[s][end] = 0.0;
          }
          continue;
        }
        for (std::size_t begin = end; begin-- > s;) {
          if (sums_[end] - sums_[begin] > bound) {
            break;
          }
          const double ms =
              least_[s - 1][begin] + transfer_ms_[s - 1][begin - 1];
          if (ms < least_[s][end]) {
            least_[s][end] = ms;
            begin_[s][end] = begin;
          }
        }
      }
    }
    return least_[stages_ - 1][layers_];
  }

  // The assignment of the last Solve.
  [[nodiscard]] std::vector<int> First() const {
    std::vector<int> first(stages_ + 1);
    std::size_t end = layers_;
    for (std::size_t s = stages_; s > 0; --s) {
      first[s] = static_cast<int>(end);
      end = begin_[s - 1][end];
    }
    first[0] = 0;
    return first;
  }

 private:
  const std::vector<std::vector<double>>& transfer_ms_;
  std::size_t layers_;
  std::size_t stages_;
  std::vector<double> sums_;  // of the first layers
  // By stage and end of the stage.
  std::vector<std::vector<double>> least_;
  std::vector<std::vector<std::size_t>> begin_;
};

}  // namespace

LayerAssignment AssignLayers(
    const std::vector<double>& layer_ms,
    const std::vector<std::vector<double>>& transfer_ms, int stages,
    int microbatches) {
  LayerAssignment best{{}, kInfinity};
  if (stages > static_cast<int>(layer_ms.size())) {
    return best;
  }
  AssignmentProgram program(layer_ms, transfer_ms, stages);
  for (const double bound : program.Bounds()) {
    const double at_least = program.Total() + (microbatches - 1) * bound;
    if (at_least >= best.ms) {
      break;
    }
    const double ms = at_least + program.Solve(bound);
    if (ms < best.ms) {
      best = {program.First(), ms};
    }
  }
  return best;
}

}  // namespace methods
