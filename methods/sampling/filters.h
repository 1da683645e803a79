// Filters of candidates, one after the other, with a count of each.

#ifndef METHODS_SAMPLING_FILTERS_H_
#define METHODS_SAMPLING_FILTERS_H_

#include <functional>
#include <string>
#include <vector>

namespace methods {

// A reason to leave candidates out.
struct Filter {
  std::string name;
  std::function<bool(int candidate)> keeps;
};

struct Filtered {
  std::vector<int> kept;
  // Candidates that each filter removed from those that the earlier ones kept.
  std::vector<int> removed;
};

[[nodiscard]] inline Filtered ApplyFilters(std::vector<int> candidates,
                                           const std::vector<Filter>& filters) {
  Filtered result{std::move(candidates), {}};
  for (const Filter& filter : filters) {
    result.removed.push_back(
        static_cast<int>(std::erase_if(result.kept, [&filter](int candidate) {
          return !filter.keeps(candidate);
        })));
  }
  return result;
}

}  // namespace methods

#endif  // METHODS_SAMPLING_FILTERS_H_
