#include "surrogates/encoding.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Moves the candidates in which the field has no effect to the middle of the
// others. Nothing happens where the space does not keep to canonical values: a
// measured table may have microbatches without a pipeline, and mean them.
void CenterInert(const trials::SearchSpace& space,
                 const trials::ConfigField& field,
                 Eigen::Ref<Eigen::RowVectorXd, 0, Eigen::InnerStride<>> row) {
  const int unset = field.get(trials::ParallelConfig{});
  std::vector<int> inert;
  double low = 0.0;
  double high = 0.0;
  bool any = false;
  for (int i = 0; i < space.size(); ++i) {
    if (!trials::HasEffect(field, space[i])) {
      if (field.get(space[i]) != unset) {
        return;
      }
      inert.push_back(i);
      continue;
    }
    low = any ? std::min(low, row[i]) : row[i];
    high = any ? std::max(high, row[i]) : row[i];
    any = true;
  }
  if (any) {
    for (const int i : inert) {
      row[i] = 0.5 * (low + high);
    }
  }
}

// A number of parts, of which 1 is as good a value as any.
bool Counts(const trials::ConfigField& field) {
  return field.name == "microbatches" || field.name == "model_chunks";
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

EncodedSpace Encode(const trials::SearchSpace& space, InertKnobs inert) {
  EncodedSpace encoded;
  const auto fields = trials::ConfigFields();
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(fields.size()), space.size());
  Eigen::Index dimensions = 0;
  for (const trials::ConfigField& field : fields) {
    for (int i = 0; i < space.size(); ++i) {
      rows(dimensions, i) = Position(field.scale, field.get(space[i]));
    }
    if (inert == InertKnobs::kNeutral && !Counts(field)) {
      CenterInert(space, field, rows.row(dimensions));
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
