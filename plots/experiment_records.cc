#include "plots/experiment_records.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/parallel.h"
#include "common/text.h"

namespace plots {
namespace {

// One run to read: its position and its outcome.
struct Task {
  std::size_t problem = 0;
  std::size_t method = 0;
  Run run;
  bool exists = false;
  std::string error;
};

void Load(const std::filesystem::path& folder, Task& task) {
  Run& run = task.run;
  try {
    run.trials = trials::ReadTrials(folder);
    run.suggestion_times =
        trials::ReadRows<trials::SuggestionTime>(folder).records;
    for (const auto& [trial, remaining] : RemainingByTrial(
             trials::ReadRows<trials::FitRecord>(folder, true).records)) {
      run.remaining[trial - 1] = remaining;
    }
    if (common::EntryExists(folder / "run.json")) {
      const trials::RunInfo info = trials::ReadRunInfo(folder);
      trials::RequireWhole(folder, info);
      run.finished = info.finished;
      run.finish_reason = info.finish_reason;
      if (info.remaining) {
        run.remaining[static_cast<int>(run.trials.size())] = *info.remaining;
      }
    }
    task.exists = run.finished || !run.trials.empty();
  } catch (const common::InputError& e) {
    task.error = e.what();
  }
}

void LoadAll(const std::filesystem::path& experiment_folder,
             const ExperimentRecords& records, std::vector<Task>& tasks) {
  common::ParallelFor(
      static_cast<int>(tasks.size()), common::Cores(), [&](int, int i) {
        Task& task = tasks[i];
        Load(trials::RunFolder(
                 experiment_folder, records.problems[task.problem].info.name,
                 records.info.methods[task.method].name, task.run.repeat),
             task);
      });
}

// The problems that have been started, without runs.
void LoadProblems(const std::filesystem::path& experiment_folder,
                  ExperimentRecords& records) {
  for (const std::string& name : records.info.problems) {
    const std::filesystem::path folder =
        trials::ProblemFolder(experiment_folder, name);
    if (!common::EntryExists(folder / "problem.json")) {
      records.notes.push_back(
          fmt::format("{}: not begun", name.empty() ? "problem" : name));
      continue;
    }
    ProblemRecords problem{.info = trials::ReadProblemInfo(folder)};
    problem.info.name = name;
    if (problem.info.trade_off && problem.info.trade_off->optimum_gpus > 0) {
      problem.info.optimum_steps_per_s *= problem.info.valuation().FactorOfGpus(
          problem.info.trade_off->optimum_gpus);
    }
    for (const trials::ExperimentInfo::Method& method : records.info.methods) {
      problem.methods.push_back({.name = method.name,
                                 .label = method.label,
                                 .family = method.family.value_or("")});
    }
    records.problems.push_back(std::move(problem));
  }
}

// Adds the notes of one problem, whose tasks begin with `task`: methods in the
// same state share a line.
void AddNotes(const ProblemRecords& problem, const Task* task, int repeats,
              std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::string>> lines;  // state, methods
  for (const MethodRecords& method : problem.methods) {
    std::vector<int> unfinished;
    std::vector<int> missing;
    for (const Task* end = task + repeats; task != end; ++task) {
      if (!task->error.empty()) {
        continue;  // see ExperimentRecords::failures
      }
      if (!task->exists) {
        missing.push_back(task->run.repeat);
      } else if (!task->run.finished) {
        unfinished.push_back(task->run.repeat);
      }
    }
    for (const auto& [state, of] :
         {std::pair("unfinished", unfinished), {"not begun", missing}}) {
      if (of.empty()) {
        continue;
      }
      const std::string text =
          fmt::format("{}: repeats {} of ", state, Ranges(of));
      const auto known = std::find_if(
          lines.begin(), lines.end(),
          [&text](const auto& line) { return line.first == text; });
      if (known == lines.end()) {
        lines.emplace_back(text, method.name);
      } else {
        known->second += ", " + method.name;
      }
    }
  }
  const std::string& name = problem.info.name;
  for (const auto& [state, methods] : lines) {
    notes.push_back((name.empty() ? "" : name + ": ") + state + methods);
  }
}

// "out of memory" for kOutOfMemory.
std::string WordsOf(trials::Outcome outcome) {
  std::string words(ToString(outcome));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// "no trial completed: 4 failed (exit code 3), 2 out of memory" where runs
// finished without a completed trial; "" otherwise. The message is that of most
// failures.
std::string WhyNoResult(const std::vector<Run>& runs) {
  std::map<trials::Outcome, int> outcomes;
  std::map<std::string, int> messages;
  bool finished = false;
  for (const Run& run : runs) {
    finished = finished || run.finished;
    for (const trials::Trial& trial : run.trials) {
      ++outcomes[trial.measurement.outcome];
      if (trial.measurement.outcome == trials::Outcome::kFailed) {
        ++messages[trial.measurement.message];
      }
    }
  }
  if (!finished || outcomes.contains(trials::Outcome::kCompleted)) {
    return "";
  }
  std::vector<std::string> counts;
  for (const auto& [outcome, count] : outcomes) {
    counts.push_back(fmt::format("{} {}", count, WordsOf(outcome)));
    if (outcome == trials::Outcome::kFailed) {
      const auto most = std::max_element(
          messages.begin(), messages.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      counts.back() += most->first.empty() ? "" : " (" + most->first + ")";
    }
  }
  return counts.empty()
             ? "no trial ran"
             : fmt::format("no trial completed: {}", fmt::join(counts, ", "));
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
  LoadProblems(experiment_folder, records);

  const auto repeats = static_cast<std::size_t>(records.info.repeats);
  std::vector<Task> tasks;
  for (std::size_t p = 0; p < records.problems.size(); ++p) {
    for (std::size_t m = 0; m < records.info.methods.size(); ++m) {
      for (std::size_t r = 0; r < repeats; ++r) {
        tasks.push_back({.problem = p, .method = m});
        tasks.back().run.repeat = static_cast<int>(r) + 1;
      }
    }
  }
  LoadAll(experiment_folder, records, tasks);

  Task* task = tasks.data();
  for (ProblemRecords& problem : records.problems) {
    AddNotes(problem, task, records.info.repeats, records.notes);
    for (MethodRecords& method : problem.methods) {
      for (std::size_t r = 0; r < repeats; ++r, ++task) {
        if (!task->error.empty()) {
          records.failures.push_back("left out: " + task->error);
        } else if (task->exists) {
          ToValues(problem.info, task->run.trials);
          method.runs.push_back(std::move(task->run));
        }
      }
      if (const std::string why = WhyNoResult(method.runs); !why.empty()) {
        records.failures.push_back(fmt::format(
            "{}{}method {}: {}", problem.info.name,
            problem.info.name.empty() ? "" : ": ", method.name, why));
      }
    }
  }
  return records;
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

std::string RemainingText(const trials::Remaining& remaining) {
  return fmt::format("expected gain {:.2g}%, within 5% of the optimum: {:.0f}%",
                     100.0 * remaining.expected_gain,
                     100.0 * remaining.p_within_5);
}

void RequireKnown(const std::vector<std::string>& names,
                  const std::vector<std::string>& known,
                  const std::string& what) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw common::InputError(
          fmt::format("unknown {} '{}'{}; known: {}", what, name,
                      common::DidYouMean(name, known), fmt::join(known, ", ")));
    }
  }
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
