#include "methods/sampling/nearest.h"

#include <cmath>
#include <limits>

#include "trials/knobs.h"

namespace methods {

double Distance(const trials::ParallelConfig& a,
                const trials::ParallelConfig& b, const trials::KnobSet& knobs) {
  double distance = 0.0;
  for (const trials::Knob& knob : knobs) {
    const int x = knob.Get(a);
    const int y = knob.Get(b);
    if (knob.scale == trials::KnobScale::kLog2 && x > 0 && y > 0) {
      distance += std::abs(std::log2(static_cast<double>(x) / y));
    } else {
      distance += x == y ? 0.0 : 1.0;
    }
  }
  return distance;
}

int NearestUntried(const trials::SearchSpace& space,
                   const std::vector<char>& tried,
                   const trials::ParallelConfig& config) {
  int nearest = -1;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < space.size(); ++i) {
    if (tried[i] == 0) {
      const double distance = Distance(space[i], config, space.knobs());
      if (distance < least) {
        least = distance;
        nearest = i;
      }
    }
  }
  return nearest;
}

}  // namespace methods
