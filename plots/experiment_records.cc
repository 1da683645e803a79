#include "plots/experiment_records.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/parallel.h"
#include "common/units.h"
#include "plots/record_findings.h"
#include "trials/record_list.h"

namespace plots {
namespace {

// A run as it was read.
struct Loaded {
  Run run;
  trials::RunInfo info = {};
  bool exists = false;
  std::string error;
};

Loaded Load(const std::filesystem::path& folder, int repeat,
            const trials::RecordList& list) {
  Loaded loaded{.run = {.repeat = repeat}};
  Run& run = loaded.run;
  try {
    run.trials = trials::ReadTrials(folder);
    run.suggestion_times =
        trials::ReadRows<trials::SuggestionTime>(folder).records;
    for (const auto& [trial, remaining] : RemainingByTrial(
             trials::ReadRows<trials::FitRecord>(folder, true).records)) {
      run.remaining[trial - 1] = remaining;
    }
    if (common::EntryExists(folder / "run.json")) {
      trials::RunInfo& info = loaded.info;
      info = trials::ReadRunInfo(folder);
      trials::RequireWhole(folder, info);
      list.Require(info);
      run.finished = info.finished;
      run.finish_reason = info.finish_reason;
      if (info.remaining) {
        run.remaining[static_cast<int>(run.trials.size())] = *info.remaining;
      }
    }
    loaded.exists = run.finished || !run.trials.empty();
  } catch (const common::InputError& e) {
    loaded.error = e.what();
  }
  return loaded;
}

trials::ProblemInfo ReadProblem(const std::filesystem::path& folder,
                                const std::string& name) {
  trials::ProblemInfo info = trials::ReadProblemInfo(folder);
  info.name = name;
  if (info.trade_off && info.trade_off->optimum_gpus > 0) {
    info.optimum_steps_per_s *=
        info.valuation().FactorOfGpus(info.trade_off->optimum_gpus);
  }
  return info;
}

// What is missing or unfinished in one problem: methods in the same state share
// a line. The runs are ordered by method.
void AddNotes(const std::string& problem, const std::vector<Loaded>& runs,
              const std::vector<trials::ExperimentInfo::Method>& methods,
              std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> methods_by_state;
  auto next = runs.begin();
  for (const trials::ExperimentInfo::Method& method : methods) {
    const auto begin = next;
    next += static_cast<std::ptrdiff_t>(runs.size() / methods.size());
    for (const bool begun : {false, true}) {
      std::vector<int> of;
      for (auto one = begin; one != next; ++one) {
        // Those with an error are in ExperimentRecords::failures.
        if (one->error.empty() && one->exists == begun && !one->run.finished) {
          of.push_back(one->run.repeat);
        }
      }
      if (!of.empty()) {
        methods_by_state[fmt::format(
                             "{}: repeats {} of",
                             begun
                                 ? "unfinished, in tables but in no comparison"
                                 : "not begun",
                             Ranges(of))]
            .push_back(method.name);
      }
    }
  }
  for (const auto& [state, names] : methods_by_state) {
    notes.push_back(fmt::format("{}{}{} {}", problem,
                                problem.empty() ? "" : ": ", state,
                                fmt::join(names, ", ")));
  }
}

// "20 min", "10 trials", "no limit"
std::string BudgetText(const trials::SearchBounds& bounds) {
  std::vector<std::string> limits;
  if (bounds.time_s) {
    limits.push_back(
        fmt::format("{:.4g} min", *bounds.time_s / common::kSecondsPerMinute));
  }
  if (bounds.trials > 0) {
    limits.push_back(fmt::format("{} trials", bounds.trials));
  }
  if (bounds.stop_when) {
    limits.push_back("until " + *bounds.stop_when);
  }
  return limits.empty() ? "no limit"
                        : fmt::format("{}", fmt::join(limits, ", "));
}

// What keeps the runs of one problem from being results under the same
// conditions: other budgets, and trials from before an accepted change. The
// runs are ordered by method.
void AddConditions(const std::string& prefix, const std::vector<Loaded>& runs,
                   const std::vector<trials::ExperimentInfo::Method>& methods,
                   ExperimentRecords& records) {
  std::map<std::string, std::set<std::string>> by_budget;
  std::map<std::string, std::set<std::string>> by_change;
  const std::size_t repeats = runs.size() / methods.size();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const trials::RunInfo& info = runs[i].info;
    const std::string& method = methods[i / repeats].name;
    if (info.bounds) {
      by_budget[BudgetText(*info.bounds)].insert(method);
    }
    for (const auto& accepted :
         info.accepted.value_or(std::vector<trials::AcceptedChange>())) {
      by_change[fmt::format("{}", fmt::join(accepted.changes, "; "))].insert(
          method);
    }
    for (const std::string& setting :
         info.settings.value_or(std::vector<std::string>())) {
      records.settings.insert(setting);
    }
  }
  if (by_budget.size() > 1) {
    std::vector<std::string> parts;
    for (const auto& [budget, names] : by_budget) {
      parts.push_back(fmt::format("{} for {}", budget, fmt::join(names, ", ")));
    }
    records.notes.push_back(
        fmt::format("{}different budgets, so that their ends cannot be "
                    "compared: {}",
                    prefix, fmt::join(parts, "; ")));
  }
  for (const auto& [change, names] : by_change) {
    records.notes.push_back(fmt::format(
        "{}trials from before and after a change ({}), so that shares of the "
        "optimum are of neither: {}",
        prefix, change, fmt::join(names, ", ")));
  }
}

}  // namespace

void ToValues(const trials::ProblemInfo& problem,
              std::vector<trials::Trial>& trials) {
  const trials::Valuation valuation = problem.valuation();
  if (valuation.IsThroughput()) {
    return;
  }
  double incumbent = trials::kUnknown;
  for (trials::Trial& trial : trials) {
    const double factor =
        valuation.FactorOfGpus(trials::GpusOf(trial, problem.gpus));
    double& value = trial.throughput.steps_per_s;
    value *= factor;
    trial.throughput.variance *= factor * factor;
    trial.exact_steps_per_s *= factor;
    if (trial.measurement.outcome == trials::Outcome::kCompleted) {
      incumbent = std::fmax(incumbent, value);
    }
    trial.incumbent_steps_per_s = incumbent;
  }
}

ExperimentRecords LoadExperiment(
    const std::filesystem::path& experiment_folder) {
  ExperimentRecords records;
  records.info = trials::ReadExperimentInfo(experiment_folder);
  const trials::RecordList list(experiment_folder);
  list.RequireFile("experiment.json");
  const std::vector<trials::ExperimentInfo::Method>& methods =
      records.info.methods;
  const int repeats = records.info.repeats;
  for (const std::string& name : records.info.problems) {
    const std::filesystem::path folder =
        trials::ProblemFolder(experiment_folder, name);
    if (!common::EntryExists(folder / "problem.json")) {
      records.notes.push_back(
          fmt::format("{}: not begun", name.empty() ? "problem" : name));
      continue;
    }
    list.RequireFile(
        (folder / "problem.json").lexically_relative(experiment_folder));
    ProblemRecords& problem = records.problems.emplace_back();
    problem.info = ReadProblem(folder, name);
    std::vector<Loaded> loaded(methods.size() * repeats);
    common::ParallelFor(
        static_cast<int>(loaded.size()), common::Cores(), [&](int, int i) {
          const int repeat = i % repeats + 1;
          loaded[i] = Load(trials::RunFolder(experiment_folder, name,
                                             methods[i / repeats].name, repeat),
                           repeat, list);
        });
    AddNotes(name, loaded, methods, records.notes);
    const std::string prefix = name.empty() ? "" : name + ": ";
    AddConditions(prefix, loaded, methods, records);
    auto next = loaded.begin();
    for (const trials::ExperimentInfo::Method& of : methods) {
      MethodRecords& method = problem.methods.emplace_back(
          MethodRecords{of.name, of.label, of.family.value_or("")});
      for (const auto end = next + repeats; next != end; ++next) {
        if (!next->error.empty()) {
          records.failures.push_back("left out: " + next->error);
        } else if (next->exists) {
          ToValues(problem.info, next->run.trials);
          method.runs.push_back(std::move(next->run));
        }
      }
    }
    AddFindings(prefix, problem, records);
  }
  AddOtherRuns(experiment_folder, list, records);
  return records;
}

std::string OutcomeWords(trials::Outcome outcome) {
  if (outcome == trials::Outcome::kTerminatedEarly) {
    return "stopped early";
  }
  std::string words(ToString(outcome));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string DefaultReference(std::span<const ProblemRecords> problems) {
  std::string first;
  for (const ProblemRecords& problem : problems) {
    for (const MethodRecords& method : problem.methods) {
      if (!method.runs.empty() && (first.empty() || method.name == "oppa")) {
        first = method.name;
      }
    }
  }
  return first;
}

std::vector<int> Incumbents(const std::vector<trials::Trial>& trials) {
  std::vector<int> incumbents;
  int incumbent = -1;
  double best = 0.0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (trials[i].incumbent_steps_per_s > best) {
      incumbent = static_cast<int>(i);
      best = trials[i].incumbent_steps_per_s;
    }
    incumbents.push_back(incumbent);
  }
  return incumbents;
}

std::map<int, trials::Remaining> RemainingByTrial(
    const std::vector<trials::FitRecord>& fits) {
  std::map<int, trials::Remaining> estimates;
  for (const trials::FitRecord& fit : fits) {
    if (fit.surrogate == "remaining") {
      VisitFields(estimates[fit.trial], [&](const char* name, auto& field) {
        if (fit.parameter == name) {
          field =
              static_cast<std::remove_reference_t<decltype(field)>>(fit.value);
        }
      });
    }
  }
  return estimates;
}

std::string ExpectedGainText(const trials::Remaining& remaining) {
  // Beyond these, the number says nothing.
  constexpr double kMost = 9.99;
  constexpr double kLeast = 1e-4;
  return remaining.expected_gain > kMost ? "expected gain > 999%"
         : remaining.expected_gain < kLeast
             ? "expected gain < 0.01%"
             : fmt::format("expected gain {:.2g}%",
                           100.0 * remaining.expected_gain);
}

std::string RemainingText(const trials::Remaining& remaining) {
  return fmt::format("{}, within 5% of the optimum: {:.0f}%",
                     ExpectedGainText(remaining), 100.0 * remaining.p_within_5);
}

std::string Ranges(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t i = 0; i < ascending.size();) {
    std::size_t last = i;
    while (last + 1 < ascending.size() &&
           ascending[last + 1] == ascending[last] + 1) {
      ++last;
    }
    text += text.empty() ? "" : ", ";
    text += last == i ? std::to_string(ascending[i])
                      : fmt::format("{}-{}", ascending[i], ascending[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace plots
