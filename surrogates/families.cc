#include "surrogates/families.h"

#include <cstddef>
#include <map>

#include "trials/knobs.h"

namespace surrogates {

int Families::Differences(int a, int b) const {
  const std::vector<int>& x = values[a];
  const std::vector<int>& y = values[b];
  int differences = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    differences += x[k] != y[k] ? 1 : 0;
  }
  return differences;
}

Families FamiliesOf(const trials::SearchSpace& space) {
  std::vector<const trials::Knob*> structural;
  for (const trials::Knob& knob : space.knobs()) {
    if (knob.structural) {
      structural.push_back(&knob);
    }
  }
  Families families;
  families.of_candidate.reserve(space.size());
  std::map<std::vector<int>, int> known;
  std::vector<int> values(structural.size());
  for (const trials::ParallelConfig& config : space.configs()) {
    for (std::size_t k = 0; k < structural.size(); ++k) {
      values[k] = structural[k]->Get(config);
    }
    // Neighbours are usually of one family.
    if (!families.of_candidate.empty() &&
        families.values[families.of_candidate.back()] == values) {
      families.of_candidate.push_back(families.of_candidate.back());
      continue;
    }
    const auto [found, is_new] = known.emplace(values, families.size());
    if (is_new) {
      families.values.push_back(values);
    }
    families.of_candidate.push_back(found->second);
  }
  return families;
}

}  // namespace surrogates
