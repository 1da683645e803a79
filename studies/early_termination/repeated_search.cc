#include "studies/early_termination/repeated_search.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>

#include "surrogates/gp/gaussian_process.h"

namespace studies {
namespace {

constexpr double kRounding = 1e-9;  // where f is known for certain

// Queries candidates under a rule, and remembers the best mean so far.
class Querier {
 public:
  Querier(const Objective& objective, const SearchOptions& options,
          std::uint64_t seed)
      : objective_(objective), options_(options), engine_(seed) {}

  Round Query(int candidate) {
    Round round{.candidate = candidate, .value = objective_.values[candidate]};
    double sum = 0.0;
    do {
      sum += round.value + options_.noise_stddev * normal_(engine_);
      ++round.queries;
    } while (GoesOn(sum / round.queries, round.queries));
    round.observed = sum / round.queries;
    best_ = std::max(best_, round.observed);
    return round;
  }

 private:
  // Whether one more query follows the first q with this mean.
  [[nodiscard]] bool GoesOn(double mean, int q) const {
    switch (options_.repeats) {
      case Repeats::kOnce:
        return false;
      case Repeats::kAlways:
        return q < options_.theory.q_max;
      case Repeats::kFixedTau:
      case Repeats::kTheoryTau:
        break;
    }
    const double tau =
        options_.repeats == Repeats::kFixedTau
            ? options_.tau
            : methods::TerminationMargin(options_.theory, options_.noise_stddev,
                                         options_.q_min, q);
    return q < options_.theory.q_max &&
           (q < options_.q_min || mean >= best_ + tau);
  }

  const Objective& objective_;
  const SearchOptions& options_;
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  double best_ = -std::numeric_limits<double>::infinity();
};

double NoiseVariance(const SearchOptions& options, const Round& round) {
  return options.noise_stddev * options.noise_stddev / round.queries;
}

surrogates::Observations ObservationsOf(const std::vector<Round>& rounds,
                                        const SearchOptions& options) {
  surrogates::Observations observations;
  const auto n = static_cast<Eigen::Index>(rounds.size());
  observations.value.resize(n);
  observations.noise_variance.resize(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    const Round& round = rounds[i];
    observations.candidate.push_back(round.candidate);
    observations.value[i] = round.observed;
    observations.noise_variance[i] = NoiseVariance(options, round);
  }
  return observations;
}

}  // namespace

std::string NameOf(Repeats repeats) {
  constexpr const char* kNames[] = {"once", "always", "fixed-tau",
                                    "theory-tau"};
  return kNames[static_cast<std::size_t>(repeats)];
}

std::string LabelOf(Repeats repeats) {
  constexpr const char* kLabels[] = {"one query", "q_max queries",
                                     "early termination, tau fixed",
                                     "early termination, tau_q of Eq. 56"};
  return kLabels[static_cast<std::size_t>(repeats)];
}

std::vector<Round> SearchWithLearnedKernel(const Objective& objective,
                                           const SearchOptions& options,
                                           std::uint64_t seed) {
  surrogates::EncodedSpace space;
  space.points = objective.points;
  space.dimensions.assign(objective.points.rows(), "x");
  surrogates::GaussianProcess process(
      space, surrogates::ConstantMean(space.size(), -1.0, 1.0),
      {.learn_nugget = false, .starts = 4, .seed = seed});
  surrogates::Prediction prediction;
  // The start depends on the seed alone, so that rules are compared in pairs.
  std::mt19937_64 start(seed + 1);
  Querier querier(objective, options, seed);
  std::vector<Round> rounds;
  while (static_cast<int>(rounds.size()) < options.theory.rounds) {
    int candidate = 0;
    if (static_cast<int>(rounds.size()) < options.random_rounds) {
      candidate =
          static_cast<int>(start() % static_cast<std::uint64_t>(space.size()));
    } else {
      (void)process.Fit(ObservationsOf(rounds, options));
      process.Predict(prediction);
      (prediction.mean.array() +
       options.beta * prediction.variance.array().sqrt())
          .maxCoeff(&candidate);
    }
    Round round = querier.Query(candidate);
    round.beta = options.beta;
    round.information_gain = process.information_gain();
    rounds.push_back(round);
  }
  return rounds;
}

std::vector<Round> SearchWithKnownKernel(const Objective& objective,
                                         const Eigen::MatrixXd& kernel,
                                         const SearchOptions& options,
                                         std::uint64_t seed) {
  FiniteProcess process(kernel);
  Querier querier(objective, options, seed);
  std::vector<Round> rounds;
  while (static_cast<int>(rounds.size()) < options.theory.rounds) {
    const double beta =
        methods::ConfidenceBeta(options.theory, process.information_gain());
    const Eigen::ArrayXd width =
        beta * process.covariance().diagonal().array().max(0.0).sqrt();
    int candidate = 0;
    (process.mean().array() + width).maxCoeff(&candidate);
    Round round = querier.Query(candidate);
    round.contained =
        ((objective.values - process.mean()).array().abs() <= width + kRounding)
            .all();
    process.Observe(candidate, round.observed, NoiseVariance(options, round));
    round.beta = beta;
    round.information_gain = process.information_gain();
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace studies
