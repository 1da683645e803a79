// space, simulate.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/parallel.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/predictions/predictions.h"
#include "harness/spec.h"
#include "harness/testbeds/simulated.h"
#include "harness/testbeds/testbeds.h"
#include "trials/custom_knobs.h"
#include "trials/knobs.h"
#include "trials/plan.h"
#include "trials/search_space.h"

namespace cli {
namespace {

using common::InputError;

constexpr std::size_t kBestShown = 10;

// The requested problems.
std::vector<harness::ProblemSpec> Chosen(const harness::Manifest& manifest,
                                         const std::string& name) {
  if (name.empty()) {
    return manifest.problems;
  }
  common::RequireKnown(
      name, common::NamesIn(manifest.problems, &harness::ProblemSpec::name),
      "--problem");
  return {
      *std::ranges::find(manifest.problems, name, &harness::ProblemSpec::name)};
}

void PrintHeading(const harness::ProblemSpec& problem,
                  const harness::Testbed& testbed) {
  if (!testbed.warning.empty()) {
    fmt::print(stderr, "oppa: {}\n", testbed.warning);
  }
  fmt::print("{}{}{}: {} configurations\n", problem.name,
             problem.name.empty() ? "" : ": ", testbed.description,
             testbed.space->size());
}

void PrintValidation(const harness::Testbed& testbed) {
  if (testbed.model != nullptr) {
    fmt::print("{}\n", testbed.model->Validation());
  }
}

void PrintDropped(const trials::SearchSpace& space) {
  for (const trials::SearchSpace::Dropped& dropped : space.dropped()) {
    fmt::print("{:>10}  {}  ({})\n", dropped.count, dropped.rule,
               dropped.origin);
  }
}

// One candidate, tried without noise.
struct Evaluated {
  trials::Measurement measurement;
  double throughput_steps_per_s = 0.0;
};

Evaluated Evaluate(trials::TrialRunner& runner,
                   const trials::ParallelConfig& config) {
  Evaluated one{.measurement = runner.Run({.candidate = config})};
  if (one.measurement.outcome == trials::Outcome::kCompleted) {
    one.throughput_steps_per_s = 1.0 / one.measurement.step_times_s.at(0);
  }
  return one;
}

// All candidates. Every core takes a contiguous part of the space, so that its
// configurations share memoized costs.
std::vector<Evaluated> EvaluateAll(const harness::Testbed& testbed) {
  const int size = testbed.space->size();
  std::vector<Evaluated> all(size);
  const auto evaluate = [&](trials::TrialRunner& runner, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      all[i] = Evaluate(runner, (*testbed.space)[i]);
    }
  };
  constexpr int kWorthAThread = 2000;
  const int parts = testbed.model != nullptr
                        ? std::clamp(size / kWorthAThread, 1, common::Cores())
                        : 1;
  common::ParallelFor(parts, parts, [&](int, int part) {
    const auto begin = static_cast<int>(std::int64_t{size} * part / parts);
    const auto end = static_cast<int>(std::int64_t{size} * (part + 1) / parts);
    if (part == 0) {
      evaluate(*testbed.exact, begin, end);
    } else {
      evaluate(*testbed.model->MakeRunner(), begin, end);
    }
  });
  return all;
}

void PrintCsv(const harness::ProblemSpec& problem,
              const harness::Testbed& testbed,
              const std::vector<Evaluated>& all) {
  for (int i = 0; i < testbed.space->size(); ++i) {
    const Evaluated& one = all[i];
    fmt::print("{},{},{},{},{},{},{}\n", problem.name, i,
               testbed.space->knobs().Cells((*testbed.space)[i]),
               ToString(one.measurement.outcome),
               common::ExactText(one.throughput_steps_per_s),
               common::ExactText(one.measurement.peak_memory_bytes.value_or(
                   std::numeric_limits<double>::quiet_NaN())),
               common::ExactText(one.measurement.setup_s));
  }
}

// "     8          1.234": the GPUs of a configuration and the cost of 1,000
// steps, if it is known.
std::string GpusAndCost(const harness::Testbed& testbed,
                        const trials::ParallelConfig& config,
                        double step_time_s) {
  const int gpus = trials::GpusOf(config);
  const double cost = 1000.0 * testbed.valuation.CostOf(step_time_s, gpus);
  return fmt::format(" {:>6} {:>14}", gpus,
                     cost > 0.0 ? fmt::format("{:.4g}", cost) : "-");
}

// The configurations to try first, by the objective: those that fit by
// throughput, or, where the probability to fit is known, in the order of
// trials::TryOrder.
void PrintBest(const harness::Testbed& testbed,
               const std::vector<Evaluated>& all) {
  const trials::SearchSpace& space = *testbed.space;
  const trials::Weight weight = testbed.weight();
  std::vector<harness::Expectation> expected;
  std::vector<double> weighted_s;
  std::vector<double> fit_probability;
  for (int i = 0; i < space.size(); ++i) {
    const Evaluated& one = all[i];
    expected.push_back(
        testbed.model != nullptr
            ? testbed.model->Expect(space[i])
            : harness::Expectation{
                  1.0 / one.throughput_steps_per_s,
                  one.measurement.peak_memory_bytes.value_or(0.0),
                  one.throughput_steps_per_s > 0.0 ? 1.0 : 0.0});
    weighted_s.push_back(expected.back().step_time_s * weight(space[i]));
    fit_probability.push_back(expected.back().fit_probability);
  }
  const auto fit = std::ranges::count(
      all, trials::Outcome::kCompleted,
      [](const Evaluated& one) { return one.measurement.outcome; });
  fmt::print("{} of {} fit; the best by expected throughput:\n", fit,
             all.size());
  const bool has_choice =
      trials::TradeOff::Of(testbed.valuation, testbed.machine).has_value();
  fmt::print(
      "{:>10} {:>10} {:>9} {:>8}{}  {}\n", "steps/s", "s/step", "GB", "P(fits)",
      has_choice
          ? fmt::format(" {:>6} {:>14}", "GPUs", trials::kCost.per_thousand)
          : "",
      "PC");
  const std::vector<int> order = trials::TryOrder(weighted_s, fit_probability);
  for (std::size_t i = 0; i < std::min(order.size(), kBestShown); ++i) {
    const auto& [step_time_s, peak_memory_bytes, probability] =
        expected[order[i]];
    const trials::ParallelConfig& config = space[order[i]];
    fmt::print("{:>10.4g} {:>10.4g} {:>9.2f} {:>8.2f}{}  {}\n",
               1.0 / step_time_s, step_time_s, peak_memory_bytes / 1e9,
               probability,
               has_choice ? GpusAndCost(testbed, config, step_time_s) : "",
               ToString(config));
  }
}

void SimulateAll(const VerbOptions& options,
                 const harness::ProblemSpec& problem,
                 const harness::Testbed& testbed) {
  if (!testbed.simulated) {
    throw InputError(fmt::format(
        "--all: the backend '{}' would run every candidate on your cluster; "
        "`oppa run` searches among them",
        testbed.type));
  }
  const double begin_s = common::CpuSeconds();
  const std::vector<Evaluated> all = EvaluateAll(testbed);
  const double cpu_s = common::CpuSeconds() - begin_s;
  if (options.csv) {
    PrintCsv(problem, testbed, all);
    return;
  }
  PrintHeading(problem, testbed);
  PrintBest(testbed, all);
  PrintValidation(testbed);
  fmt::print("evaluated {} PCs in {:.3f} CPU s\n", all.size(), cpu_s);
}

// The components of a step of one configuration, with notes on it.
std::string ExplainConfig(const harness::Testbed& testbed,
                          const std::string& text) {
  if (testbed.model == nullptr) {
    throw InputError(
        fmt::format("--pc: the backend '{}' has no model of a step to print",
                    testbed.type));
  }
  try {
    const trials::Completed pc = trials::Complete(text, *testbed.space);
    std::string report;
    for (const std::string& note : pc.notes) {
      report += fmt::format("note: {}\n", note);
    }
    return report + testbed.model->Explain(pc.config);
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("--pc {}: {}", text, e.what()));
  }
}

// The plan of a file, or of a text as in plans.csv.
trials::Plan PlanOf(const std::string& text) {
  if (text.find("layers=") == std::string::npos) {
    return trials::ReadPlanFile(text);
  }
  try {
    trials::Plan plan;
    FromText(text, plan);
    return plan;
  } catch (const std::invalid_argument& e) {
    throw InputError(fmt::format("--plan {}: {}", text, e.what()));
  }
}

std::string ExplainPlan(const harness::Testbed& testbed,
                        const std::string& text) {
  if (testbed.model == nullptr || !testbed.model->ExplainsPlans()) {
    throw InputError(fmt::format(
        "--plan: the backend '{}' has no model of a plan", testbed.type));
  }
  try {
    return testbed.model->Explain(PlanOf(text));
  } catch (const trials::InvalidPlan& e) {
    throw InputError(fmt::format("--plan {}: {}", text, e.reason()));
  }
}

// The best exact value among the first candidates of an order, as a share of
// the optimum: "1: 0.775, 3: 0.871".
std::string ShareOfFirst(const std::vector<double>& exact,
                         const std::vector<int>& order) {
  const double optimum = *std::ranges::max_element(exact);
  std::string text;
  double best = 0.0;
  constexpr std::array<std::size_t, 5> kShown = {1, 3, 5, 10, 20};
  for (std::size_t i = 0; i < order.size() && i < kShown.back(); ++i) {
    best = std::max(best, exact[order[i]]);
    if (common::Contains(kShown, i + 1)) {
      text += fmt::format("{}{}: {:.3f}", text.empty() ? "" : ", ", i + 1,
                          best / optimum);
    }
  }
  return text;
}

// One source of predictions: its best candidates, and how good they are.
void PrintPredictions(const harness::Testbed& testbed,
                      const trials::Predictions& predictions,
                      const std::vector<double>& exact) {
  const trials::SearchSpace& space = *testbed.space;
  const trials::Weight weight = testbed.weight();
  const double capacity_bytes = testbed.machine.memory_bytes();
  trials::Predictions weighted = predictions;
  std::vector<double> values = exact;
  for (int i = 0; i < space.size(); ++i) {
    weighted.step_time_s[i] *= weight(space[i]);
    if (!values.empty()) {
      values[i] /= weight(space[i]);
    }
  }
  const std::vector<int> order = Order(weighted, capacity_bytes);
  fmt::print("predictions: {}; {} of {} fit; the best:\n", predictions.source,
             std::ranges::count_if(
                 predictions.peak_memory_bytes,
                 [&](double bytes) { return bytes <= capacity_bytes; }),
             predictions.step_time_s.size());
  fmt::print("{:>10} {:>9} {:>13}  {}\n", "s/step", "GB", "exact s/step", "PC");
  for (std::size_t i = 0; i < std::min(order.size(), kBestShown); ++i) {
    const int at = order[i];
    const std::string known = exact.empty() ? ""
                              : exact[at] == 0.0
                                  ? "out of memory"
                                  : fmt::format("{:.4g}", 1.0 / exact[at]);
    fmt::print("{:>10.4g} {:>9.2f} {:>13}  {}\n", predictions.step_time_s[at],
               predictions.peak_memory_bytes[at] / 1e9, known,
               ToString(space[at]));
  }
  if (!exact.empty()) {
    fmt::print("best of the first, over the optimum: {}\n",
               ShareOfFirst(values, order));
  }
}

void PrintPredictionsCsv(const harness::ProblemSpec& problem,
                         const std::string& name,
                         const harness::Testbed& testbed,
                         const trials::Predictions& predictions) {
  for (int i = 0; i < testbed.space->size(); ++i) {
    fmt::print("{},{},{},{},{},{}\n", problem.name, name, i,
               testbed.space->knobs().Cells((*testbed.space)[i]),
               common::ExactText(predictions.step_time_s[i]),
               common::ExactText(predictions.peak_memory_bytes[i]));
  }
}

// Every source of the problem.
void ShowPredictions(const VerbOptions& options,
                     const harness::ProblemSpec& problem,
                     const harness::Testbed& testbed) {
  std::vector<double> exact;
  for (const trials::ParallelConfig& config : testbed.space->configs()) {
    const std::optional<double> one = testbed.exact->ExactThroughput(config);
    if (!one) {
      break;  // a backend without exact throughputs
    }
    exact.push_back(*one);
  }
  if (!options.csv) {
    PrintHeading(problem, testbed);
  }
  const std::vector<std::string> names =
      harness::PredictionNames(problem.predictions);
  // The table [predictions] of a simulated problem without a key of its own
  // would be the ground truth.
  const bool only_named = testbed.type == "simulator" && names.size() > 1 &&
                          names.size() == problem.predictions.Keys().size() + 1;
  for (const std::string& name : names) {
    if (name.empty() && only_named) {
      continue;
    }
    const trials::Predictions predictions = testbed.predictions(name).predict();
    if (options.csv) {
      PrintPredictionsCsv(problem, name, testbed, predictions);
      continue;
    }
    fmt::print("{}{}{}", name.empty() ? "" : "[predictions.", name,
               name.empty() ? "" : "] ");
    PrintPredictions(testbed, predictions, exact);
  }
}

// Axes do not change the knobs: all problems have those of the first.
trials::KnobSet KnobsOf(const harness::Manifest& manifest) {
  return trials::ReadCustomKnobs(manifest.problems.front().space);
}

struct SpaceOptions {
  bool count = false;
  bool why = false;  // count the configurations that each rule excludes
};

int Space(const VerbOptions& options, const SpaceOptions& space) {
  harness::ManifestOverrides overrides = options.overrides;
  overrides.held_out = true;  // listing candidates needs no trial
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, overrides);
  if (options.csv) {
    fmt::print("problem,candidate,{}\n", KnobsOf(manifest).Columns());
  }
  for (const harness::ProblemSpec& problem :
       Chosen(manifest, options.problem)) {
    const harness::Testbed testbed = harness::MakeTestbed(problem);
    if (options.csv) {
      for (int i = 0; i < testbed.space->size(); ++i) {
        fmt::print("{},{},{}\n", problem.name, i,
                   testbed.space->knobs().Cells((*testbed.space)[i]));
      }
    } else if (space.count) {
      fmt::print("{}{}{}\n", problem.name, problem.name.empty() ? "" : " ",
                 testbed.space->size());
    } else {
      PrintHeading(problem, testbed);
    }
    if (space.why) {
      PrintDropped(*testbed.space);
    }
  }
  return 0;
}

struct SimulateOptions {
  std::string config;  // "dp=4,pp=2,..."
  std::string plan;    // file
  bool all = false;    // every candidate
  bool predictions = false;
};

int Simulate(const VerbOptions& options, const SimulateOptions& simulate) {
  const int chosen = !simulate.config.empty() + !simulate.plan.empty() +
                     simulate.all + simulate.predictions;
  if (chosen != 1) {
    throw InputError(
        "simulate: give one of --pc, --plan, --all or --predictions");
  }
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  if (simulate.all && options.csv) {
    fmt::print(
        "problem,candidate,{},outcome,throughput_steps_per_s,peak_memory_"
        "bytes,setup_s\n",
        KnobsOf(manifest).Columns());
  }
  if (simulate.predictions && options.csv) {
    fmt::print("problem,source,candidate,{},step_time_s,peak_memory_bytes\n",
               KnobsOf(manifest).Columns());
  }
  for (const harness::ProblemSpec& problem :
       Chosen(manifest, options.problem)) {
    const harness::Testbed testbed = harness::MakeTestbed(problem);
    if (simulate.predictions) {
      ShowPredictions(options, problem, testbed);
    } else if (simulate.all) {
      SimulateAll(options, problem, testbed);
    } else {
      const std::string report = simulate.plan.empty()
                                     ? ExplainConfig(testbed, simulate.config)
                                     : ExplainPlan(testbed, simulate.plan);
      PrintHeading(problem, testbed);
      fmt::print("{}", report);
      PrintValidation(testbed);
    }
  }
  return 0;
}

Verb DefineSpace() {
  const auto all = std::make_shared<Bound<SpaceOptions>>();
  return {
      .group = kProblems,
      .name = "space",
      .summary = "count or list the configurations of the search space",
      .options = {ManifestArgument(all->verb), ProblemOption(all->verb),
                  SetOption(all->verb),
                  Bind("--count", "print only their number", all->own.count),
                  Bind("--csv", "list all of them as CSV", all->verb.csv),
                  Bind("--why",
                       "print how many configurations each rule excludes",
                       all->own.why)},
      .examples = {"oppa space experiments/qwen-8gpu.toml --why"},
      .run = [all](const Words&) { return Space(all->verb, all->own); }};
}

Verb DefineSimulate() {
  const auto all = std::make_shared<Bound<SimulateOptions>>();
  return {.group = kProblems,
          .name = "simulate",
          .summary = "simulate trials without noise",
          .description =
              "Prints the time and memory of one configuration by "
              "part, the best configurations, or the predictions that methods "
              "start from.",
          .options = {ManifestArgument(all->verb), ProblemOption(all->verb),
                      SetOption(all->verb),
                      Bind("--pc CONFIG",
                           "explain one step of this configuration: "
                           "dp=4,pp=2,...",
                           all->own.config),
                      Bind("--plan PLAN",
                           "explain one step of this plan, whose stages may "
                           "differ: a JSON file, or a text as in plans.csv",
                           all->own.plan),
                      Bind("--all", "simulate every candidate", all->own.all),
                      Bind("--predictions",
                           "list the best configurations by each source of "
                           "predictions",
                           all->own.predictions),
                      Bind("--csv", "with --all and --predictions: print CSV",
                           all->verb.csv)},
          .examples = {"oppa simulate experiments/qwen-8gpu.toml --all",
                       "oppa simulate experiments/qwen-8gpu.toml --pc "
                       "dp=4,pp=2,microbatches=8"},
          .run = [all](const Words&) { return Simulate(all->verb, all->own); }};
}

}  // namespace

Verbs ProblemVerbs() { return {DefineSpace(), DefineSimulate()}; }

}  // namespace cli
