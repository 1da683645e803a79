#include "methods/oppa/oppa.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "methods/acquisition.h"
#include "methods/history.h"
#include "methods/oppa/families.h"
#include "methods/read_options.h"
#include "methods/sampling/cell_sampler.h"
#include "methods/surrogate_pair.h"
#include "surrogates/cost/cost_model.h"

namespace methods {
namespace {

surrogates::ClusterShape ShapeOf(const Problem& problem) {
  return {problem.gpus, problem.gpus_per_node};
}

surrogates::CostModelForm FormOf(OppaPrior prior) {
  return prior == OppaPrior::kPrinted ? surrogates::CostModelForm::kPrinted
                                      : surrogates::CostModelForm::kPhysical;
}

surrogates::ParametricMean ThroughputPriorOf(const Problem& problem,
                                             OppaPrior prior) {
  if (prior == OppaPrior::kNone) {
    return surrogates::ConstantPrior(*problem.space);
  }
  return surrogates::ThroughputPrior(
      *problem.space, ShapeOf(problem), FormOf(prior));
}

surrogates::ParametricMean MemoryPriorOf(const Problem& problem,
                                         const OppaOptions& options) {
  if (options.prior == OppaPrior::kNone) {
    return surrogates::ConstantPrior(*problem.space);
  }
  return surrogates::MemoryPrior(*problem.space,
                                 ShapeOf(problem),
                                 FormOf(options.prior),
                                 options.out_of_memory_value);
}

SurrogatePair::Options PairOptions(const OppaOptions& options,
                                   std::uint64_t seed) {
  SurrogatePair::Options pair;
  pair.out_of_memory_value = options.out_of_memory_value;
  pair.memory_noise = options.memory_noise;
  pair.fit.as_printed = options.fit_as_printed;
  pair.fit.starts = options.fit_starts;
  pair.fit.learn_misfit = options.learn_misfit;
  pair.throughput_misfit_scale = options.misfit_scale;
  pair.throughput_misfit_log_stddev = options.misfit_log_stddev;
  pair.prior_error = options.prior_error;
  pair.inert_knobs = options.neutral_inert_knobs
                         ? surrogates::InertKnobs::kNeutral
                         : surrogates::InertKnobs::kDefault;
  pair.fit.seed = seed;
  return pair;
}

class Oppa final : public Method {
 public:
  Oppa(const Problem& problem, const OppaOptions& options, std::uint64_t seed)
      : Method(problem.space->size(), options.throughput),
        problem_(problem),
        options_(options),
        seed_(seed),
        surrogates_(problem,
                    ThroughputPriorOf(problem, options.prior),
                    MemoryPriorOf(problem, options),
                    PairOptions(options, seed)) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    Suggestion suggestion = WantsRandom() ? SuggestRandom() : SuggestByModel();
    if (options_.early_termination) {
      suggestion.stop = StopRuleNow();
    }
    return suggestion;
  }

 private:
  [[nodiscard]] trials::StopRule StopRuleNow() const {
    const double best = history_.best_steps_per_s();
    trials::StopRule rule{.q_min = options_.q_min,
                          .best_steps_per_s = best,
                          .tau_steps_per_s = 0.0,
                          .throughput = options_.throughput};
    if (options_.theory_tau) {
      rule.confidence_steps_per_s =
          RunningMeanFactor(options_.theory) * history_.StepNoise();
      return rule;
    }
    rule.tau_steps_per_s = options_.tau_steps_per_s;
    if (history_.has_throughput()) {
      rule.tau_steps_per_s += options_.tau_share * best;
    }
    return rule;
  }

  // App. E.1: at the start, and after too many failures in a row. Also as
  // long as no trial has given a throughput, unless a prior knows better.
  [[nodiscard]] bool WantsRandom() const {
    if (history_.size() < options_.random_trials) {
      return true;
    }
    if (!history_.has_throughput()) {
      return !Screens();
    }
    const int failures = history_.failures_in_a_row();
    return failures > 0 && failures % options_.failures_before_random == 0;
  }

  // Whether the prior may say which of several random candidates fits.
  [[nodiscard]] bool Screens() const {
    return options_.prior != OppaPrior::kNone && options_.screened_draws > 1;
  }

  // Without any throughput there is no scale to explore on.
  [[nodiscard]] double Beta() const {
    if (!history_.has_throughput()) {
      return 0.0;
    }
    if (options_.theory_beta) {
      return GaussianBeta(
          ConfidenceBeta(options_.theory, surrogates_.information_gain()));
    }
    return options_.beta_in_stddevs ? GaussianBeta(options_.beta)
                                    : options_.beta;
  }

  Suggestion SuggestRandom() {
    Suggestion suggestion = methods::SuggestRandom(problem_, history_, seed_);
    if (Screens() && history_.failures_in_a_row() > 0) {
      Screen(suggestion);
    }
    return suggestion;
  }

  // After a failure: draws more candidates and takes the best by the model.
  void Screen(Suggestion& suggestion) {
    std::vector<char> tried = history_.tried();
    std::vector<char> excluded(tried.size(), 1);
    int drawn = suggestion.candidate;
    for (int i = 1; drawn >= 0; ++i) {
      tried[static_cast<std::size_t>(drawn)] = 1;
      excluded[static_cast<std::size_t>(drawn)] = 0;
      if (i == options_.screened_draws) {
        break;
      }
      const std::uint64_t seed = common::DeriveSeed(
          "draws of " + std::to_string(seed_), static_cast<std::uint64_t>(i));
      drawn = DrawFromCells(*problem_.space, tried, seed, history_.size());
    }
    suggestion.fits = surrogates_.Fit(history_);
    const int best =
        surrogates_
            .ArgMaxConstrainedUcb(Beta(), options_.memory_scale, excluded)
            .candidate;
    if (best >= 0) {
      suggestion.candidate = best;
    }
  }

  // After some trials without a gain, the candidates of every family that was
  // tried; empty where all families were, and otherwise.
  [[nodiscard]] std::vector<char> StagnantFamilies() const {
    const int idle = history_.trials_since_gain();
    const bool stagnant = options_.stagnation_trials > 0 && idle > 0 &&
                          idle % options_.stagnation_trials == 0;
    return stagnant ? TriedFamilies(*problem_.space, history_.tried())
                    : std::vector<char>();
  }

  Suggestion SuggestByModel() {
    Suggestion suggestion;
    // Step 1 of Algorithm 3: model throughput and memory.
    suggestion.fits = surrogates_.Fit(history_);
    // Step 2: the untried candidate with the highest cUCB.
    const std::vector<char> families = StagnantFamilies();
    const SurrogatePair::Choice best = surrogates_.ArgMaxConstrainedUcb(
        Beta(),
        options_.memory_scale,
        families.empty() ? history_.tried() : families);
    if (best.candidate < 0) {
      return SuggestRandom();  // every acquisition value is NaN
    }
    suggestion.candidate = best.candidate;
    suggestion.chosen_by = trials::ChosenBy::kModel;
    surrogates::FitSummary choice;
    choice.parameters = {{"cucb", best.cucb},
                         {"throughput_mean", best.throughput_mean},
                         {"throughput_variance", best.throughput_variance},
                         {"memory_mean", best.memory_mean},
                         {"memory_variance", best.memory_variance}};
    suggestion.fits.push_back({"choice", std::move(choice)});
    return suggestion;
  }

  Problem problem_;
  OppaOptions options_;
  std::uint64_t seed_;
  SurrogatePair surrogates_;
};

OppaPrior ReadPrior(const common::TomlTable& table, OppaPrior otherwise) {
  if (!table.Has("prior")) {
    return otherwise;
  }
  const std::string name = table.RequireString("prior");
  if (name == "none") {
    return OppaPrior::kNone;
  }
  if (name == "printed") {
    return OppaPrior::kPrinted;
  }
  if (name != "physical") {
    table.Fail(
        "prior",
        fmt::format("unknown prior '{}': none, printed or physical", name));
  }
  return OppaPrior::kPhysical;
}

bool ReadFitAsPrinted(const common::TomlTable& table, bool otherwise) {
  const std::string name =
      table.GetString("fit", otherwise ? "printed" : "map");
  if (name != "map" && name != "printed") {
    table.Fail("fit", fmt::format("unknown fit '{}': map or printed", name));
  }
  return name == "printed";
}

void ReadTheory(const common::TomlTable& table, OppaOptions& options) {
  Assumption& theory = options.theory;
  options.theory_tau = table.GetBool("theory_tau", options.theory_tau);
  options.theory_beta = table.GetBool("theory_beta", options.theory_beta);
  theory.delta = ReadDouble(table, "theory_delta", theory.delta, 1e-12);
  if (theory.delta >= 1.0) {
    table.Fail("theory_delta",
               fmt::format("theory_delta = {}: a probability of failure must "
                           "be below 1",
                           theory.delta));
  }
  theory.rounds = ReadInt(table, "theory_rounds", theory.rounds, 1);
  theory.rkhs_bound =
      ReadDouble(table, "theory_rkhs_bound", theory.rkhs_bound, 0.0);
}

}  // namespace

OppaOptions ReadOppaOptions(const common::TomlTable& table,
                            const Problem& problem,
                            OppaOptions options) {
  options.prior = ReadPrior(table, options.prior);
  options.early_termination =
      table.GetBool("early_termination", options.early_termination);
  // The default must not be an error where trials are short.
  options.q_min =
      ReadInt(table, "q_min", std::min(options.q_min, problem.q_max), 1);
  if (options.q_min > problem.q_max) {
    table.Fail("q_min",
               fmt::format("q_min = {} is more than q_max = {}: a trial would "
                           "end before it may be stopped; lower q_min",
                           options.q_min,
                           problem.q_max));
  }
  options.tau_steps_per_s =
      ReadDouble(table, "tau", options.tau_steps_per_s, 0.0);
  options.tau_share = ReadDouble(table, "tau_share", options.tau_share, 0.0);
  ReadTheory(table, options);
  options.prior_error =
      ReadDouble(table, "prior_error", options.prior_error, 0.0);
  options.learn_misfit = table.GetBool("learn_misfit", options.learn_misfit);
  options.misfit_scale =
      ReadDouble(table, "misfit_scale", options.misfit_scale, 1e-6);
  options.misfit_log_stddev =
      ReadDouble(table, "misfit_log_stddev", options.misfit_log_stddev, 1e-6);
  options.stagnation_trials =
      ReadInt(table, "stagnation_trials", options.stagnation_trials, 0);
  options.neutral_inert_knobs =
      table.GetBool("neutral_inert_knobs", options.neutral_inert_knobs);
  options.screened_draws =
      ReadInt(table, "screened_draws", options.screened_draws, 1);
  options.beta = ReadDouble(table, "beta", options.beta, 0.0);
  options.beta_in_stddevs =
      table.GetBool("beta_in_stddevs", options.beta_in_stddevs);
  options.random_trials =
      ReadInt(table, "random_trials", options.random_trials, 1);
  options.failures_before_random = ReadInt(
      table, "failures_before_random", options.failures_before_random, 1);
  options.throughput.outlier_iqr =
      ReadDouble(table, "outlier_iqr", options.throughput.outlier_iqr, 0.0);
  options.throughput.warmup_steps =
      ReadInt(table, "warmup_steps", options.throughput.warmup_steps, 0);
  options.throughput.variance_of_mean =
      table.GetBool("variance_of_mean", options.throughput.variance_of_mean);
  options.fit_as_printed = ReadFitAsPrinted(table, options.fit_as_printed);
  options.fit_starts = ReadInt(table, "fit_starts", options.fit_starts, 1);
  options.memory_scale =
      ReadDouble(table, "memory_scale", options.memory_scale, 1e-6);
  options.out_of_memory_value = ReadDouble(
      table, "out_of_memory_value", options.out_of_memory_value, 1.0);
  options.memory_noise =
      ReadDouble(table, "memory_noise", options.memory_noise, 1e-9);
  return options;
}

std::unique_ptr<Method> MakeOppa(const Problem& problem,
                                 const OppaOptions& options,
                                 std::uint64_t seed) {
  OppaOptions of_problem = options;
  of_problem.theory.q_max = problem.q_max;
  return std::make_unique<Oppa>(problem, of_problem, seed);
}

}  // namespace methods
