#include "surrogates/encoding.h"

#include <cmath>

#include "trials/parallel_config.h"

namespace surrogates {
namespace {

// A size of 0 stands for "derived from the rest": a step below 1.
double Position(trials::FieldScale scale, int value) {
  if (scale != trials::FieldScale::kLog2) {
    return value;
  }
  return value > 0 ? std::log2(value) : -1.0;
}

}  // namespace

Eigen::MatrixXd Columns(const EncodedSpace& space,
                        const std::vector<int>& candidates) {
  Eigen::MatrixXd columns(space.points.rows(),
                          static_cast<Eigen::Index>(candidates.size()));
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    columns.col(static_cast<Eigen::Index>(i)) = space.points.col(candidates[i]);
  }
  return columns;
}

EncodedSpace Encode(const trials::SearchSpace& space) {
  EncodedSpace encoded;
  const auto fields = trials::ConfigFields();
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(fields.size()), space.size());
  Eigen::Index dimensions = 0;
  for (const trials::ConfigField& field : fields) {
    for (int i = 0; i < space.size(); ++i) {
      rows(dimensions, i) = Position(field.scale, field.get(space[i]));
    }
    const double low = rows.row(dimensions).minCoeff();
    const double high = rows.row(dimensions).maxCoeff();
    if (low == high) {
      continue;
    }
    rows.row(dimensions).array() =
        (rows.row(dimensions).array() - low) / (high - low);
    encoded.dimensions.emplace_back(field.name);
    ++dimensions;
  }
  encoded.points = rows.topRows(dimensions);
  return encoded;
}

}  // namespace surrogates
