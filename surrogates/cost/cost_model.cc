#include "surrogates/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

namespace surrogates {
namespace {

// The prior of M: from a twentieth of a GPU to forty of them.
constexpr SharedScale kTypicalModelState{0.3, 1.7};

// Sequences of one step. All candidates split the same batch; a candidate
// without the size of a microbatch shows it only where it is one sequence.
double SequencesOfStep(const trials::SearchSpace& space) {
  double sequences = 1.0;
  for (const trials::ParallelConfig& config : space.configs()) {
    sequences = std::max(sequences,
                         static_cast<double>(config.dp) * config.microbatches *
                             std::max(config.micro_batch_size, 1));
  }
  return sequences;
}

// Evaluates the terms on the space; those that vanish on it are left out.
ParametricMean Assemble(const trials::SearchSpace& space,
                        ParametricMean::Link link,
                        const std::vector<CostTerm>& terms) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(space.size(), static_cast<Eigen::Index>(terms.size()));
  const double sequences = SequencesOfStep(space);
  Eigen::Index column = 0;
  for (const CostTerm& term : terms) {
    for (int i = 0; i < space.size(); ++i) {
      mean.features(i, column) = term.feature(space[i]);
    }
    const double largest = mean.features.col(column).maxCoeff();
    if (largest <= 0.0) {
      continue;
    }
    mean.coefficients.push_back(
        {.name = term.name,
         .log_center = term.typical.LogCenter(sequences, largest),
         .log_stddev = term.typical.log_stddev,
         .absolute = term.typical.kind == TypicalValue::Kind::kAbsolute});
    ++column;
  }
  mean.features.conservativeResize(Eigen::NoChange, column);
  return mean;
}

// The terms with the same flat guess for all.
std::vector<CostTerm> WithoutTypicalValues(std::vector<CostTerm> terms) {
  for (CostTerm& term : terms) {
    term.typical = {};
  }
  return terms;
}

}  // namespace

double TypicalValue::LogCenter(double sequences, double largest) const {
  switch (kind) {
    case Kind::kShare:
      return std::log(value / largest);
    case Kind::kPerStep:
      return std::log(value / sequences);
    case Kind::kPerSequence:
      return std::log(value * sequences);
    case Kind::kRatio:
    case Kind::kAbsolute:
      break;
  }
  return std::log(value);
}

ParametricMean ThroughputPrior(const trials::SearchSpace& space,
                               const ClusterShape& shape,
                               CostModelForm form,
                               const CostModelChoices& choices) {
  constexpr auto kLink = ParametricMean::Link::kInverse;
  if (form == CostModelForm::kNone) {
    return ConstantMean(space.size());
  }
  if (form == CostModelForm::kPrinted) {
    return Assemble(space, kLink, PrintedTimeTerms(shape, choices.t_comp));
  }
  if (!choices.typical_values) {
    return Assemble(
        space, kLink, WithoutTypicalValues(PhysicalTimeTerms(shape)));
  }
  ParametricMean mean = Assemble(space, kLink, PhysicalTimeTerms(shape));
  // Any size: the candidate with the least computation computes for 1 s, up to
  // a factor of e^3. The first term is the computation.
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
                           double clip,
                           const CostModelChoices& choices) {
  if (form == CostModelForm::kNone) {
    return ConstantMean(space.size());
  }
  const bool printed = form == CostModelForm::kPrinted;
  std::vector<CostTerm> terms =
      printed ? PrintedMemoryTerms(shape) : PhysicalMemoryTerms();
  const bool typical_values = !printed && choices.typical_values;
  if (!printed && !typical_values) {
    terms = WithoutTypicalValues(std::move(terms));
  }
  ParametricMean mean = Assemble(space, ParametricMean::Link::kLinear, terms);
  mean.clip = clip;
  if (typical_values) {
    mean.shared_scale = kTypicalModelState;
  }
  return mean;
}

}  // namespace surrogates
