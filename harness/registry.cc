#include "harness/registry.h"

#include <fmt/format.h>

#include "common/text.h"
#include "harness/entries.h"
#include "methods/guided/cost_model.h"
#include "methods/guided/predicted_order.h"
#include "methods/guided/xgboost.h"
#include "methods/oppa/oppa.h"
#include "methods/planners/aceso/aceso.h"
#include "methods/planners/amp/amp.h"
#include "methods/planners/astra/astra.h"
#include "methods/planners/nnscaler/nnscaler.h"
#include "methods/planners/planned.h"
#include "methods/planners/textbook/textbook.h"
#include "methods/sampling/evolutionary.h"
#include "methods/sampling/grid.h"
#include "methods/sampling/hierarchical.h"
#include "methods/sampling/random.h"

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
  Options described = defaults;
  MethodEntry entry = {
      name, label, description,
      [=](const methods::Problem& problem, const TomlTable& table,
          std::uint64_t seed) {
        return make(problem, methods::ReadOptions(table, problem, defaults),
                    seed);
      },
      methods::Describe(OptionsOf(described))};
  if constexpr (requires(const methods::Problem& problem) {
                  EstimatesOf(problem, defaults);
                }) {
    entry.estimates = [defaults](const methods::Problem& problem,
                                 const TomlTable& table) {
      return
          [problem, options = methods::ReadOptions(table, problem, defaults)] {
            return EstimatesOf(problem, options);
          };
    };
  }
  entry.files = [defaults](const methods::Problem& problem,
                           const TomlTable& table) {
    Options options = methods::ReadOptions(table, problem, defaults);
    return methods::FilesOf(OptionsOf(options));
  };
  if constexpr (requires { PredictionsOf(defaults); }) {
    entry.predictions = [defaults](const methods::Problem& problem,
                                   const TomlTable& table) {
      return PredictionsOf(methods::ReadOptions(table, problem, defaults));
    };
  }
  return entry;
}

methods::Problem WithDescribedJob(methods::Problem problem) {
  if (const trials::TrainedJob* job = DescribedJob(problem)) {
    problem.workload = &job->workload;
    problem.space = &job->space;
  }
  return problem;
}

// A method whose records depend on the job and on the facts that describe it.
MethodEntry DependsOnJob(MethodEntry entry) {
  entry.reads_workload = true;
  entry.files = [files = entry.files](const methods::Problem& problem,
                                      const TomlTable& table) {
    auto all = files(problem, table);
    if (const trials::TrainedJob* job = JobIfDescribed(problem)) {
      all.insert(all.end(), job->facts.begin(), job->facts.end());
    }
    return all;
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

// The same implementation, but a method of its own: VANILLA-BO is one in the
// paper, and OPPA-SIM has another source of information.
MethodEntry OnItsOwn(MethodEntry entry) {
  entry.family.clear();
  return entry;
}

// A method that plans for the job, with all settings of its candidates.
MethodEntry ReadsWorkload(MethodEntry entry) {
  entry.make = [make = entry.make](const methods::Problem& problem,
                                   const TomlTable& table, std::uint64_t seed) {
    return make(WithDescribedJob(problem), table, seed);
  };
  if (entry.estimates) {
    entry.estimates = [estimates = entry.estimates](
                          const methods::Problem& problem,
                          const TomlTable& table) {
      return estimates(WithDescribedJob(problem), table);
    };
  }
  return DependsOnJob(std::move(entry));
}

// BO as App. H.2 describes it, with nothing that OPPA adds.
OppaOptions VanillaBo() {
  return {.early_termination = false,
          .beta = 1.0,
          .random_trials = 3,
          .draw = methods::DrawLaw::kUniform,
          .failures_before_random = 0,
          .alternate_every = 0,
          .surrogates = methods::VanillaSurrogates()};
}

const methods::SurrogatePair::Options kNoPrior{
    .throughput_prior = CostModelForm::kNone,
    .memory_prior = CostModelForm::kNone};

// The method as printed in the paper, where our defaults differ.
OppaOptions AsPrinted() {
  return {.tau = 1e-3,
          .tau_share = 0.0,
          .beta = 1.0,
          .random_trials = 4,
          .alternate_every = 0,
          .surrogates = methods::PrintedSurrogates()};
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

// The methods that a PLANNED combines, with their tables of options.
struct PlannedParts {
  methods::PlannedOptions options;
  const MethodEntry* planner = nullptr;
  const MethodEntry* then = nullptr;
  TomlTable planner_table;
  TomlTable then_table;
};

PlannedParts PartsOf(const methods::Problem& problem, const TomlTable& table) {
  PlannedParts parts;
  parts.options =
      methods::ReadOptions(table, problem, methods::PlannedOptions());
  const auto find = [&](const std::string& key, const std::string& name) {
    const MethodEntry* entry = FindMethod(name);
    if (entry == nullptr || name == "planned") {
      table.Fail(key,
                 fmt::format("{} = '{}': must be the name of another method; "
                             "`oppa methods` lists them",
                             key, name));
    }
    return entry;
  };
  parts.planner = find("planner", parts.options.planner);
  parts.then = find("then", parts.options.then);
  if (table.Has("planner_options")) {
    parts.planner_table = table.GetTable("planner_options");
  }
  if (table.Has("then_options")) {
    parts.then_table = table.GetTable("then_options");
  }
  return parts;
}

MethodEntry Planned() {
  MethodEntry entry;
  entry.name = "planned";
  entry.label = "PLANNED";
  entry.description = "the first suggestions of a planner, then another method";
  entry.reads_workload = true;
  entry.make = [](const methods::Problem& problem, const TomlTable& table,
                  std::uint64_t seed) {
    const PlannedParts parts = PartsOf(problem, table);
    return std::make_unique<methods::Planned>(
        problem, parts.options.top,
        parts.planner->make(problem, parts.planner_table, seed),
        parts.then->make(problem, parts.then_table, seed));
  };
  methods::PlannedOptions defaults;
  entry.options = methods::Describe(OptionsOf(defaults));
  entry.files = [](const methods::Problem& problem, const TomlTable& table) {
    const PlannedParts parts = PartsOf(problem, table);
    auto files = parts.planner->files(problem, parts.planner_table);
    const auto more = parts.then->files(problem, parts.then_table);
    files.insert(files.end(), more.begin(), more.end());
    return files;
  };
  entry.predictions = [](const methods::Problem& problem,
                         const TomlTable& table) -> std::optional<std::string> {
    const PlannedParts parts = PartsOf(problem, table);
    std::optional<std::string> source;
    if (parts.planner->predictions) {
      source = parts.planner->predictions(problem, parts.planner_table);
    }
    if (parts.then->predictions) {
      const auto other = parts.then->predictions(problem, parts.then_table);
      if (source && other && *source != *other) {
        throw common::InputError(
            "planned: planner and then must use the same predictions");
      }
      source = source ? source : other;
    }
    return source;
  };
  return entry;
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
          methods::TryPlans<methods::AcesoMethodOptions>, {})),
      ReadsWorkload(
          Entry("amp", "AMP",
                "configurations nearest to AMP's strategies, without learning",
                methods::TryPlans<methods::AmpOptions>, {})),
      ReadsWorkload(Entry("astra", "ASTRA",
                          "the order of Astra's cost model after its filters",
                          methods::TryPlans<methods::AstraMethodOptions>, {})),
      ReadsWorkload(
          Entry("nnscaler", "NNSCALER",
                "configurations nearest to plans under nnScaler's constraints",
                methods::TryPlans<methods::NnScalerOptions>, {})),
      ReadsWorkload(Entry("textbook", "TEXTBOOK",
                          "rules of thumb, then a calibrated performance model",
                          methods::MakeTextbook, {})),
      Planned(),
      OnItsOwn(Oppa("vanilla-bo", "VANILLA-BO",
                    "Bayesian optimization: constant mean, Matern-5/2, cUCB",
                    VanillaBo())),
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
      OnItsOwn(
          Oppa("oppa-sim", "OPPA-SIM",
               "OPPA with predictions of every candidate as its prior",
               {.random_trials = 0,
                .surrogates = {.throughput_prior = CostModelForm::kPredicted,
                               .memory_prior = CostModelForm::kPredicted}})),
      Oppa("oppa-paper", "OPPA-PAPER",
           "OPPA as printed, where the paper is specific", AsPrinted()),
  };
}

}  // namespace

const std::vector<MethodEntry>& Methods() {
  static const std::vector<MethodEntry> methods = ListMethods();
  return methods;
}

const MethodEntry* FindMethod(std::string_view name) {
  return FindByName(Methods(), name);
}

void UnknownMethod(const std::string& where, const std::string& name,
                   const std::vector<std::string>& known) {
  throw common::InputError(
      fmt::format("{}: unknown method '{}'{}; known: {}", where, name,
                  common::DidYouMean(name, known), fmt::join(known, ", ")));
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
  problem.predict = [&testbed](const std::string& source) {
    return testbed.predictions(source).predict();
  };
  return problem;
}

std::optional<std::string> PredictionsOf(const MethodSpec& method,
                                         const methods::Problem& problem) {
  const MethodEntry* entry = FindMethod(method.base);
  return entry->predictions ? entry->predictions(problem, method.options)
                            : std::nullopt;
}

std::vector<std::filesystem::path> FilesOf(const MethodSpec& method,
                                           const methods::Problem& problem) {
  return FindMethod(method.base)->files(problem, method.options);
}

std::unique_ptr<methods::Method> MakeMethod(const MethodSpec& method,
                                            const methods::Problem& problem,
                                            std::uint64_t seed) {
  const MethodEntry* entry = FindMethod(method.base);
  auto made = WithPlace(method.options, "method." + method.name, [&] {
    return entry->make(problem, method.options, seed);
  });
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
