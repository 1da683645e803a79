// Families: groups of configurations that distribute a training job in the same
// way.

#pragma once

#include <vector>

#include "trials/search_space.h"

namespace surrogates {

// Configurations are of the same family if they agree in every structural knob
// (Knob::structural): sizes, ZeRO stage, recomputation. Their other differences
// (buckets, overlaps, microbatches, chunks) rarely change which resource is the
// bottleneck, so a model that is wrong about one member is wrong about all.
//
// Shapes: of_candidate [N], values [F][k] for the k structural knobs.
struct Families {
  std::vector<int> of_candidate;  // index of the family of each candidate
  std::vector<std::vector<int>> values;

  [[nodiscard]] int size() const { return static_cast<int>(values.size()); }

  // The number of structural knobs in which two families differ.
  [[nodiscard]] int Differences(int a, int b) const;
};

// The families of a space, in the order of their first candidates.
[[nodiscard]] Families FamiliesOf(const trials::SearchSpace& space);

}  // namespace surrogates
