#include "methods/oppa/families.h"

#include <algorithm>
#include <cstddef>

namespace methods {

std::vector<char> UsedFamilies(const trials::Families& families,
                               const History& history) {
  std::vector<char> used(families.values.size(), 0);
  const auto family_of = [&](std::size_t candidate) {
    return static_cast<std::size_t>(families.of_candidate[candidate]);
  };
  for (const trials::Trial& trial : history.trials()) {
    if (trial.HasThroughput()) {
      used[family_of(static_cast<std::size_t>(trial.candidate))] = 1;
    }
  }
  std::vector<char> result = history.tried();
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = result[i] != 0 || used[family_of(i)] != 0 ? 1 : 0;
  }
  const bool any_left =
      std::find(result.begin(), result.end(), 0) != result.end();
  return any_left ? result : std::vector<char>{};
}

}  // namespace methods
