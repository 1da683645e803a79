#include "harness/registry.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"
#include "common/toml_table.h"
#include "harness/spec.h"
#include "methods/guided/cost_model.h"
#include "methods/guided/predicted_order.h"
#include "methods/guided/xgboost.h"
#include "methods/oppa/oppa.h"
#include "methods/sampling/evolutionary.h"
#include "methods/sampling/grid.h"
#include "methods/sampling/hierarchical.h"
#include "methods/sampling/random.h"
#include "planners/aceso/aceso.h"
#include "planners/amp/amp.h"
#include "planners/astra/astra.h"
#include "planners/nnscaler/nnscaler.h"
#include "planners/planned.h"
#include "planners/textbook/textbook.h"

namespace harness {
namespace {

using common::TomlTable;
using methods::OppaOptions;
using surrogates::CostModelForm;

// A method with its options, whose defaults here are `defaults`.
template <typename Options>
MethodEntry Entry(const std::string& name, const std::string& label,
                  const std::string& description,
                  std::unique_ptr<methods::Method> (*make)(
                      const methods::Problem&, const Options&, std::uint64_t),
                  const Options& defaults) {
  constexpr bool kEstimates = requires(const methods::Problem& problem) {
    EstimatesOf(problem, defaults);
  };
  Options described = defaults;
  const auto configure = [=](const methods::Problem& problem,
                             const TomlTable& table) {
    Options options = methods::ReadOptions(table, problem, defaults);
    ConfiguredMethod method;
    method.files = methods::FilesOf(OptionsOf(options));
    if constexpr (requires { PredictionsOf(options); }) {
      method.predictions = PredictionsOf(options);
    }
    if constexpr (kEstimates) {
      method.estimates = [=] { return EstimatesOf(problem, options); };
    }
    method.make = [=](std::uint64_t seed) {
      return make(problem, options, seed);
    };
    return method;
  };
  return {.name = name,
          .label = label,
          .description = description,
          .configure = configure,
          .options = methods::Describe(OptionsOf(described)),
          .estimates = kEstimates};
}

// A method whose records depend on the job and on the facts that describe it.
MethodEntry DependsOnJob(MethodEntry entry) {
  entry.reads_workload = true;
  entry.configure = [configure = entry.configure](
                        const methods::Problem& problem,
                        const TomlTable& table) {
    ConfiguredMethod method = configure(problem, table);
    if (const trials::TrainedJob* job = JobIfDescribed(problem)) {
      method.files.insert(method.files.end(), job->facts.begin(),
                          job->facts.end());
    }
    return method;
  };
  return entry;
}

// OPPA, its variants and its ablations: one implementation, with these
// defaults.
MethodEntry Oppa(const std::string& name, const std::string& label,
                 const std::string& description, const OppaOptions& defaults) {
  MethodEntry entry =
      Entry(name, label, description, methods::MakeOppa, defaults);
  entry.variant_of = name == "oppa" ? "" : "oppa";
  entry.family = "oppa";
  return defaults.surrogates.ReadsJob() ? DependsOnJob(std::move(entry))
                                        : entry;
}

// An entry of OPPA's implementation in another family, or in none: VANILLA-BO
// is a method of its own in the paper, OPPA as printed has its own ablations,
// and OPPA-SIM has another source of information.
MethodEntry InFamily(const std::string& family, MethodEntry entry) {
  entry.family = family;
  return entry;
}

// OPPA as printed, and its ablations.
MethodEntry Printed(const std::string& name, const std::string& label,
                    const std::string& description,
                    const OppaOptions& defaults) {
  return InFamily("oppa-paper", Oppa(name, label, description, defaults));
}

// A method that plans for the job, with all settings of its candidates.
MethodEntry ReadsWorkload(MethodEntry entry) {
  entry.configure = [configure = entry.configure](
                        const methods::Problem& problem,
                        const TomlTable& table) {
    methods::Problem described = problem;
    if (const trials::TrainedJob* job = JobIfDescribed(problem)) {
      described.workload = &job->workload;
      described.space = &job->space;
    }
    ConfiguredMethod method = configure(described, table);
    // Facts that are incomplete are an error where they are needed.
    method.make = [problem, make = method.make](std::uint64_t seed) {
      (void)DescribedJob(problem);
      return make(seed);
    };
    if (method.estimates) {
      method.estimates = [problem, estimates = method.estimates] {
        (void)DescribedJob(problem);
        return estimates();
      };
    }
    return method;
  };
  return DependsOnJob(std::move(entry));
}

// BO as App. H.2 describes it, with nothing that OPPA adds.
OppaOptions VanillaBo(double beta = 1.0) {
  return {.early_termination = false,
          .beta = beta,
          .random_trials = 3,
          .draw = methods::DrawLaw::kUniform,
          .failures_before_random = 0,
          .alternate_every = 0,
          .surrogates = methods::VanillaSurrogates()};
}

const methods::SurrogatePair::Options kNoPrior{
    .throughput_prior = CostModelForm::kNone,
    .memory_prior = CostModelForm::kNone};

// The Bayesian optimization of the chapter on configuration search: expected
// improvement after ten random trials, whose parallel sizes are drawn first.
// Note: the chapter tests known constraints alone; here the probability of
// fitting is a factor of the acquisition function.
OppaOptions TextbookBo() {
  OppaOptions options = VanillaBo();
  options.random_trials = 10;
  options.draw = methods::DrawLaw::kCell;
  options.acquisition = methods::Acquisition::kConstrainedImprovement;
  return options;
}

// The method as printed in the paper, where our defaults differ.
OppaOptions AsPrinted(bool prior = true, bool early_termination = true) {
  methods::SurrogatePair::Options surrogates = methods::PrintedSurrogates();
  if (!prior) {
    surrogates.throughput_prior = CostModelForm::kNone;
    surrogates.memory_prior = CostModelForm::kNone;
  }
  return {.early_termination = early_termination,
          .tau = 1e-3,
          .tau_share = 0.0,
          .beta = 1.0,
          .random_trials = 4,
          .prior_start = false,
          .alternate_every = 0,
          .surrogates = surrogates};
}

MethodEntry CostModelPhysical() {
  methods::CostModelOptions options;
  options.surrogates.throughput_prior = CostModelForm::kPhysical;
  options.surrogates.memory_prior = CostModelForm::kPhysical;
  options.surrogates.job_sizes = false;
  MethodEntry entry = Entry("cost-model-physical", "COST-MODEL physical",
                            "COST-MODEL with the terms of OPPA's prior",
                            methods::MakeCostModel, options);
  entry.variant_of = "cost-model";
  return entry;
}

// The method that an option of a PLANNED names, with its table of options.
ConfiguredMethod PartOf(const methods::Problem& problem, const TomlTable& table,
                        const std::string& key, const std::string& name) {
  const MethodEntry* entry = FindMethod(name);
  if (entry == nullptr || name == "planned") {
    table.Fail(key,
               fmt::format("{} = '{}': must be the name of another method; "
                           "`oppa methods` lists them",
                           key, name));
  }
  const std::string options = key + "_options";
  return entry->configure(
      problem, table.Has(options) ? table.GetTable(options) : TomlTable());
}

MethodEntry Planned() {
  const auto configure = [](const methods::Problem& problem,
                            const TomlTable& table) {
    const auto options =
        methods::ReadOptions(table, problem, planners::PlannedOptions());
    const ConfiguredMethod planner =
        PartOf(problem, table, "planner", options.planner);
    const ConfiguredMethod then = PartOf(problem, table, "then", options.then);
    if (planner.predictions && then.predictions &&
        *planner.predictions != *then.predictions) {
      throw common::InputError(
          "planned: planner and then must use the same predictions");
    }
    ConfiguredMethod method;
    method.predictions =
        planner.predictions ? planner.predictions : then.predictions;
    method.files = planner.files;
    method.files.insert(method.files.end(), then.files.begin(),
                        then.files.end());
    method.make = [=](std::uint64_t seed) {
      return std::make_unique<planners::Planned>(
          problem, options, planner.make(seed), then.make(seed));
    };
    return method;
  };
  planners::PlannedOptions defaults;
  return {
      .name = "planned",
      .label = "PLANNED",
      .description = "the first suggestions of a planner, then another method",
      .configure = configure,
      .options = methods::Describe(OptionsOf(defaults)),
      .reads_workload = true};
}

std::vector<MethodEntry> ListMethods() {
  return {
      Entry("random", "RANDOM",
            "random configurations until the budget is spent",
            methods::MakeRandom, {}),
      Entry("grid", "GRID",
            "all configurations in their order, less those that must fail",
            methods::MakeGrid, {}),
      Entry("evolutionary", "EVOLUTIONARY",
            "crossover and mutation of the best configurations, with repair",
            methods::MakeEvolutionary, {}),
      Entry("hierarchical", "HIERARCHICAL",
            "parallelism first, then memory, then microbatches",
            methods::MakeHierarchical, {}),
      Entry("xgboost", "XGBOOST",
            "the best prediction of boosted trees, as in DeepSpeed's autotuner",
            methods::MakeXgboost, {}),
      Entry("cost-model", "COST-MODEL",
            "the printed cost model fitted to random trials, then one shot",
            methods::MakeCostModel, {}),
      CostModelPhysical(),
      Entry("predicted-order", "PREDICTED ORDER",
            "the order of the predictions, without learning from trials",
            methods::MakePredictedOrder, {}),
      ReadsWorkload(Entry(
          "aceso", "ACESO",
          "Aceso's plans, or their nearest configurations, without learning",
          planners::TryPlansLazily<planners::AcesoMethodOptions>, {})),
      ReadsWorkload(
          Entry("amp", "AMP",
                "configurations nearest to AMP's strategies, without learning",
                planners::TryPlansLazily<planners::AmpOptions>, {})),
      ReadsWorkload(Entry(
          "astra", "ASTRA", "the order of Astra's cost model after its filters",
          planners::TryPlansLazily<planners::AstraMethodOptions>, {})),
      ReadsWorkload(
          Entry("nnscaler", "NNSCALER",
                "configurations nearest to plans under nnScaler's constraints",
                planners::TryPlansLazily<planners::NnScalerOptions>, {})),
      ReadsWorkload(Entry("textbook", "TEXTBOOK",
                          "rules of thumb, then a calibrated performance model",
                          planners::MakeTextbook, {})),
      Planned(),
      InFamily("",
               Oppa("vanilla-bo", "VANILLA-BO",
                    "Bayesian optimization: constant mean, Matern-5/2, cUCB",
                    VanillaBo())),
      InFamily("",
               Oppa("textbook-bo", "TEXTBOOK-BO",
                    "VANILLA-BO with expected improvement, as in the chapter",
                    TextbookBo())),
      Oppa("oppa", "OPPA",
           "BO with a parallelism-informed prior and early termination", {}),
      Oppa("oppa-no-throughput-prior", "OPPA without throughput prior",
           "ablation: a constant mean instead of the throughput prior",
           {.surrogates = {.throughput_prior = CostModelForm::kNone}}),
      Oppa("oppa-no-memory-prior", "OPPA without memory prior",
           "ablation: a constant mean instead of the memory prior",
           {.surrogates = {.memory_prior = CostModelForm::kNone}}),
      Oppa("oppa-no-prior", "OPPA without prior",
           "ablation: constant means instead of both priors",
           {.surrogates = kNoPrior}),
      Oppa("oppa-no-early-termination", "OPPA without early termination",
           "ablation: every trial runs all its steps",
           {.early_termination = false}),
      Oppa("oppa-no-prior-no-early-termination", "OPPA without both",
           "ablation: neither priors nor early termination",
           {.early_termination = false, .surrogates = kNoPrior}),
      InFamily(
          "vanilla-bo",
          Oppa("vanilla-bo-beta-3", "VANILLA-BO with beta = 3",
               "ablation: OPPA's exploration weight, and nothing else of it",
               VanillaBo(3.0))),
      InFamily(
          "",
          Oppa("oppa-sim", "OPPA-SIM",
               "OPPA with predictions of every candidate as its prior",
               {.beta = 2.0,
                .random_trials = 0,
                .surrogates = {.throughput_prior = CostModelForm::kPredicted,
                               .memory_prior = CostModelForm::kPredicted}})),
      Printed("oppa-paper", "OPPA-PAPER",
              "OPPA as printed, where the paper is specific", AsPrinted()),
      Printed("oppa-paper-no-prior", "OPPA-PAPER without prior",
              "ablation of OPPA-PAPER: constant means instead of both priors",
              AsPrinted(false)),
      Printed("oppa-paper-no-early-termination",
              "OPPA-PAPER without early termination",
              "ablation of OPPA-PAPER: every trial runs all its steps",
              AsPrinted(true, false)),
      Printed("oppa-paper-neither", "OPPA-PAPER without both",
              "ablation of OPPA-PAPER: neither priors nor early termination",
              AsPrinted(false, false)),
  };
}

}  // namespace

const std::vector<MethodEntry>& Methods() {
  static const std::vector<MethodEntry> methods = ListMethods();
  return methods;
}

std::vector<std::string> MethodNames() {
  return common::NamesIn(Methods(), &MethodEntry::name);
}

const MethodEntry* FindMethod(std::string_view name) {
  const auto found = std::ranges::find(Methods(), name, &MethodEntry::name);
  return found == Methods().end() ? nullptr : &*found;
}

void UnknownMethod(const std::string& where, const std::string& name,
                   const std::vector<std::string>& known) {
  throw common::InputError(where + ": " +
                           common::UnknownName("method", name, known));
}

methods::Problem ProblemOf(const Testbed& testbed, int q_max) {
  methods::Problem problem;
  problem.space = testbed.space.get();
  problem.machine = testbed.machine;
  problem.weight = testbed.weight();
  problem.rank_order = testbed.rank_order;
  problem.workload = testbed.workload ? &*testbed.workload : nullptr;
  problem.runs_plans = testbed.runs_plans;
  problem.described = testbed.described;
  problem.q_max = q_max;
  problem.steps_settle = !testbed.simulated;
  problem.predict = [&testbed](const std::string& source) {
    return testbed.predictions(source).predict();
  };
  return problem;
}

ConfiguredMethod Configure(const MethodSpec& method,
                           const methods::Problem& problem) {
  return WithPlace(method.options, "method." + method.name, [&] {
    return FindMethod(method.base)->configure(problem, method.options);
  });
}

std::unique_ptr<methods::Method> MakeMethod(const MethodSpec& method,
                                            const methods::Problem& problem,
                                            std::uint64_t seed) {
  const ConfiguredMethod configured = Configure(method, problem);
  auto made = WithPlace(method.options, "method." + method.name,
                        [&] { return configured.make(seed); });
  method.options.RejectUnknownKeys();
  const int warmup_steps = made->history().throughput_options().warmup_steps;
  if (problem.q_max <= warmup_steps) {
    throw common::InputError(fmt::format(
        "method.{}: a trial of q_max = {} steps ends with the {} that it "
        "discards as warm-up; raise q_max",
        method.name, problem.q_max, warmup_steps));
  }
  return made;
}

}  // namespace harness
