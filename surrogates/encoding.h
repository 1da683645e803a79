// The encoding of configurations as points of the unit cube.

#pragma once

#include <string>
#include <vector>

#include <Eigen/Core>

#include "surrogates/families.h"
#include "trials/search_space.h"

namespace surrogates {

// The position of an inactive knob of a configuration (see trials::HasEffect).
enum class InactiveKnobs {
  // At its default, as in the paper. Two configurations in which it is inactive
  // agree; but if it is active in one of them, they differ by how far its value
  // is from the default, so ZeRO 0 is far from ZeRO 1 with a large bucket.
  kDefault,
  // In the middle of the values that it takes where it is active: from there no
  // value is further than half of the range. Numbers of parts
  // (Knob::counts_parts) keep their values, because 1 is an ordinary number.
  kNeutral,
};

// The scale of sizes and buckets in the embedding.
enum class SizeScale {
  kLog2,  // the logarithm; a size of 0, derived from the rest, is a step below
          // 1
  kLinear,  // the value
  kRank,    // the position among the values in the space
};

// The embedding e(H) of every candidate: a dimension per knob that takes
// more than one value in the space, each scaled to [0, 1] over the space. The
// paper scales every dimension "according to the feasible values", which
// kLinear and kRank do.
//
// Source: OPPA Sec. 4.1; docs/decisions/0010-inactive-parameters.md.
// Shapes: points is [d, N], one candidate per column.
struct EncodedSpace {
  Eigen::MatrixXd points;
  // Knob names, [d]; "attention=flash" for a value of a category with more than
  // two, which has a dimension for each.
  std::vector<std::string> dimensions;
  Families families;  // of the candidates, [N]

  [[nodiscard]] int dimension_count() const {
    return static_cast<int>(points.rows());
  }
  [[nodiscard]] int size() const { return static_cast<int>(points.cols()); }
};

// The points of some candidates, in the order given. Shapes: [d, n].
[[nodiscard]] Eigen::MatrixXd Columns(const EncodedSpace& space,
                                      const std::vector<int>& candidates);

[[nodiscard]] EncodedSpace Encode(
    const trials::SearchSpace& space,
    InactiveKnobs inactive = InactiveKnobs::kNeutral,
    SizeScale sizes = SizeScale::kLog2);

}  // namespace surrogates
