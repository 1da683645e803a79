#include "studies/calibration/variants.h"

#include <optional>

#include "methods/surrogate_pair.h"
#include "surrogates/boosted_trees/boosted_trees.h"
#include "surrogates/cost/cost_model.h"

namespace studies {
namespace {

using surrogates::CostModelForm;

Models FitPair(const methods::Problem& problem,
               const methods::History& history,
               const surrogates::GaussianProcess::Options& fit,
               std::optional<CostModelForm> form,
               surrogates::InertKnobs inert_knobs,
               bool reported) {
  const surrogates::ClusterShape shape{problem.gpus, problem.gpus_per_node};
  methods::SurrogatePair::Options options;
  options.fit = fit;
  options.inert_knobs = inert_knobs;
  methods::SurrogatePair pair(
      problem,
      form ? surrogates::ThroughputPrior(*problem.space, shape, *form)
           : surrogates::ConstantPrior(*problem.space),
      form ? surrogates::MemoryPrior(
                 *problem.space, shape, *form, kOutOfMemoryValue)
           : surrogates::ConstantPrior(*problem.space),
      options);
  Models models{.learned = pair.Fit(history).front().summary};
  pair.Predict(models.throughput, models.memory);
  if (reported) {
    models.reported = pair.PredictThroughputMeasurements();
  }
  return models;
}

Models FitTrees(const methods::Problem& problem,
                const methods::History& history,
                std::uint64_t /*seed*/) {
  surrogates::BoostedTrees trees(*problem.space, {});
  Models models{.learned = trees.Fit(history.ScoreObservations())};
  trees.Predict(models.throughput);
  return models;
}

auto Pair(const surrogates::GaussianProcess::Options& options,
          std::optional<CostModelForm> form,
          surrogates::InertKnobs inert_knobs,
          bool reported = false) {
  return [=](const methods::Problem& problem,
             const methods::History& history,
             std::uint64_t seed) {
    surrogates::GaussianProcess::Options seeded = options;
    seeded.seed = seed;
    return FitPair(problem, history, seeded, form, inert_knobs, reported);
  };
}

}  // namespace

std::vector<Variant> Variants() {
  constexpr CostModelForm kPhysical = CostModelForm::kPhysical;
  constexpr CostModelForm kPrinted = CostModelForm::kPrinted;
  using surrogates::InertKnobs;
  constexpr InertKnobs kOurs = InertKnobs::kNeutral;
  constexpr InertKnobs kPaper = InertKnobs::kDefault;
  return {
      {"ours", "OPPA", Pair({}, kPhysical, kOurs, true)},
      {"ours, as searched", "OPPA, as searched", Pair({}, kPhysical, kOurs)},
      {"ours, no misfit",
       "OPPA without misfit",
       Pair({.learn_misfit = false}, kPhysical, kOurs)},
      {"as printed",
       "as printed",
       Pair({.as_printed = true}, kPrinted, kPaper)},
      {"no prior mean", "no prior", Pair({}, std::nullopt, kOurs)},
      {"vanilla BO",
       "vanilla BO",
       Pair({.learn_misfit = false}, std::nullopt, kPaper)},
      {"prior mean alone",
       "prior alone",
       Pair({.mean_only = true}, kPhysical, kOurs)},
      {"xgboost", "XGBOOST", FitTrees},
  };
}

}  // namespace studies
