// Configurations as points of the unit cube.

#ifndef SURROGATES_ENCODING_H_
#define SURROGATES_ENCODING_H_

#include <string>
#include <vector>

#include <Eigen/Core>

#include "trials/search_space.h"

namespace surrogates {

// The embedding e(H) of every candidate: a dimension per field that takes
// more than one value in the space, each scaled to [0, 1] over the space
// (sizes and buckets by their logarithm).
//
// Source: OPPA Sec. 4.1.
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

[[nodiscard]] EncodedSpace Encode(const trials::SearchSpace& space);

}  // namespace surrogates

#endif  // SURROGATES_ENCODING_H_
