#include "surrogates/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "surrogates/cost/typical_values.h"

namespace surrogates {
namespace {

// Evaluates the terms on the space and centres each coefficient where its
// term is `share` at the candidate that has most of it.
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
    mean.coefficients.push_back({term.name,
                                 term.unit,
                                 std::log(term.share / largest),
                                 term.log_stddev});
    ++column;
  }
  mean.features.conservativeResize(Eigen::NoChange, column);
  return mean;
}

// Sequences of one step: all candidates split the same batch, but those that
// do not say how large a microbatch is show it only where it is one sequence.
double SequencesOfStep(const trials::SearchSpace& space) {
  double sequences = 1.0;
  for (const trials::ParallelConfig& config : space.configs()) {
    sequences = std::max(sequences,
                         static_cast<double>(config.dp) * config.microbatches *
                             std::max(config.micro_batch_size, 1));
  }
  return sequences;
}

// Adds the sum of parameters, gradients and optimizer state as mixed-precision
// Adam has them, 2 + 2 + 12 of 16 bytes, as one term: their ratio is known, and
// a configuration that ran out of memory says something of all three at once.
void AddModelState(ParametricMean& mean) {
  Eigen::VectorXd state = Eigen::VectorXd::Zero(mean.features.rows());
  for (int j = 0; j < mean.size(); ++j) {
    const std::string& name =
        mean.coefficients[static_cast<std::size_t>(j)].name;
    if (name == "optimizer state") {
      state += 12.0 / 16.0 * mean.features.col(j);
    } else if (name == "parameters" || name == "gradients") {
      state += 2.0 / 16.0 * mean.features.col(j);
    }
  }
  mean.features.conservativeResize(Eigen::NoChange, mean.size() + 1);
  mean.features.col(mean.size()) = state;
  mean.coefficients.push_back({"model state", "capacity"});
}

// Takes the guesses of typical_values.h.
void SetTypical(ParametricMean& mean,
                double sequences,
                std::optional<TypicalValue> (*typical)(std::string_view,
                                                       double)) {
  for (ParametricMean::Coefficient& coefficient : mean.coefficients) {
    const auto value = typical(coefficient.name, sequences);
    if (!value) {
      throw std::logic_error("no typical value of the term " +
                             coefficient.name);
    }
    coefficient.log_center = value->log_value;
    coefficient.log_stddev = value->log_stddev;
    coefficient.absolute = value->absolute;
  }
}

}  // namespace

ParametricMean ThroughputPrior(const trials::SearchSpace& space,
                               const ClusterShape& shape,
                               CostModelForm form) {
  if (form == CostModelForm::kPrinted) {
    return Assemble(
        space, ParametricMean::Link::kInverse, PrintedTimeTerms(shape));
  }
  ParametricMean mean =
      Assemble(space, ParametricMean::Link::kInverse, PhysicalTimeTerms(shape));
  SetTypical(mean, SequencesOfStep(space), TypicalTimeCoefficient);
  // Any size: the candidate with least computation computes for 1 s, give or
  // take a factor of e^3. The term of computation is the first.
  mean.shared_scale =
      SharedScale{-std::log(mean.features.col(0).minCoeff()), 3.0};
  return mean;
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
  const bool printed = form == CostModelForm::kPrinted;
  ParametricMean mean = Assemble(
      space,
      ParametricMean::Link::kLinear,
      printed ? PrintedMemoryTerms(shape) : PhysicalMemoryTerms(shape));
  mean.clip = clip;
  if (!printed) {
    AddModelState(mean);
    SetTypical(mean, SequencesOfStep(space), TypicalMemoryCoefficient);
    mean.shared_scale = kTypicalModelState;
  }
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
