#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>

#include "common/hash.h"
#include "common/toml_table.h"
#include "common/units.h"
#include "harness/registry.h"
#include "harness/spec.h"
#include "harness/testbeds/testbeds.h"
#include "methods/guided/cost_model.h"
#include "methods/surrogate_pair.h"
#include "studies/calibration/calibration.h"
#include "studies/validation/statistics.h"
#include "surrogates/boosted_trees/boosted_trees.h"

namespace studies {
namespace {

using common::kNan;
using common::kNormal95;

constexpr std::array kTrials = {10, 20};
constexpr int kHeldOut = 8;  // fewer are not informative

// COST-MODEL would end its search before; the shot is not needed here.
constexpr std::string_view kRandomTrials = "random_trials = 20";

// The trials of one problem, with the seeds of a repeat of its experiment.
class Trials {
 public:
  Trials(const harness::Manifest& manifest, const harness::ProblemSpec& spec,
         int repeat)
      : testbed_(harness::MakeTestbed(spec)),
        problem_(harness::ProblemOf(testbed_, manifest.budget.q_max)),
        trial_seed_(manifest.TrialSeed(spec, repeat)),
        method_seed_(manifest.MethodSeed(spec, repeat)) {}

  [[nodiscard]] const methods::Problem& problem() const { return problem_; }
  [[nodiscard]] std::uint64_t method_seed() const { return method_seed_; }

  [[nodiscard]] methods::History All() const {
    methods::History all(problem_.space->size());
    for (int i = 0; i < problem_.space->size(); ++i) {
      all.Add(Run(i, std::nullopt, {}));
    }
    return all;
  }

  // The first trials of a search, at most the largest of kTrials.
  [[nodiscard]] methods::History Search(const std::string& name) const {
    harness::MethodSpec spec{.name = name, .label = name, .base = name};
    if (name == "cost-model") {
      spec.options = common::TomlTable::ParseString(kRandomTrials, name);
    }
    const auto method = harness::MakeMethod(spec, problem_, method_seed_);
    while (method->history().size() < kTrials.back()) {
      const auto suggestion = method->Suggest();
      if (!suggestion) {
        break;
      }
      method->Observe(Run(suggestion->candidate, suggestion->stop,
                          method->history().throughput_options()));
    }
    return method->history();
  }

 private:
  [[nodiscard]] trials::Trial Run(
      int candidate, const std::optional<trials::StopRule>& stop,
      const trials::ThroughputOptions& options) const {
    trials::TrialRequest request;
    request.candidate = (*problem_.space)[candidate];
    request.max_steps = problem_.q_max;
    request.seed = common::DeriveSeed(
        request.candidate.Label(problem_.space->knobs()), trial_seed_);
    StopBy(stop, request);
    return MakeTrial(candidate, request.candidate,
                     testbed_.runner->Run(request), options);
  }

  harness::Testbed testbed_;
  methods::Problem problem_;
  std::uint64_t trial_seed_;
  std::uint64_t method_seed_;
};

// Its first n trials.
methods::History FirstOf(const methods::History& history, int n) {
  methods::History first(static_cast<int>(history.tried().size()),
                         history.throughput_options(), history.weight());
  for (int i = 0; i < n; ++i) {
    first.Add(history.trials()[i]);
  }
  return first;
}

int HeldOut(const methods::History& all, const std::vector<char>& seen) {
  int held_out = 0;
  for (const int candidate : all.ThroughputObservations().candidate) {
    held_out += seen[candidate] == 0 ? 1 : 0;
  }
  return held_out;
}

}  // namespace

void FitToSearches(const harness::Manifest& manifest,
                   const harness::ProblemSpec& spec, int repeat,
                   const std::vector<Variant>& variants,
                   const std::function<void(const Fitted&)>& take) {
  const Trials trials(manifest, spec, repeat);
  const methods::History all = trials.All();
  std::map<std::string, methods::History> searches;
  for (const Variant& variant : variants) {
    if (!searches.contains(variant.method)) {
      searches.emplace(variant.method, trials.Search(variant.method));
    }
    const methods::History& search = searches.at(variant.method);
    for (const int n : kTrials) {
      if (search.size() < n) {
        continue;
      }
      const methods::History history = FirstOf(search, n);
      if (HeldOut(all, history.tried()) < kHeldOut) {
        continue;
      }
      const Models models =
          variant.fit(trials.problem(), history, trials.method_seed());
      take({.problem = spec.name.empty() ? manifest.name
                                         : manifest.name + "/" + spec.name,
            .repeat = repeat,
            .trials = n,
            .variant = variant,
            .models = models,
            .all = all,
            .seen = history.tried(),
            .memory_capacity_bytes = trials.problem().machine.memory_bytes()});
    }
  }
}

namespace {

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

// Half the width of the predicted 95% interval of one measurement.
double HalfWidth(const Models& models, int candidate, double noise_variance) {
  const surrogates::MeasurementPrediction& reported = models.reported;
  return reported.location.size() > 0
             ? reported.kTwoSided95 *
                   std::sqrt(reported.scale_squared[candidate] + noise_variance)
             : kNormal95 * std::sqrt(models.throughput.variance[candidate] +
                                     noise_variance);
}

// The throughput of the candidate with the highest prediction of those that
// are predicted to fit, over the best one.
double BestOf(const Models& models, const surrogates::Observations& measured) {
  Eigen::VectorXd mean = models.throughput.mean;
  if (models.memory.mean.size() > 0) {
    mean = (models.memory.mean.array() <= 1.0)
               .select(mean, -std::numeric_limits<double>::infinity());
  }
  Eigen::Index best = 0;
  mean.maxCoeff(&best);
  for (int i = 0; i < measured.size(); ++i) {
    if (measured.candidate[i] == best) {
      return measured.value[i] / measured.value.maxCoeff();
    }
  }
  return 0.0;  // it does not run
}

}  // namespace

std::vector<Variant> Variants() {
  return {
      {"as printed", "OPPA-PAPER", "oppa-paper",
       Pair(methods::PrintedSurrogates())},
      {"ours", "OPPA", "oppa", Pair({}, true)},
      {"ours, as searched", "OPPA, as searched", "oppa", Pair({})},
      {"cost model", "cost model", "cost-model",
       Pair(methods::CostModelOptions().surrogates)},
      {"vanilla BO", "GP", "vanilla-bo", Pair(methods::VanillaSurrogates())},
      {"xgboost", "XGBOOST", "xgboost", FitTrees}};
}

Confusion ConfusionOf(const Models& models, const methods::History& all,
                      const std::vector<char>& seen) {
  Confusion confusion;
  for (const trials::Trial& entry : all.trials()) {
    if (seen[entry.candidate] != 0) {
      continue;
    }
    const bool fails =
        entry.measurement.outcome == trials::Outcome::kOutOfMemory;
    const bool predicted = models.memory.mean[entry.candidate] > 1.0;
    int& count = fails ? (predicted ? confusion.fails_predicted_fails
                                    : confusion.fails_predicted_runs)
                       : (predicted ? confusion.runs_predicted_fails
                                    : confusion.runs_predicted_runs);
    ++count;
  }
  return confusion;
}

Scores Score(const Models& models, const methods::History& all,
             const std::vector<char>& seen) {
  Scores scores;
  scores.fill(kNan);
  const surrogates::Observations measured = all.ThroughputObservations();
  std::vector<double> predicted;
  std::vector<double> actual;
  double covered = 0.0;
  for (int i = 0; i < measured.size(); ++i) {
    const int at = measured.candidate[i];
    if (seen[at] != 0) {
      continue;
    }
    predicted.push_back(models.throughput.mean[at]);
    actual.push_back(measured.value[i]);
    covered += std::abs(actual.back() - predicted.back()) <=
                       HalfWidth(models, at, measured.noise_variance[i])
                   ? 1.0
                   : 0.0;
  }
  if (models.throughput.variance.maxCoeff() > 0.0) {  // trees have none
    scores[0] = covered / static_cast<double>(actual.size());
  }
  scores[1] = Spearman(predicted, actual);
  if (models.memory.mean.size() > 0) {
    const Confusion c = ConfusionOf(models, all, seen);
    const double right = c.fails_predicted_fails;
    scores[2] =
        right / (right + c.runs_predicted_fails);  // NaN: none was called
    scores[3] = right / (right + c.fails_predicted_runs);
  }
  scores[4] = BestOf(models, measured);
  return scores;
}

}  // namespace studies
