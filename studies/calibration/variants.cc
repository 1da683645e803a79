#include "studies/calibration/variants.h"

#include "methods/surrogate_pair.h"
#include "surrogates/boosted_trees/boosted_trees.h"

namespace studies {
namespace {

using surrogates::CostModelForm;

Models FitTrees(const methods::Problem& problem,
                const methods::History& history, std::uint64_t /*seed*/) {
  surrogates::BoostedTrees trees(*problem.space, {});
  Models models{.learned = trees.Fit(history.ScoreObservations())};
  trees.Predict(models.throughput);
  return models;
}

auto Pair(const methods::SurrogatePair::Options& options,
          bool reported = false) {
  return [=](const methods::Problem& problem, const methods::History& history,
             std::uint64_t seed) {
    methods::SurrogatePair::Options seeded = options;
    seeded.fit.seed = seed;
    methods::SurrogatePair pair(problem, seeded);
    Models models{.learned = pair.Fit(history).front().summary};
    pair.Predict(models.throughput, models.memory);
    if (reported) {
      models.reported = pair.PredictThroughputMeasurements();
    }
    return models;
  };
}

}  // namespace

std::vector<Variant> Variants() {
  return {
      {"ours", "OPPA", Pair({}, true)},
      {"ours, as searched", "OPPA, as searched", Pair({})},
      {"ours, no nugget", "OPPA without nugget",
       Pair({.fit = {.learn_nugget = false}})},
      {"as printed", "as printed", Pair(methods::PrintedSurrogates())},
      {"no prior mean", "no prior",
       Pair({.throughput_prior = CostModelForm::kNone,
             .memory_prior = CostModelForm::kNone})},
      {"vanilla BO", "vanilla BO", Pair(methods::VanillaSurrogates())},
      {"prior mean alone", "prior alone", Pair({.fit = {.mean_only = true}})},
      {"xgboost", "XGBOOST", FitTrees},
  };
}

}  // namespace studies
