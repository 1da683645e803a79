#include "harness/registry.h"

#include "harness/entries.h"
#include "methods/guided/cost_model.h"
#include "methods/guided/xgboost.h"
#include "methods/oppa/oppa.h"
#include "methods/sampling/random.h"

namespace harness {
namespace {

using common::TomlTable;
using methods::OppaOptions;
using methods::OppaPrior;

std::unique_ptr<methods::Method> MakeRandom(const methods::Problem& problem,
                                            const TomlTable& table,
                                            std::uint64_t seed) {
  return methods::MakeRandom(problem, methods::ReadRandomOptions(table), seed);
}

std::unique_ptr<methods::Method> MakeXgboost(const methods::Problem& problem,
                                             const TomlTable& table,
                                             std::uint64_t seed) {
  return methods::MakeXgboost(
      problem, methods::ReadXgboostOptions(table), seed);
}

std::unique_ptr<methods::Method> MakeCostModel(const methods::Problem& problem,
                                               const TomlTable& table,
                                               std::uint64_t seed) {
  return methods::MakeCostModel(
      problem, methods::ReadCostModelOptions(table), seed);
}

// OPPA and its ablations: one implementation, from these settings.
auto OppaWith(const OppaOptions& defaults) {
  return [defaults](const methods::Problem& problem,
                    const TomlTable& table,
                    std::uint64_t seed) {
    return methods::MakeOppa(
        problem, methods::ReadOppaOptions(table, problem, defaults), seed);
  };
}

OppaOptions Ablation(OppaPrior prior, bool early_termination) {
  OppaOptions options;
  options.prior = prior;
  options.early_termination = early_termination;
  return options;
}

// The method as far as the paper prints it, where our defaults differ.
OppaOptions AsPrinted() {
  OppaOptions options;
  options.prior = OppaPrior::kPrinted;
  options.fit_as_printed = true;
  options.tau_steps_per_s = 1e-3;
  options.tau_share = 0.0;
  options.random_trials = 4;
  options.screened_draws = 1;
  options.stagnation_trials = 0;
  options.neutral_inert_knobs = false;
  return options;
}

std::vector<MethodEntry> ListMethods() {
  constexpr OppaPrior kPrior = OppaOptions{}.prior;
  return {
      {"random",
       "RANDOM",
       "random configurations until the budget is spent",
       MakeRandom},
      {"xgboost",
       "XGBOOST",
       "the best prediction of boosted trees, as DeepSpeed's autotuner",
       MakeXgboost},
      {"cost-model",
       "COST-MODEL",
       "a cost model fitted to several random trials, then one shot",
       MakeCostModel},
      {"vanilla-bo",
       "VANILLA-BO",
       "Bayesian optimisation: constant mean, Matern-5/2, cUCB",
       OppaWith(Ablation(OppaPrior::kNone, false))},
      {"oppa",
       "OPPA",
       "BO with a parallelism-informed prior and early termination",
       OppaWith({}),
       "oppa"},
      {"oppa-no-prior",
       "OPPA without prior",
       "ablation: a constant mean instead of the prior",
       OppaWith(Ablation(OppaPrior::kNone, true)),
       "oppa"},
      {"oppa-no-early-termination",
       "OPPA without early termination",
       "ablation: every trial runs all its steps",
       OppaWith(Ablation(kPrior, false)),
       "oppa"},
      {"oppa-no-prior-no-early-termination",
       "OPPA without both",
       "ablation: neither prior nor early termination",
       OppaWith(Ablation(OppaPrior::kNone, false)),
       "oppa"},
      {"oppa-paper",
       "OPPA-PAPER",
       "OPPA with the paper's sizes and likelihood to the letter",
       OppaWith(AsPrinted()),
       "oppa"},
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

methods::Problem ProblemOf(const Backend& backend, int q_max) {
  methods::Problem problem;
  problem.space = backend.space.get();
  problem.gpus = backend.gpus;
  problem.gpus_per_node = backend.gpus_per_node;
  problem.memory_capacity_bytes = backend.memory_capacity_bytes;
  problem.q_max = q_max;
  return problem;
}

std::unique_ptr<methods::Method> MakeMethod(const MethodSpec& method,
                                            const methods::Problem& problem,
                                            std::uint64_t seed) {
  const MethodEntry* entry = FindMethod(method.base);
  auto made = WithPlace(method.options, "method." + method.name, [&] {
    return entry->make(problem, method.options, seed);
  });
  method.options.RejectUnknownKeys();
  return made;
}

}  // namespace harness
