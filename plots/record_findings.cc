#include "plots/record_findings.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/text.h"
#include "trials/record_list.h"

namespace plots {
namespace {

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
    counts.push_back(fmt::format("{} {}", count, OutcomeWords(outcome)));
    if (outcome == trials::Outcome::kFailed) {
      const auto most = std::ranges::max_element(
          messages,
          [](const auto& a, const auto& b) { return a.second < b.second; });
      counts.back() += most->first.empty() ? "" : " (" + most->first + ")";
    }
  }
  return counts.empty()
             ? "no trial ran"
             : fmt::format("no trial completed: {}", fmt::join(counts, ", "));
}

// That methods only tried what they were given or drew at random: their curves
// are RANDOM's.
void AddMethodsWithoutChoice(const std::string& prefix,
                             const ProblemRecords& problem,
                             ExperimentRecords& records) {
  constexpr std::string_view kRandom = "random";
  std::vector<std::string> names;
  for (const MethodRecords& method : problem.methods) {
    const bool chose = std::ranges::any_of(method.runs, [](const Run& run) {
      return !run.finished ||
             std::ranges::any_of(run.trials, [](const auto& trial) {
               return trial.chosen_by == trials::ChosenBy::kModel ||
                      trial.chosen_by == trials::ChosenBy::kUnspecified;
             });
    });
    if (!chose && !method.runs.empty() && !method.name.starts_with(kRandom)) {
      names.push_back(method.name);
    }
  }
  if (!names.empty()) {
    records.notes.push_back(fmt::format(
        "{}every trial was given or drawn at random, so that the budget ended "
        "before a method chose one: {}",
        prefix, fmt::join(names, ", ")));
  }
}

// That what tells methods apart changed none of their trials, as an option that
// another one turns off.
void AddEqualMethods(const std::string& prefix, const ProblemRecords& problem,
                     ExperimentRecords& records) {
  using Trials = std::vector<std::pair<int, double>>;  // of all runs
  std::map<Trials, std::vector<std::string>> by_trials;
  for (const MethodRecords& method : problem.methods) {
    Trials trials;
    for (const Run& run : method.runs) {
      for (const trials::Trial& trial : run.trials) {
        trials.emplace_back(trial.candidate, trial.elapsed_s);
      }
    }
    // A plan or two may well be the same.
    if (trials.size() > 2 * method.runs.size()) {
      by_trials[trials].push_back(method.name);
    }
  }
  for (const auto& [trials, names] : by_trials) {
    if (names.size() > 1) {
      records.notes.push_back(fmt::format(
          "{}the same trials: {}: what tells them apart had no effect", prefix,
          fmt::join(names, ", ")));
    }
  }
}

bool HasCompleted(const MethodRecords& method) {
  return std::ranges::any_of(method.runs, [](const Run& run) {
    return std::ranges::any_of(run.trials, [](const trials::Trial& trial) {
      return trial.measurement.outcome == trials::Outcome::kCompleted;
    });
  });
}

// But for the trial in which the budget ended.
bool OnlyRanOutOfMemory(const MethodRecords& method) {
  return std::ranges::all_of(method.runs, [](const Run& run) {
    const auto other =
        std::ranges::find_if_not(run.trials, [](const trials::Trial& trial) {
          return trial.measurement.outcome == trials::Outcome::kOutOfMemory;
        });
    return other != run.trials.begin() &&
           (other == run.trials.end() ||
            (other + 1 == run.trials.end() &&
             other->measurement.outcome == trials::Outcome::kTimedOut));
  });
}

// That nothing a method tried fits is its result where another method completed
// trials.
void AddMethodsWithoutResult(const std::string& prefix,
                             const ProblemRecords& problem,
                             ExperimentRecords& records) {
  const bool runs = std::ranges::any_of(problem.methods, HasCompleted);
  for (const MethodRecords& method : problem.methods) {
    const std::string why = WhyNoResult(method.runs);
    if (!why.empty()) {
      std::vector<std::string>& lines =
          runs && OnlyRanOutOfMemory(method) ? records.notes : records.failures;
      lines.push_back(fmt::format("{}method {}: {}", prefix, method.name, why));
    }
  }
}

}  // namespace

void AddFindings(const std::string& prefix, const ProblemRecords& problem,
                 ExperimentRecords& records) {
  AddMethodsWithoutResult(prefix, problem, records);
  AddMethodsWithoutChoice(prefix, problem, records);
  AddEqualMethods(prefix, problem, records);
}

void AddOtherRuns(const std::filesystem::path& folder,
                  const trials::RecordList& list, ExperimentRecords& records) {
  std::set<std::string> named;
  for (const std::string& problem : records.info.problems) {
    for (const trials::ExperimentInfo::Method& method : records.info.methods) {
      for (int repeat = 1; repeat <= records.info.repeats; ++repeat) {
        named.insert(trials::RunFolder("", problem, method.name, repeat));
      }
    }
  }
  std::map<std::string, std::vector<int>> repeats;  // by problem and method
  for (const std::string& name : list.names()) {
    const std::filesystem::path run(name);
    const std::optional<int> repeat = common::ParseInt(run.filename().string());
    if (repeat && !named.contains(name) &&
        common::EntryExists(folder / run / "run.json")) {
      repeats[run.parent_path()].push_back(*repeat);
    }
  }
  std::vector<std::string> texts;
  for (auto& [of, numbers] : repeats) {
    std::ranges::sort(numbers);
    texts.push_back(fmt::format("{} ({})", of, Ranges(numbers)));
  }
  constexpr std::size_t kMost = 5;
  const std::size_t count = texts.size();
  texts.resize(std::min(count, kMost));
  if (count > 0) {
    records.notes.push_back(fmt::format(
        "left out, because the last `oppa run` did not name them: repeats of "
        "{}{}; run it with them, which repeats nothing, to include them",
        fmt::join(texts, ", "),
        count > kMost ? fmt::format(" and {} others", count - kMost) : ""));
  }
}

}  // namespace plots
