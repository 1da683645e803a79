#include "methods/oppa/oppa.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "methods/history.h"

namespace methods {
namespace {

class Oppa final : public Method {
 public:
  Oppa(const Problem& problem, const OppaOptions& options, std::uint64_t seed)
      : Method(problem, options.throughput),
        problem_(problem),
        options_(options),
        seed_(seed),
        surrogates_(problem, options.surrogates) {}

  std::optional<Suggestion> Suggest() override {
    if (history_.exhausted()) {
      return std::nullopt;
    }
    std::optional<Suggestion> suggestion =
        WantsRandom() ? SuggestRandom() : SuggestByModel();
    if (suggestion && options_.early_termination) {
      suggestion->stop = StopRuleFor(suggestion->candidate);
    }
    return suggestion;
  }

  // Where the posterior counts the uncertainty of the prior's coefficients:
  // otherwise the estimates are far from what is observed.
  [[nodiscard]] bool EstimatesRemaining() const override {
    const auto& fit = options_.surrogates.fit;
    return fit.integrate_coefficients && !fit.as_printed;
  }

 private:
  // Eq. 5 ends a trial that is not about to become the one with the highest
  // value: the margin is one of values, and the rule one of throughputs.
  [[nodiscard]] trials::StopRule StopRuleFor(int candidate) const {
    const double weight = problem_.weight((*problem_.space)[candidate]);
    const double best = history_.best_value();
    trials::StopRule rule{
        .q_min = options_.q_min,
        .best_steps_per_s = best * weight,
        .tau_steps_per_s = 0.0,
        .throughput = options_.throughput,
        .best_step_times_s = problem_.steps_settle
                                 ? history_.best_step_times_s()
                                 : std::vector<double>()};
    if (options_.theory_tau) {
      rule.confidence_steps_per_s =
          RunningMeanFactor(options_.theory) * history_.StepNoise() * weight;
      return rule;
    }
    double tau = options_.tau;
    if (history_.has_throughput()) {
      tau += options_.tau_share * best;
    }
    rule.tau_steps_per_s = tau * weight;
    return rule;
  }

  // App. E.1: at the start, and after too many failures in a row. Also as long
  // as no trial has given a throughput, unless a prior can choose.
  [[nodiscard]] bool WantsRandom() const {
    if (history_.turn() < options_.random_trials) {
      return true;
    }
    if (!history_.has_throughput()) {
      return !(options_.prior_start && HasPrior());
    }
    return HasFailedRepeatedly();
  }

  [[nodiscard]] bool HasPrior() const {
    constexpr auto kNone = surrogates::CostModelForm::kNone;
    return options_.surrogates.throughput_prior != kNone ||
           options_.surrogates.memory_prior != kNone;
  }

  [[nodiscard]] bool HasFailedRepeatedly() const {
    const int failures = history_.failures_in_a_row();
    return failures > 0 && options_.failures_before_random > 0 &&
           failures % options_.failures_before_random == 0;
  }

  // Without any throughput there is no scale for exploration but that of the
  // prior, which only tells the first trials in flight apart, where no
  // predictions do: after failures, it would prefer candidates that may fail.
  [[nodiscard]] double Beta() const {
    if (!history_.has_throughput() &&
        (history_.size() > 0 || history_.running().empty() ||
         PredictionsOf(options_))) {
      return 0.0;
    }
    if (options_.theory_beta) {
      return GaussianBeta(
          ConfidenceBeta(options_.theory, surrogates_.information_gain()));
    }
    return options_.beta;
  }

  // Without any throughput there is nothing to improve on.
  [[nodiscard]] Acquisition AcquisitionNow() const {
    if (!history_.has_throughput()) {
      return Acquisition::kConstrainedUcb;
    }
    const bool other = options_.alternate_every > 0 &&
                       history_.turn() % options_.alternate_every == 0;
    if (!other) {
      return options_.acquisition;
    }
    return options_.acquisition == Acquisition::kConstrainedUcb
               ? Acquisition::kConstrainedImprovement
               : Acquisition::kConstrainedUcb;
  }

  Suggestion SuggestRandom() {
    return methods::SuggestRandom(problem_, history_, options_.draw, seed_,
                                  surrogates_.TriedOrTooLarge(history_));
  }

  // Step 2 of Algorithm 3: the untried candidate with the highest acquisition
  // value. Until a trial has a throughput, predictions choose the one that a
  // user would try first. If they have led to failures alone, all candidates
  // may be predicted not to fit, and predicted throughputs are as doubtful as
  // the predicted memory.
  [[nodiscard]] SurrogatePair::Choice Choose() {
    const std::vector<char> excluded = surrogates_.Excluded(history_);
    if (PredictionsOf(options_) && history_.size() == 0) {
      return surrogates_.FirstToTry(excluded);
    }
    if (PredictionsOf(options_) && !history_.has_throughput() &&
        HasFailedRepeatedly()) {
      return surrogates_.LeastMemory(excluded);
    }
    return surrogates_.ArgMax({.acquisition = AcquisitionNow(),
                               .beta = Beta(),
                               .best_value = history_.best_value()},
                              excluded);
  }

  // Nothing if running trials exclude every candidate (see Excluded).
  std::optional<Suggestion> SuggestByModel() {
    Suggestion suggestion;
    // Step 1 of Algorithm 3: model throughput and memory.
    suggestion.fits = surrogates_.Fit(history_);
    const SurrogatePair::Choice best = Choose();
    if (best.candidate < 0 && !history_.running().empty()) {
      return std::nullopt;
    }
    if (best.candidate < 0) {
      return SuggestRandom();  // every acquisition value is NaN
    }
    suggestion.candidate = best.candidate;
    suggestion.chosen_by = trials::ChosenBy::kModel;
    surrogates::FitSummary choice;
    choice.parameters = {{"acquisition", best.acquisition},
                         {"throughput_mean", best.throughput_mean},
                         {"throughput_variance", best.throughput_variance},
                         {"memory_mean", best.memory_mean},
                         {"memory_variance", best.memory_variance}};
    suggestion.fits.push_back({"choice", std::move(choice)});
    if (EstimatesRemaining()) {
      suggestion.remaining = surrogates_.EstimateRemaining(history_);
    }
    return suggestion;
  }

  Problem problem_;
  OppaOptions options_;
  std::uint64_t seed_;
  SurrogatePair surrogates_;
};

}  // namespace

std::vector<Option> OptionsOf(OppaOptions& o) {
  std::vector<Option> rows = {
      {"early_termination", Boolean{&o.early_termination},
       "Stop a trial that cannot become the best.", "Alg. 3 l. 16"},
      {"q_min", Integer{&o.q_min, 1},
       "Steps before a trial may be stopped, at most q_max.", "Eq. 5",
       [&o](const Problem& problem) {
         return o.q_min <= problem.q_max
                    ? ""
                    : fmt::format(
                          "q_min = {} is more than q_max = {}: a trial "
                          "would end before it may be stopped; lower "
                          "q_min",
                          o.q_min, problem.q_max);
       }},
      {"tau", Number{&o.tau, 0.0},
       "Margin in steps/s by which a trial must beat the best so far to "
       "continue.",
       "Eq. 5"},
      {"tau_share", Number{&o.tau_share, 0.0},
       "The same margin as a share of the best throughput; it is added to tau.",
       ""},
      {"theory_tau", Boolean{&o.theory_tau},
       "Use the margin tau_q of the theory, with the noise estimated from the "
       "trials so far, instead of tau and tau_share.",
       "Eq. 56"},
      {"theory_beta", Boolean{&o.theory_beta},
       "Use the exploration weight beta_i of the theory instead of beta.",
       "Eq. 32"},
      {"beta", Number{&o.beta, 0.0}, "Exploration weight of cUCB.", "Eq. 4"},
      {"acquisition",
       ChoiceOf(o.acquisition,
                {{"cucb", Acquisition::kConstrainedUcb},
                 {"improvement", Acquisition::kConstrainedImprovement}}),
       "Acquisition function: the constrained upper confidence bound, or the "
       "expected improvement times the probability of fitting.",
       "Eqs. 4, 8"},
      {"alternate_every", Integer{&o.alternate_every, 0},
       "Period, in trials, at which the other acquisition function chooses; "
       "0: never.",
       ""},
      {"random_trials", Integer{&o.random_trials, 0},
       "Random trials at the start.", "App. E.1, \"a few\""},
      DrawOption(o.draw, "App. E.1"),
      {"prior_start", Boolean{&o.prior_start},
       "Until a trial has a throughput, let the priors choose after the random "
       "trials at the start; otherwise all these trials are random.",
       ""},
      {"failures_before_random", Integer{&o.failures_before_random, 0},
       "Failures in a row after which a trial is random; 0: never.",
       "App. E.1, \"too many\""},
  };
  for (std::vector<Option> more :
       {OptionsOf(o.throughput), OptionsOf(o.surrogates)}) {
    std::ranges::move(more, std::back_inserter(rows));
  }
  return rows;
}

std::optional<std::string> PredictionsOf(const OppaOptions& o) {
  constexpr auto kPredicted = surrogates::CostModelForm::kPredicted;
  const SurrogatePair::Options& pair = o.surrogates;
  return pair.throughput_prior == kPredicted || pair.memory_prior == kPredicted
             ? std::optional(pair.predictions)
             : std::nullopt;
}

std::unique_ptr<Method> MakeOppa(const Problem& problem,
                                 const OppaOptions& options,
                                 std::uint64_t seed) {
  OppaOptions of_problem = options;
  of_problem.q_min = std::min(options.q_min, problem.q_max);
  of_problem.theory.q_max = problem.q_max;
  of_problem.surrogates.fit.seed = seed;
  return std::make_unique<Oppa>(problem, of_problem, seed);
}

}  // namespace methods
