#include "methods/oppa/families.h"

#include <algorithm>
#include <array>

namespace methods {
namespace {

using Family = std::array<int, 4>;

Family FamilyOf(const trials::ParallelConfig& config) {
  return {config.dp, config.tp, config.pp, config.zero_stage};
}

}  // namespace

std::vector<char> TriedFamilies(const trials::SearchSpace& space,
                                const std::vector<char>& tried) {
  std::vector<Family> known;
  for (int i = 0; i < space.size(); ++i) {
    if (tried[static_cast<std::size_t>(i)] != 0) {
      known.push_back(FamilyOf(space[i]));
    }
  }
  std::sort(known.begin(), known.end());
  std::vector<char> result(tried.size());
  bool any_left = false;
  for (int i = 0; i < space.size(); ++i) {
    const bool seen =
        std::binary_search(known.begin(), known.end(), FamilyOf(space[i]));
    result[static_cast<std::size_t>(i)] = seen ? 1 : 0;
    any_left = any_left || !seen;
  }
  return any_left ? result : std::vector<char>{};
}

}  // namespace methods
