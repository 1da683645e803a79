#include "studies/calibration/held_out.h"

#include <cstdint>
#include <random>
#include <utility>

#include "common/hash.h"
#include "harness/registry.h"
#include "harness/testbed.h"
#include "methods/surrogate_pair.h"
#include "surrogates/boosted_trees/boosted_trees.h"

namespace studies {

namespace {

constexpr int kHeldOut = 8;  // fewer are not informative

// Every configuration run once, in the problem's own order.
std::vector<trials::Measurement> MeasureAll(const harness::Testbed& testbed,
                                            int q_max, std::uint64_t seed) {
  std::vector<trials::Measurement> all;
  for (int i = 0; i < testbed.space->size(); ++i) {
    trials::TrialRequest request;
    request.candidate = (*testbed.space)[i];
    request.max_steps = q_max;
    request.seed =
        common::DeriveSeed(std::to_string(seed), static_cast<std::uint64_t>(i));
    all.push_back(testbed.runner->Run(request));
  }
  return all;
}

std::vector<int> Shuffled(int size, std::uint64_t seed) {
  std::vector<int> order;
  for (int i = 0; i < size; ++i) {
    order.push_back(i);
  }
  std::mt19937_64 engine(seed);
  for (std::size_t i = order.size(); i > 1; --i) {  // std::shuffle, portable
    std::swap(order[i - 1], order[engine() % i]);
  }
  return order;
}

}  // namespace

void FitHeldOut(const harness::Manifest& manifest,
                const harness::ProblemSpec& spec, int repeat,
                const std::vector<Variant>& variants,
                const std::function<void(const Fitted&)>& take) {
  const harness::Testbed testbed = harness::MakeTestbed(spec);
  const methods::Problem problem =
      harness::ProblemOf(testbed, manifest.budget.q_max);
  const std::vector<trials::Measurement> measured =
      MeasureAll(testbed, problem.q_max, manifest.TrialSeed(spec, repeat));
  methods::History all(problem.space->size());
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const int candidate = static_cast<int>(i);
    all.Add(MakeTrial(candidate, (*problem.space)[candidate], measured[i]));
  }
  const std::uint64_t seed = manifest.MethodSeed(spec, repeat);
  const std::vector<int> order = Shuffled(problem.space->size(), seed);
  const int running = all.ThroughputObservations().size();
  methods::History history(problem.space->size());
  std::size_t next = 0;
  for (const int n : {4, 8, 10, 20, 40}) {
    if (running < n + kHeldOut) {
      return;
    }
    while (history.ThroughputObservations().size() < n) {
      const int candidate = order[next++];
      history.Add(all.trials()[candidate]);
    }
    for (const Variant& variant : variants) {
      const Models models = variant.fit(problem, history, seed);
      take({.problem = spec.name.empty() ? manifest.name
                                         : manifest.name + "/" + spec.name,
            .repeat = repeat,
            .trials = n,
            .variant = variant,
            .models = models,
            .space = *problem.space,
            .all = all,
            .seen = history.tried(),
            .memory_capacity_bytes = problem.machine.memory_bytes()});
    }
  }
}

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
