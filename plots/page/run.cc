// Reads the run that the result page shows.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "common/units.h"
#include "plots/page.h"
#include "trials/record_list.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

using trials::Outcome;
using trials::Trial;

using common::kNormal95;

// The variance of the mean throughput of a trial, relative to its square.
double RelativeVariance(const Trial& trial) {
  const double r = trial.throughput.steps_per_s;
  const double steps = std::max(trial.steps - 1, 1);
  const double variance = trial.throughput.variance;
  return std::isnan(variance) ? 0.0 : variance / (steps * r * r);
}

// The records of the name. Errors: see RequireKnown.
template <typename List, typename NameOf>
const auto& Named(const List& list, const std::string& name, const char* what,
                  const NameOf& name_of) {
  common::RequireKnown(name, common::NamesIn(list, name_of), what);
  return *std::ranges::find_if(
      list, [&](const auto& one) { return name_of(one) == name; });
}

void ReadPredictions(PageRun& run) {
  const trials::ProblemInfo& info = run.problem->info;
  const double factor = info.valuation().FactorOfGpus(info.gpus);
  run.predictions.resize(run.trials.size());
  for (const trials::FitRecord& fit :
       trials::ReadRows<trials::FitRecord>(run.folder, true).records) {
    if (fit.surrogate != "choice" || fit.trial < 1 ||
        std::cmp_greater(fit.trial, run.trials.size())) {
      continue;
    }
    common::Quartiles& one = run.predictions[fit.trial - 1];
    if (fit.parameter == "throughput_mean") {
      one.median = factor * fit.value;
    } else if (fit.parameter == "throughput_variance") {
      one.q3 = kNormal95 * factor * std::sqrt(fit.value);  // half the interval
    }
  }
  for (common::Quartiles& one : run.predictions) {
    one = {.q1 = std::max(one.median - one.q3, 0.0),
           .median = one.median,
           .q3 = one.median + one.q3};
  }
}

int ReferenceTrial(const std::vector<Trial>& trials) {
  int first = -1;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].measurement.outcome != Outcome::kCompleted) {
      continue;
    }
    if (trials[i].chosen_by == trials::ChosenBy::kGiven) {
      return static_cast<int>(i);
    }
    first = first < 0 ? static_cast<int>(i) : first;
  }
  return first;
}

std::vector<MeasuredAgain> ReadRounds(const common::Json& finalists) {
  std::vector<MeasuredAgain> again;
  double yours_s = trials::kUnknown;
  for (const common::Json& finalist : finalists) {
    MeasuredAgain one{.config = finalist["config"].get<std::string>()};
    std::vector<double> all;
    for (const common::Json& round : finalist["rounds"]) {
      const auto steps = round.get<std::vector<double>>();
      one.rounds_s.push_back(common::Mean(steps));
      all.insert(all.end(), steps.begin(), steps.end());
    }
    if (finalist.contains("failures") && finalist["failures"].is_array()) {
      common::FromJson(finalist["failures"], one.failures);
    }
    one.step_s = common::Mean(all);
    yours_s = one.config == kYours ? one.step_s : yours_s;
    again.push_back(std::move(one));
  }
  for (MeasuredAgain& one : again) {
    one.speed_up = yours_s / one.step_s;
  }
  return again;
}

void ReadFinals(const fs::path& experiment_folder, PageRun& run) {
  if (!run.info.finished || run.best < 0) {
    return;
  }
  common::Json rounds = trials::ReadRecord(experiment_folder / "finals.json");
  if (rounds.is_object() && rounds["trials"] != run.trials.size()) {
    return;  // of an earlier end of the search
  }
  run.finals = trials::ReadRecord(experiment_folder / "best.json");
  if (run.finals.is_null()) {
    return;
  }
  if (rounds.is_object()) {
    run.again = ReadRounds(rounds["finalists"]);
  }
  if (run.finals["config"] == kYours) {
    run.best = run.first;
  }
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    if (trials::CandidateLabel(run.trials[i]) == run.finals["config"]) {
      run.best = static_cast<int>(i);
    }
  }
}

}  // namespace

common::Estimate SpeedUpOf(const Trial& trial, const Trial& reference) {
  const double ratio =
      trial.throughput.steps_per_s / reference.throughput.steps_per_s;
  const double deviation = kNormal95 * std::sqrt(RelativeVariance(trial) +
                                                 RelativeVariance(reference));
  return {ratio, ratio * std::exp(-deviation), ratio * std::exp(deviation)};
}

PageRun LoadPageRun(const fs::path& experiment_folder,
                    const PageOptions& options) {
  PageRun run{.experiment = LoadExperiment(experiment_folder)};
  if (run.experiment.problems.empty()) {
    throw common::InputError(
        fmt::format("{}: no run has begun", experiment_folder.string()));
  }
  run.problem =
      options.problem.empty()
          ? &run.experiment.problems.front()
          : &Named(run.experiment.problems, options.problem, "problem",
                   [](const auto& one) { return one.info.name; });
  const std::string method = options.method.empty()
                                 ? DefaultReference({run.problem, 1})
                                 : options.method;
  run.method = method.empty()
                   ? &run.problem->methods.front()
                   : &Named(run.problem->methods, method, "method",
                            [](const auto& one) { return one.name; });
  run.folder = trials::RunFolder(experiment_folder, run.problem->info.name,
                                 run.method->name, options.repeat);
  run.info = trials::ReadRunInfo(run.folder);
  trials::RequireWhole(run.folder, run.info);
  run.trials = trials::ReadTrials(run.folder);
  ToValues(run.problem->info, run.trials);
  ReadPredictions(run);
  run.best = run.trials.empty() ? -1 : Incumbents(run.trials).back();
  run.first = ReferenceTrial(run.trials);
  ReadFinals(experiment_folder, run);
  return run;
}

}  // namespace plots
