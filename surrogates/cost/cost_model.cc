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
// Around a known M, 16 bytes per parameter.
constexpr double kModelStateLogStddev = 0.2;
// The FLOP/s that a GPU sustains: from an eighth of this to eight times as
// many.
constexpr double kTypicalFlopRate = 1e14;
constexpr double kFlopRateLogStddev = 1.0;

// Sequences of one step. All candidates split the same batch; a candidate
// without the size of a microbatch shows it only where it is one sequence.
double SequencesOfStep(const std::vector<trials::ParallelConfig>& configs) {
  double sequences = 1.0;
  for (const trials::ParallelConfig& config : configs) {
    sequences = std::max(sequences, static_cast<double>(config.dp) *
                                        config.microbatches *
                                        std::max(config.micro_batch_size, 1));
  }
  return sequences;
}

// Evaluates the terms on the space; those that vanish on it are left out.
ParametricMean Assemble(const std::vector<trials::ParallelConfig>& configs,
                        ParametricMean::Link link,
                        const std::vector<CostTerm>& terms) {
  ParametricMean mean;
  mean.link = link;
  const auto size = static_cast<Eigen::Index>(configs.size());
  mean.features.resize(size, static_cast<Eigen::Index>(terms.size()));
  const double sequences = SequencesOfStep(configs);
  Eigen::Index column = 0;
  for (const CostTerm& term : terms) {
    for (Eigen::Index i = 0; i < size; ++i) {
      mean.features(i, column) = term.feature(configs[i]);
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

// The space as the physical terms read it; see WithSequenceRanks.
struct PhysicalSpace {
  std::vector<trials::ParallelConfig> configs;
  ActivationKnobs sets;
};

PhysicalSpace ReadPhysically(const trials::SearchSpace& space,
                             const ClusterShape& shape) {
  PhysicalSpace read;
  for (const trials::ParallelConfig& config : space.configs()) {
    read.sets.sp = read.sets.sp || SplitsWithinTp(config, shape);
    read.sets.attention = read.sets.attention ||
                          config.grad_checkpoint == trials::kRecomputeSelective;
    read.configs.push_back(WithSequenceRanks(config, shape));
  }
  return read;
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
                               const ClusterShape& shape, CostModelForm form,
                               const CostModelChoices& choices) {
  constexpr auto kLink = ParametricMean::Link::kInverse;
  if (form == CostModelForm::kNone) {
    return ConstantMean(space.size());
  }
  if (form == CostModelForm::kPrinted) {
    return Assemble(space.configs(), kLink,
                    PrintedTimeTerms(shape, choices.t_comp));
  }
  const PhysicalSpace read = ReadPhysically(space, shape);
  std::vector<CostTerm> terms = PhysicalTimeTerms(shape);
  if (!choices.typical_values) {
    terms = WithoutTypicalValues(std::move(terms));
  }
  ParametricMean mean = Assemble(read.configs, kLink, terms);
  if (!choices.typical_values) {
    return mean;
  }
  if (choices.sizes.known()) {
    mean.shared_scale =
        SharedScale{std::log(FlopOfStep(choices.sizes) / kTypicalFlopRate),
                    kFlopRateLogStddev};
    return mean;
  }
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
    centers[j] = prior.coefficients[j].log_center + shift;
  }
  return centers;
}

ParametricMean MemoryPrior(const trials::SearchSpace& space,
                           const ClusterShape& shape, CostModelForm form,
                           double clip, const CostModelChoices& choices) {
  if (form == CostModelForm::kNone) {
    return ConstantMean(space.size());
  }
  const bool printed = form == CostModelForm::kPrinted;
  const PhysicalSpace read =
      printed ? PhysicalSpace{} : ReadPhysically(space, shape);
  std::vector<CostTerm> terms =
      printed ? PrintedMemoryTerms(shape) : PhysicalMemoryTerms(read.sets);
  const bool typical_values = !printed && choices.typical_values;
  if (!printed && !typical_values) {
    terms = WithoutTypicalValues(std::move(terms));
  }
  ParametricMean mean = Assemble(printed ? space.configs() : read.configs,
                                 ParametricMean::Link::kLinear, terms);
  mean.clip = clip;
  if (typical_values) {
    mean.shared_scale =
        choices.sizes.known()
            ? SharedScale{std::log(StateBytes(choices.sizes) /
                                   choices.sizes.capacity_bytes),
                          kModelStateLogStddev}
            : kTypicalModelState;
  }
  return mean;
}

}  // namespace surrogates
