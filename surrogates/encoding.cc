#include "surrogates/encoding.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "trials/knobs.h"

namespace surrogates {
namespace {

// Where each candidate has the knob, before it is scaled to [0, 1]. Shapes:
// [N].
Eigen::RowVectorXd Positions(const trials::SearchSpace& space,
                             const trials::Knob& knob, SizeScale sizes) {
  Eigen::RowVectorXd positions(space.size());
  for (int i = 0; i < space.size(); ++i) {
    positions[i] = knob.Number(knob.Get(space[i]));
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
void CenterInactive(const trials::SearchSpace& space, const trials::Knob& knob,
                    Eigen::RowVectorXd& row) {
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

// A row to scale, with the name of its dimension.
struct Row {
  std::string name;
  Eigen::RowVectorXd positions;
};

// A category of more than two values has a dimension for each of them, which is
// 1 where the knob has it and 0 elsewhere; any other knob has one dimension.
std::vector<Row> RowsOf(const trials::SearchSpace& space,
                        const trials::Knob& knob, SizeScale sizes) {
  const Eigen::RowVectorXd positions = Positions(space, knob, sizes);
  if (knob.scale != trials::KnobScale::kCategory || knob.texts.size() <= 2) {
    return {{knob.name, positions}};
  }
  std::vector<Row> rows;
  for (int value = knob.minimum; value <= knob.maximum; ++value) {
    rows.push_back({knob.name + "=" + knob.Text(value),
                    (positions.array() == knob.Number(value)).cast<double>()});
  }
  return rows;
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

EncodedSpace Encode(const trials::SearchSpace& space, InactiveKnobs inactive,
                    SizeScale sizes) {
  EncodedSpace encoded;
  std::vector<Row> rows;
  for (const trials::Knob& knob : space.knobs()) {
    for (Row& row : RowsOf(space, knob, sizes)) {
      if (inactive == InactiveKnobs::kNeutral && !knob.counts_parts) {
        CenterInactive(space, knob, row.positions);
      }
      const double low = row.positions.minCoeff();
      const double high = row.positions.maxCoeff();
      if (low == high) {
        continue;
      }
      row.positions.array() = (row.positions.array() - low) / (high - low);
      encoded.dimensions.push_back(row.name);
      rows.push_back(std::move(row));
    }
  }
  encoded.points.resize(static_cast<Eigen::Index>(rows.size()), space.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    encoded.points.row(static_cast<Eigen::Index>(i)) = rows[i].positions;
  }
  encoded.families = FamiliesOf(space);
  return encoded;
}

}  // namespace surrogates
