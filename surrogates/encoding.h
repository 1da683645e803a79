// Configurations as points of the unit cube.

#ifndef SURROGATES_ENCODING_H_
#define SURROGATES_ENCODING_H_

#include <string>
#include <vector>

#include <Eigen/Core>

#include "trials/search_space.h"

namespace surrogates {

// Where a knob stands that has no effect in a configuration
// (trials::HasEffect).
enum class InertKnobs {
  // At its default, as in the paper. Two configurations that both have no use
  // for it agree; but where one has, they differ by how far its value is from
  // the default, so ZeRO 0 is far from ZeRO 1 with a large bucket.
  kDefault,
  // In the middle of the values that it takes where it has an effect: from
  // there no value is further than half of the range. Numbers of microbatches
  // and chunks stay what they are, because 1 is a number like others.
  kNeutral,
};

// The embedding e(H) of every candidate: a dimension per field that takes
// more than one value in the space, each scaled to [0, 1] over the space
// (sizes and buckets by their logarithm).
//
// Source: OPPA Sec. 4.1; docs/decisions/0010-inactive-parameters.md.
// Shapes: points is [d, N], one candidate per column.
struct EncodedSpace {
  Eigen::MatrixXd points;
  std::vector<std::string> dimensions;  // field names, [d]

  [[nodiscard]] int dimension_count() const {
    return static_cast<int>(points.rows());
  }
  [[nodiscard]] int size() const { return static_cast<int>(points.cols()); }
};

// The points of some candidates, in the order given. Shapes: [d, n].
[[nodiscard]] Eigen::MatrixXd Columns(const EncodedSpace& space,
                                      const std::vector<int>& candidates);

[[nodiscard]] EncodedSpace Encode(const trials::SearchSpace& space,
                                  InertKnobs inert = InertKnobs::kNeutral);

}  // namespace surrogates

#endif  // SURROGATES_ENCODING_H_
