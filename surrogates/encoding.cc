#include "surrogates/encoding.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <vector>

#include "trials/knobs.h"

namespace surrogates {
namespace {

// Where each candidate has the knob, before it is scaled to [0, 1]. Shapes:
// [N].
Eigen::RowVectorXd Positions(const trials::SearchSpace& space,
                             const trials::Knob& knob,
                             SizeScale sizes) {
  Eigen::RowVectorXd positions(space.size());
  for (int i = 0; i < space.size(); ++i) {
    positions[i] = knob.Get(space[i]);
  }
  if (knob.scale != trials::KnobScale::kLog2) {
    return positions;
  }
  if (sizes == SizeScale::kLog2) {
    // A size of 0 means "derived from the rest".
    return positions.unaryExpr(
        [](double value) { return value > 0.0 ? std::log2(value) : -1.0; });
  }
  if (sizes == SizeScale::kRank) {
    const std::set<double> values(positions.begin(), positions.end());
    return positions.unaryExpr([&](double value) {
      return static_cast<double>(
          std::distance(values.begin(), values.find(value)));
    });
  }
  return positions;
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

EncodedSpace Encode(const trials::SearchSpace& space,
                    InactiveKnobs inactive,
                    SizeScale sizes) {
  EncodedSpace encoded;
  const trials::KnobSet& knobs = space.knobs();
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(knobs.size()), space.size());
  Eigen::Index dimensions = 0;
  for (const trials::Knob& knob : knobs) {
    rows.row(dimensions) = Positions(space, knob, sizes);
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
