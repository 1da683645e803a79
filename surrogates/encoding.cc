#include "surrogates/encoding.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "trials/knobs.h"

namespace surrogates {
namespace {

// A size of 0 means "derived from the rest": a step below 1.
double Position(trials::KnobScale scale, int value) {
  if (scale != trials::KnobScale::kLog2) {
    return value;
  }
  return value > 0 ? std::log2(value) : -1.0;
}

// Moves the candidates in which the knob is inactive to the middle of the
// others. Does nothing if the space does not keep to canonical values: a
// measured table may have microbatches without a pipeline, and mean them.
void CenterInactive(
    const trials::SearchSpace& space,
    const trials::Knob& knob,
    Eigen::Ref<Eigen::RowVectorXd, 0, Eigen::InnerStride<>> row) {
  std::vector<int> inactive;
  double low = 0.0;
  double high = 0.0;
  bool any = false;
  for (int i = 0; i < space.size(); ++i) {
    if (!trials::HasEffect(knob, space[i], space.knobs())) {
      if (knob.Get(space[i]) != knob.Default()) {
        return;
      }
      inactive.push_back(i);
      continue;
    }
    low = any ? std::min(low, row[i]) : row[i];
    high = any ? std::max(high, row[i]) : row[i];
    any = true;
  }
  if (any) {
    for (const int i : inactive) {
      row[i] = 0.5 * (low + high);
    }
  }
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

EncodedSpace Encode(const trials::SearchSpace& space, InactiveKnobs inactive) {
  EncodedSpace encoded;
  const trials::KnobSet& knobs = space.knobs();
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(knobs.size()), space.size());
  Eigen::Index dimensions = 0;
  for (const trials::Knob& knob : knobs) {
    for (int i = 0; i < space.size(); ++i) {
      rows(dimensions, i) = Position(knob.scale, knob.Get(space[i]));
    }
    if (inactive == InactiveKnobs::kNeutral && !knob.counts_parts) {
      CenterInactive(space, knob, rows.row(dimensions));
    }
    const double low = rows.row(dimensions).minCoeff();
    const double high = rows.row(dimensions).maxCoeff();
    if (low == high) {
      continue;
    }
    rows.row(dimensions).array() =
        (rows.row(dimensions).array() - low) / (high - low);
    encoded.dimensions.push_back(knob.name);
    ++dimensions;
  }
  encoded.points = rows.topRows(dimensions);
  encoded.families = trials::FamiliesOf(space);
  return encoded;
}

}  // namespace surrogates
