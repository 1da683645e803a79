// All records of an experiment in memory.

#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trials/record.h"

namespace plots {

// One repeat of a method, up to its current progress.
struct Run {
  int repeat = 0;
  std::vector<trials::Trial> trials;  // without step times
  std::vector<trials::SuggestionTime> suggestion_times;
  // What was left to gain, by the number of trials so far.
  std::map<int, trials::Remaining> remaining;
  bool finished = false;
  trials::FinishReason finish_reason = trials::FinishReason::kUnfinished;
};

struct MethodRecords {
  std::string name;       // folder name
  std::string label;      // in legends and tables
  std::string family;     // see trials::ExperimentInfo::Method; "": none
  std::vector<Run> runs;  // those with at least one trial, or finished
};

struct ProblemRecords {
  trials::ProblemInfo info;
  std::vector<MethodRecords> methods;  // in the order of the manifest
};

struct ExperimentRecords {
  trials::ExperimentInfo info;
  std::vector<ProblemRecords> problems;  // those that have been started
  // What is missing or unfinished, or cannot be compared, one line each.
  std::vector<std::string> notes;
  // Each "table.key=value" that replaced one of the manifest's in a run.
  std::set<std::string> settings = {};
  // The reasons why the records are not a complete result, one line each: a run
  // that cannot be read, or a method whose finished runs have no completed
  // trial, unless all of them ran out of memory and another method completed
  // some.
  std::vector<std::string> failures;
};

// Replaces the throughputs of trials by their values in the unit of reports
// (trials::Valuation): the same for the objective time, steps/USD for money.
void ToValues(const trials::ProblemInfo& problem,
              std::vector<trials::Trial>& trials);

// Reads results/<experiment>/ with one thread per core. Trials and optima have
// values instead of throughputs (ToValues). A run that has not
// started, is in progress or cannot be read is not an error but a line in
// `notes` or `failures`.
//
// Errors: throws common::InputError when experiment.json cannot be read.
[[nodiscard]] ExperimentRecords LoadExperiment(
    const std::filesystem::path& experiment_folder);

// The method that others are compared with, and that a page shows: "oppa" if it
// has runs, else the first method with runs; "" if there is none.
[[nodiscard]] std::string DefaultReference(
    std::span<const ProblemRecords> problems);

// After each trial, the index of the incumbent as recorded: the best completed
// trial so far (the first of equals); -1 while there is none.
[[nodiscard]] std::vector<int> Incumbents(
    const std::vector<trials::Trial>& trials);

// "out of memory", "stopped early".
[[nodiscard]] std::string OutcomeWords(trials::Outcome outcome);

// The estimates in fits.csv by the trial that they were made before.
[[nodiscard]] std::map<int, trials::Remaining> RemainingByTrial(
    const std::vector<trials::FitRecord>& fits);

// "expected gain 0.83%".
[[nodiscard]] std::string ExpectedGainText(const trials::Remaining& remaining);
// "expected gain 0.83%, within 5% of the optimum: 93%".
[[nodiscard]] std::string RemainingText(const trials::Remaining& remaining);

// "1-3, 7" for {1, 2, 3, 7}.
[[nodiscard]] std::string Ranges(const std::vector<int>& ascending);

}  // namespace plots
