#include "methods/oppa/oppa.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "methods/acquisition.h"
#include "methods/history.h"
#include "methods/oppa/families.h"

namespace methods {
namespace {

class Oppa final : public Method {
 public:
  Oppa(const Problem& problem, const OppaOptions& options, std::uint64_t seed)
      : Method(problem.space->size(), options.throughput),
        problem_(problem),
        options_(options),
        seed_(seed),
        surrogates_(problem, options.surrogates) {}

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

  [[nodiscard]] bool EstimatesRemaining() const override { return true; }

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

  // App. E.1: at the start, and after too many failures in a row. Also as long
  // as no trial has given a throughput, unless a prior screens the draws.
  [[nodiscard]] bool WantsRandom() const {
    if (history_.size() < options_.random_trials) {
      return true;
    }
    if (!history_.has_throughput()) {
      return !Screens();
    }
    return HasFailedRepeatedly();
  }

  [[nodiscard]] bool HasFailedRepeatedly() const {
    const int failures = history_.failures_in_a_row();
    return failures > 0 && options_.failures_before_random > 0 &&
           failures % options_.failures_before_random == 0;
  }

  // Whether the prior chooses among several random draws.
  [[nodiscard]] bool Screens() const {
    constexpr auto kNone = surrogates::CostModelForm::kNone;
    const bool any_prior = options_.surrogates.throughput_prior != kNone ||
                           options_.surrogates.memory_prior != kNone;
    return any_prior && options_.screened_draws > 1;
  }

  // Without any throughput there is no scale for exploration.
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

  // Without any throughput there is nothing to improve on.
  [[nodiscard]] Acquisition AcquisitionNow() const {
    if (!history_.has_throughput()) {
      return Acquisition::kConstrainedUcb;
    }
    const bool other = options_.alternate_every > 0 &&
                       history_.size() % options_.alternate_every == 0;
    if (!other) {
      return options_.acquisition;
    }
    return options_.acquisition == Acquisition::kConstrainedUcb
               ? Acquisition::kConstrainedImprovement
               : Acquisition::kConstrainedUcb;
  }

  Suggestion SuggestRandom() {
    Suggestion suggestion =
        methods::SuggestRandom(problem_, history_, options_.draw, seed_);
    const bool exact =
        options_.random_start && history_.size() < options_.random_trials;
    if (!exact && Screens() && history_.failures_in_a_row() > 0) {
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
      tried[drawn] = 1;
      excluded[drawn] = 0;
      if (i == options_.screened_draws) {
        break;
      }
      const std::uint64_t seed = common::DeriveSeed(
          "draws of " + std::to_string(seed_), static_cast<std::uint64_t>(i));
      drawn =
          Draw(options_.draw, *problem_.space, tried, seed, history_.size());
    }
    suggestion.fits = surrogates_.Fit(history_);
    const int best =
        surrogates_.ArgMaxConstrainedUcb(Beta(), excluded).candidate;
    if (best >= 0) {
      suggestion.candidate = best;
    }
  }

  // After stagnation_trials without a gain: the candidates to leave out, those
  // of used families. Otherwise, and if all families are used, empty.
  [[nodiscard]] std::vector<char> StagnantFamilies() const {
    const int idle = history_.trials_since_gain();
    const bool stagnant = options_.stagnation_trials > 0 && idle > 0 &&
                          idle % options_.stagnation_trials == 0;
    return stagnant ? UsedFamilies(surrogates_.families(), history_)
                    : std::vector<char>();
  }

  // Step 2 of Algorithm 3: the untried candidate with the highest acquisition
  // value. Until a trial has a throughput, predictions choose the one that a
  // user would try first. If they have led to failures alone, all candidates
  // may be predicted not to fit, and predicted throughputs are as doubtful as
  // the predicted memory.
  [[nodiscard]] SurrogatePair::Choice Choose() {
    if (PredictionsOf(options_) && history_.size() == 0) {
      return surrogates_.FirstToTry(history_.tried());
    }
    if (PredictionsOf(options_) && !history_.has_throughput() &&
        HasFailedRepeatedly()) {
      return surrogates_.LeastMemory(history_.tried());
    }
    const std::vector<char> families = StagnantFamilies();
    return surrogates_.ArgMax({.acquisition = AcquisitionNow(),
                               .beta = Beta(),
                               .best_steps_per_s = history_.best_steps_per_s()},
                              families.empty() ? history_.tried() : families);
  }

  Suggestion SuggestByModel() {
    Suggestion suggestion;
    // Step 1 of Algorithm 3: model throughput and memory.
    suggestion.fits = surrogates_.Fit(history_);
    const SurrogatePair::Choice best = Choose();
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
    suggestion.remaining = surrogates_.EstimateRemaining(history_);
    return suggestion;
  }

  Problem problem_;
  OppaOptions options_;
  std::uint64_t seed_;
  SurrogatePair surrogates_;
};

}  // namespace

std::vector<Option> OptionsOf(OppaOptions& o) {
  using surrogates::CostModelForm;
  SurrogatePair::Options& pair = o.surrogates;
  const auto form_of = [](CostModelForm& form) {
    return ChoiceOf(form, {{"none", CostModelForm::kNone},
                           {"printed", CostModelForm::kPrinted},
                           {"physical", CostModelForm::kPhysical},
                           {"predicted", CostModelForm::kPredicted}});
  };
  return {
      {"throughput_prior", form_of(pair.throughput_prior),
       "Prior mean of throughput: a constant, the cost model as the paper "
       "prints it, the cost model with terms that depend on every size, or "
       "predictions of every candidate.",
       "App. D.1", "prior"},
      {"memory_prior", form_of(pair.memory_prior),
       "Prior mean of memory, with the same choices.", "App. D.2", "prior"},
      ComputeTimeOption(pair),
      {"typical_values", Boolean{&pair.choices.typical_values},
       "Start the coefficients of the physical form at values that hold for "
       "most training jobs; otherwise every term starts at a tenth of a step.",
       ""},
      {"job_sizes", Boolean{&pair.job_sizes},
       "Start the sizes to which these values are ratios, model state and "
       "computation, at those of the job, where [workload] or the facts of a "
       "table describe it.",
       ""},
      PredictionsOption(pair.predictions),
      {"early_termination", Boolean{&o.early_termination},
       "Stop a trial that cannot become the best.", "Alg. 3 l. 16"},
      {"q_min", Integer{&o.q_min, 1},
       "Steps before a trial may be stopped, at most q_max.", "Eq. 5", "",
       [&o](const Problem& problem) {
         return o.q_min <= problem.q_max
                    ? ""
                    : fmt::format(
                          "q_min = {} is more than q_max = {}: a trial "
                          "would end before it may be stopped; lower "
                          "q_min",
                          o.q_min, problem.q_max);
       }},
      {"q_min_rule",
       ChoiceOf(o.q_min_runs_on,
                {{"algorithm-3", false}, {"equation-5", true}}),
       "Whether a trial may stop after step q_min, or after the step that "
       "follows it.",
       "Eq. 5, Alg. 3 l. 16"},
      {"tau", Number{&o.tau_steps_per_s, 0.0},
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
      {"theory_delta", Number{&o.theory.delta, 1e-12, 0.999999},
       "Probability with which the bounds of the theory may fail.", "Thm. F.8"},
      {"theory_rounds", Integer{&o.theory.rounds, 1}, "Trials N of the theory.",
       "Eq. 56"},
      {"theory_rkhs_bound", Number{&o.theory.rkhs_bound, 0.0},
       "Bound B on the norm of the throughput function.", "Eq. 32"},
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
      {"beta_in_stddevs", Boolean{&o.beta_in_stddevs},
       "Let beta count standard deviations; as printed it counts mean absolute "
       "deviations, 0.798 of a standard deviation where memory is no concern.",
       "Eq. 4"},
      {"random_trials", Integer{&o.random_trials, 0},
       "Random trials at the start.", "App. E.1, \"a few\""},
      DrawOption(o.draw, "App. E.1"),
      {"start",
       ChoiceOf(o.random_start, {{"screened", false}, {"random", true}}),
       "Choice of the random trials at the start: after a failure, the model "
       "chooses among several draws (screened_draws), or every trial is drawn "
       "at random.",
       "App. E.1"},
      {"failures_before_random", Integer{&o.failures_before_random, 0},
       "Failures in a row after which a trial is random; 0: never.",
       "App. E.1, \"too many\""},
      {"screened_draws", Integer{&o.screened_draws, 1},
       "Random draws of which the model chooses one after a failure; with 1, a "
       "random trial is blind as in the paper. With more, the prior also "
       "chooses "
       "while no trial has given a throughput.",
       ""},
      {"stagnation_trials", Integer{&o.stagnation_trials, 0},
       "Trials without a gain after which the model chooses among the families "
       "that have no throughput yet; 0: never.",
       ""},
      {"neutral_inactive_parameters",
       Boolean{&pair.neutral_inactive_parameters},
       "Embed an inactive parameter in the middle of its values; the paper "
       "embeds it at its default.",
       "Sec. 4.1", "neutral_inert_knobs"},
      {"encoding",
       ChoiceOf(pair.encoding, {{"log2", surrogates::SizeScale::kLog2},
                                {"linear", surrogates::SizeScale::kLinear},
                                {"rank", surrogates::SizeScale::kRank}}),
       "Scale of sizes and buckets in the embedding: their logarithm, their "
       "value, or their position among the values of the space.",
       "Sec. 4.1"},
      {"outlier_iqr", Number{&o.throughput.outlier_iqr, 0.0},
       "Steps further from the quartiles than this many interquartile ranges "
       "are outliers.",
       "App. F.2"},
      {"warmup_steps", Integer{&o.throughput.warmup_steps, 0},
       "Steps at the start of a trial that do not count.", "App. F.2"},
      {"variance_of_mean", Boolean{&o.throughput.variance_of_mean},
       "Let the variance of a throughput be that of the mean over its steps; "
       "as "
       "printed it is that of one step.",
       "Eq. 28"},
      {"fit",
       ChoiceOf(pair.fit.as_printed, {{"map", false}, {"printed", true}}),
       "Fit of the hyperparameters: the maximum of their posterior, or of the "
       "marginal likelihood without priors.",
       "Eq. 23"},
      {"fit_starts", Integer{&pair.fit.starts, 1},
       "Starting points of each fit.", "Eq. 23"},
      {"max_length_scale", Number{&pair.fit.max_length_scale, 1.0},
       "Largest length scale of the fit; the values of a parameter span a "
       "length of 1.",
       "Eq. 23, Table 5"},
      {"coefficient_reach", Number{&pair.fit.coefficient_reach, 1e-6},
       "Bounds of the coefficients of a prior mean, in standard deviations of "
       "their priors.",
       "Eq. 23"},
      {"integrate_coefficients", Boolean{&pair.fit.integrate_coefficients},
       "Integrate over the coefficients of the prior means instead of fixing "
       "them at their best values; not with fit = \"printed\".",
       ""},
      {"learn_nugget", Boolean{&pair.fit.learn_nugget},
       "Learn an independent variance of single configurations, which covers "
       "unreported noise.",
       "", "learn_misfit"},
      {"nugget_scale", Number{&pair.throughput_nugget.scale, 1e-6},
       "Prior center of the nugget of throughput, in units of the spread of "
       "the data.",
       "", "misfit_scale"},
      {"nugget_log_stddev", Number{&pair.throughput_nugget.log_stddev, 1e-6},
       "Prior standard deviation of the logarithm of the nugget's variance.",
       "", "misfit_log_stddev"},
      {"family_error", Number{&pair.family_error, 0.0},
       "Prior center of the error of the throughput prior that all "
       "configurations of a family share, in units of the best throughput; 0: "
       "none.",
       ""},
      {"predicted_family_error", Number{&pair.predicted_family_error, 0.0},
       "The same with a predicted throughput prior.", ""},
      {"memory_family_error", Number{&pair.memory_family_error, 0.0},
       "The same for memory, in units of the highest memory.", ""},
      {"family_correlation", Number{&pair.fit.family.correlation, 0.0, 0.999},
       "Factor on the correlation of the errors of two families for each "
       "structural parameter in which they differ.",
       ""},
      {"family_log_stddev", Number{&pair.fit.family.log_stddev, 1e-6},
       "Prior standard deviation of the logarithm of the variance of these "
       "errors.",
       ""},
      {"memory_scale", Number{&pair.memory_scale, 1e-6},
       "Scale of the sigmoid of feasibility, in units of the capacity.",
       "Eq. 4"},
      {"out_of_memory_value", Number{&pair.out_of_memory_value, 1.0},
       "Memory that an out-of-memory trial observes, in units of the capacity.",
       "Eq. 21"},
      {"memory_clip",
       ChoiceOf(pair.clip_at_capacity,
                {{"observation", false}, {"capacity", true}}),
       "Where the prior of memory is clipped: at out_of_memory_value, or at "
       "the capacity.",
       "Eq. 21"},
      {"clip_gradient", Number{&pair.clip_gradient, 0.0, 1.0},
       "Gradient of the clipped prior of memory in the fit, as a share of the "
       "unclipped one.",
       "Eq. 21"},
      {"memory_noise", Number{&pair.memory_noise, 1e-9},
       "Standard deviation of a memory observation, in units of the capacity.",
       "Eq. 26"},
      {"prior_error", Number{&pair.prior_error, 0.0},
       "Amplitude of a perturbation of the throughput's prior, in units of the "
       "best throughput.",
       "App. I.5"},
  };
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
  of_problem.q_min =
      std::min(options.q_min + (options.q_min_runs_on ? 1 : 0), problem.q_max);
  of_problem.theory.q_max = problem.q_max;
  of_problem.surrogates.fit.seed = seed;
  return std::make_unique<Oppa>(problem, of_problem, seed);
}

}  // namespace methods
