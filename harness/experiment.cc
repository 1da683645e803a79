#include "harness/experiment.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "harness/manifest/slurm_options.h"
#include "harness/registry.h"
#include "trials/parallel_config.h"
#include "trials/record_list.h"

namespace harness {
namespace {

using trials::ChosenBy;

// The candidate that a text of the manifest names.
int FindStart(const Manifest& manifest, const ProblemSpec& problem,
              const std::string& text, const trials::SearchSpace& space) {
  const auto fail = [&](const std::string& reason) {
    throw common::InputError(fmt::format(
        "{}: start '{}'{}{}: {}", manifest.starts.where, text,
        problem.name.empty() ? "" : " of problem ", problem.name, reason));
  };
  try {
    // As it is, because the rows of a measured table need not be canonical.
    std::optional<int> found =
        space.Find(ParseParallelConfig(text, space.knobs()));
    found = found ? found : space.Find(Complete(text, space).config);
    if (found) {
      return *found;
    }
    fail(
        "not in the search space; `oppa space FILE --csv` lists it, and "
        "`oppa space FILE --why` the constraints");
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    fail(e.what());
  }
  return -1;
}

trials::ProblemInfo Describe(const Manifest& manifest,
                             const ProblemSpec& problem,
                             const Testbed& testbed) {
  trials::ProblemInfo info;
  info.name = problem.name;
  info.description = testbed.description;
  info.backend = testbed.type;
  info.gpus = testbed.machine.gpus();
  info.candidates = testbed.space->size();
  info.q_max = manifest.budget.q_max;
  if (std::isfinite(manifest.budget.time_s)) {
    info.time_budget_s = manifest.budget.time_s;
  }
  info.trial_budget = manifest.budget.trials;
  if (testbed.machine.memory_bytes() > 0.0) {
    info.memory_capacity_bytes = testbed.machine.memory_bytes();
  }
  const double tokens = TokensPerStep(problem);
  if (testbed.trains_workload && tokens > 0.0) {
    info.tokens_per_step = tokens;
  }
  info.trade_off = trials::TradeOff::Of(testbed.valuation, testbed.machine);
  return info;
}

// Adds the result of simulating every candidate without noise.
void AddOptimum(const Testbed& testbed, trials::ProblemInfo& info) {
  const trials::Weight weight = testbed.weight();
  std::vector<trials::ParetoPoint> feasible;
  double best = 0.0;
  int fit = 0;
  int optimum_gpus = 0;
  info.optimum_steps_per_s = 0.0;
  for (const trials::ParallelConfig& config : testbed.space->configs()) {
    const std::optional<double> exact = testbed.exact->ExactThroughput(config);
    if (!exact) {
      info.optimum_steps_per_s = trials::kUnknown;
      return;  // a testbed without exact throughputs
    }
    if (*exact > 0.0) {
      ++fit;
      if (info.trade_off) {
        feasible.push_back({ToString(config, testbed.space->knobs()),
                            trials::GpusOf(config), *exact});
      }
    }
    if (*exact / weight(config) > best) {
      best = *exact / weight(config);
      info.optimum_steps_per_s = *exact;
      info.optimum_config = ToString(config, testbed.space->knobs());
      optimum_gpus = trials::GpusOf(config);
    }
  }
  info.feasible = fit;
  if (info.trade_off) {
    info.trade_off->SetExact(optimum_gpus, feasible);
  }
}

// Adds the predictions that the experiment's methods start from.
void AddPredictions(const Manifest& manifest, const Testbed& testbed,
                    trials::ProblemInfo& info) {
  std::set<std::string> sources;
  for (const MethodSpec& method : manifest.methods) {
    const auto source =
        Configure(method, ProblemOf(testbed, manifest.budget.q_max))
            .predictions;
    if (!source || !sources.insert(*source).second) {
      continue;
    }
    if (!info.predictions) {
      info.predictions.emplace();
    }
    const std::string line = testbed.predictions(*source).predict().source;
    info.predictions->push_back(
        source->empty() ? line : fmt::format("{}: {}", *source, line));
  }
}

}  // namespace

std::vector<methods::Suggestion> StartsOf(const Manifest& manifest,
                                          const ProblemSpec& problem,
                                          int repeat,
                                          const trials::SearchSpace& space) {
  std::vector<methods::Suggestion> starts;
  for (const std::string& text : manifest.starts.configs) {
    const int candidate = FindStart(manifest, problem, text, space);
    if (common::Contains(starts, candidate, &methods::Suggestion::candidate)) {
      throw common::InputError(fmt::format(
          "{}: start '{}' is {}, which is already named; remove one",
          manifest.starts.where, text,
          ToString(space[candidate], space.knobs())));
    }
    starts.push_back({.candidate = candidate, .chosen_by = ChosenBy::kGiven});
  }
  std::vector<int> open = common::Indices(space.size());
  for (const methods::Suggestion& start : starts) {
    std::erase(open, start.candidate);
  }
  if (std::cmp_greater(manifest.starts.common, open.size())) {
    throw common::InputError(fmt::format(
        "{}: common_starts = {}, but problem '{}' has only {} other "
        "configurations; lower it",
        manifest.starts.where, manifest.starts.common, problem.name,
        open.size()));
  }
  std::mt19937_64 engine(common::DeriveSeed(
      fmt::format("start/{}/{}", manifest.seed, problem.name),
      static_cast<std::uint64_t>(repeat)));
  for (int i = 0; i < manifest.starts.common; ++i) {
    const auto first = static_cast<std::size_t>(i);
    const std::size_t drawn = std::uniform_int_distribution<std::size_t>(
        first, open.size() - 1)(engine);
    std::swap(open[first], open[drawn]);
    starts.push_back(
        {.candidate = open[first], .chosen_by = ChosenBy::kRandom});
  }
  return starts;
}

std::string RunSpec::Name() const {
  return fmt::format("{}{}{}/{}", problem->name,
                     problem->name.empty() ? "" : "/", method->name, repeat);
}

std::filesystem::path RunSpec::Folder(
    const std::filesystem::path& experiment_folder) const {
  return trials::RunFolder(experiment_folder, problem->name, method->name,
                           repeat);
}

std::vector<RunSpec> RunMatrix(const Manifest& manifest) {
  std::vector<RunSpec> runs;
  for (int repeat = 1; repeat <= manifest.repeats; ++repeat) {
    for (const ProblemSpec& problem : manifest.problems) {
      for (const MethodSpec& method : manifest.methods) {
        runs.push_back({&problem, &method, repeat});
      }
    }
  }
  return runs;
}

Experiment::Experiment(Manifest its_manifest, std::filesystem::path its_folder)
    : manifest(std::move(its_manifest)),
      folder(std::move(its_folder)),
      runs(RunMatrix(manifest)) {
  if (!folder.empty()) {
    common::GuardFolder(folder.parent_path());
  }
}

RunSpec FindRun(const Manifest& manifest, const std::string& problem,
                const std::string& method, int repeat) {
  for (const RunSpec& run : RunMatrix(manifest)) {
    if (run.problem->name == problem && run.method->name == method &&
        run.repeat == repeat) {
      return run;
    }
  }
  throw common::InputError(
      fmt::format("{}: the experiment has no run of problem '{}', method '{}', "
                  "repeat {}; `oppa matrix` lists them",
                  manifest.path.string(), problem, method, repeat));
}

std::vector<trials::ProblemInfo> CheckManifest(const Experiment& experiment) {
  const Manifest& manifest = experiment.manifest;
  (void)ReadSlurmOptions(manifest.slurm, {});
  std::vector<trials::ProblemInfo> problems;
  std::set<std::string> without_estimate;
  std::set<std::string> warned;  // scenarios of one table share theirs
  for (const ProblemSpec& problem : manifest.problems) {
    const Testbed& testbed = experiment.testbeds.Of(problem);
    if (!testbed.warning.empty() && warned.insert(testbed.warning).second) {
      fmt::print(stderr, "oppa: {}\n", testbed.warning);
    }
    const methods::Problem seen = ProblemOf(testbed, manifest.budget.q_max);
    const std::size_t starts =
        StartsOf(manifest, problem, 1, *testbed.space).size();
    if (manifest.starts.common > 0 && manifest.budget.trials > 0 &&
        std::cmp_greater_equal(starts, manifest.budget.trials)) {
      throw common::InputError(fmt::format(
          "{}: {} starts in a budget of {} trials leave no trial that a method "
          "chooses: raise budget.trials or leave some out",
          manifest.starts.where, starts, manifest.budget.trials));
    }
    for (const MethodSpec& method : manifest.methods) {
      if (!MakeMethod(method, seen, manifest.seed)->EstimatesRemaining()) {
        without_estimate.insert(method.name);
      }
    }
    problems.push_back(Describe(manifest, problem, testbed));
  }
  if (manifest.budget.stop_when && !without_estimate.empty()) {
    fmt::print(stderr,
               "oppa: stop_when does not apply to methods that do not estimate "
               "the remaining gain; they use the whole budget: {}\n",
               fmt::join(without_estimate, ", "));
  }
  return problems;
}

void WriteExperiment(const Experiment& experiment) {
  const Manifest& manifest = experiment.manifest;
  trials::ExperimentInfo written;
  written.name = manifest.name;
  written.title = manifest.title;
  written.repeats = manifest.repeats;
  written.figures = manifest.figures;
  if (!manifest.held_out.empty()) {
    written.held_out = manifest.held_out;
  }
  for (const MethodSpec& method : manifest.methods) {
    const std::string& family = FindMethod(method.base)->family;
    written.methods.push_back(
        {method.name, method.label,
         family.empty() ? std::nullopt : std::optional(family)});
  }
  for (const ProblemSpec& problem : manifest.problems) {
    const Testbed& testbed = experiment.testbeds.Of(problem);
    trials::ProblemInfo info = Describe(manifest, problem, testbed);
    AddPredictions(manifest, testbed, info);
    AddOptimum(testbed, info);
    const auto folder = trials::ProblemFolder(experiment.folder, problem.name);
    trials::RecordList::Add(
        experiment.folder,
        trials::ContentLine(
            (folder / "problem.json").lexically_relative(experiment.folder),
            ToJson(info)));
    Write(folder, info);
    written.problems.push_back(problem.name);
  }
  trials::RecordList::Add(
      experiment.folder,
      trials::ContentLine("experiment.json", ToJson(written)));
  Write(experiment.folder, written);
}

}  // namespace harness
