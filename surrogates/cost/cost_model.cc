#include "surrogates/cost/cost_model.h"

#include <cmath>
#include <stdexcept>
#include <vector>

namespace surrogates {
namespace {

// Evaluates the terms on the space and centres each coefficient where its
// term is `share` at the candidate that has most (or least) of it.
ParametricMean Assemble(const trials::SearchSpace& space,
                        ParametricMean::Link link,
                        const std::vector<CostTerm>& terms) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(space.size(), static_cast<Eigen::Index>(terms.size()));
  Eigen::Index column = 0;
  for (const CostTerm& term : terms) {
    for (int i = 0; i < space.size(); ++i) {
      mean.features(i, column) = term.feature(space[i]);
    }
    const double largest = mean.features.col(column).maxCoeff();
    if (largest <= 0.0) {
      continue;  // absent from this space: nothing to learn
    }
    const double anchor =
        term.at_smallest ? mean.features.col(column).minCoeff() : largest;
    mean.coefficients.push_back(
        {term.name, term.unit, std::log(term.share / anchor), term.log_stddev});
    ++column;
  }
  mean.features.conservativeResize(Eigen::NoChange, column);
  return mean;
}

}  // namespace

ParametricMean ThroughputPrior(const trials::SearchSpace& space,
                               const ClusterShape& shape,
                               CostModelForm form) {
  return Assemble(space,
                  ParametricMean::Link::kInverse,
                  form == CostModelForm::kPrinted ? PrintedTimeTerms(shape)
                                                  : PhysicalTimeTerms(shape));
}

Eigen::VectorXd CentersFor(const ParametricMean& prior, double typical) {
  if (!(typical > 0.0)) {
    throw std::invalid_argument("CentersFor: typical must be positive");
  }
  // The coefficients of an inverse mean are times, not throughputs.
  const double shift = prior.link == ParametricMean::Link::kInverse
                           ? -std::log(typical)
                           : std::log(typical);
  Eigen::VectorXd centers(prior.size());
  for (int j = 0; j < prior.size(); ++j) {
    centers[j] =
        prior.coefficients[static_cast<std::size_t>(j)].log_center + shift;
  }
  return centers;
}

ParametricMean MemoryPrior(const trials::SearchSpace& space,
                           const ClusterShape& shape,
                           CostModelForm form,
                           double clip) {
  ParametricMean mean =
      Assemble(space,
               ParametricMean::Link::kLinear,
               form == CostModelForm::kPrinted ? PrintedMemoryTerms(shape)
                                               : PhysicalMemoryTerms(shape));
  mean.clip = clip;
  return mean;
}

ParametricMean ConstantPrior(const trials::SearchSpace& space) {
  ParametricMean mean;
  mean.link = ParametricMean::Link::kConstant;
  mean.features = Eigen::MatrixXd::Ones(space.size(), 1);
  mean.coefficients.push_back({"constant", "", 0.0, 1.0});
  return mean;
}

}  // namespace surrogates
