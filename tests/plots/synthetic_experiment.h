// Small experiments written through trials/record.h, for the tests of plots/.

#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace plots_test {

// A short description of a trial: its outcome, end time and throughput. The
// noise- free throughput is `exact`; `dp` tells configurations apart.
struct ShortTrial {
  trials::Outcome outcome = trials::Outcome::kCompleted;
  double elapsed_s = 0.0;
  int steps = 0;
  double throughput = trials::kUnknown;
  double exact = trials::kUnknown;
  int dp = 1;
  trials::ChosenBy chosen_by = trials::ChosenBy::kModel;
};

inline std::vector<trials::Trial> Trials(
    const std::vector<ShortTrial>& short_trials) {
  std::vector<trials::Trial> trials;
  double before_s = 0.0;
  double incumbent = trials::kUnknown;
  for (const ShortTrial& one : short_trials) {
    trials::Trial trial;
    trial.number = static_cast<int>(trials.size()) + 1;
    trial.config.dp = one.dp;
    trial.chosen_by = one.chosen_by;
    trial.measurement.outcome = one.outcome;
    trial.steps = one.steps;
    trial.throughput.steps_per_s = one.throughput;
    trial.exact_steps_per_s = one.exact;
    trial.measurement.duration_s = one.elapsed_s - before_s;
    trial.elapsed_s = before_s = one.elapsed_s;
    if (one.outcome == trials::Outcome::kCompleted) {
      incumbent = std::fmax(incumbent, one.throughput);
    }
    trial.incumbent_steps_per_s = incumbent;
    trials.push_back(trial);
  }
  return trials;
}

// Writes one run; `thinking_s` is the wall-clock time of each suggestion.
inline void WriteRun(
    const std::filesystem::path& experiment, const std::string& problem,
    const std::string& method, int repeat,
    const std::vector<ShortTrial>& short_trials,
    trials::FinishReason finish_reason = trials::FinishReason::kTimeBudget,
    double thinking_s = 0.25) {
  const std::filesystem::path folder =
      trials::RunFolder(experiment, problem, method, repeat);
  std::filesystem::create_directories(folder);
  std::ofstream out(folder / "trials.csv");
  std::ofstream thinking(folder / "thinking.csv");
  out << trials::FileOf<trials::Trial>().header;
  thinking << trials::FileOf<trials::SuggestionTime>().header;
  for (const trials::Trial& trial : Trials(short_trials)) {
    out << trials::ToRow(trial) << "\n";
    thinking << trials::ToRow(trials::SuggestionTime{trial.number, thinking_s,
                                                     thinking_s})
             << "\n";
  }
  trials::Write(folder,
                trials::RunInfo{.problem = problem,
                                .method = method,
                                .repeat = repeat,
                                .backend = "simulator",
                                .finished = finish_reason !=
                                            trials::FinishReason::kUnfinished,
                                .finish_reason = finish_reason});
}

inline void WriteProblem(const std::filesystem::path& experiment,
                         const trials::ProblemInfo& problem) {
  const std::filesystem::path folder =
      trials::ProblemFolder(experiment, problem.name);
  std::filesystem::create_directories(folder);
  trials::Write(folder, problem);
}

inline trials::ProblemInfo SmallProblem(const std::string& name = "") {
  return {.name = name,
          .description = "a small model on 2 GPUs",
          .backend = "simulator",
          .gpus = 2,
          .candidates = 40,
          .feasible = 30,
          .optimum_steps_per_s = 2.0,
          .optimum_config = "dp=2,tp=1,pp=1",
          .q_max = 10,
          .time_budget_s = 600.0};
}

// Two methods and an ablation with three repeats each, hand-made: see the
// numbers in summary_test.cc.
inline void WriteSmallExperiment(const std::filesystem::path& experiment) {
  using enum trials::Outcome;
  trials::Write(
      experiment,
      trials::ExperimentInfo{.name = "small",
                             .title = "A small experiment",
                             .problems = {""},
                             .methods = {{"random", "RANDOM"},
                                         {"oppa", "OPPA", "oppa"},
                                         {"oppa-bare", "OPPA, bare", "oppa"}},
                             .repeats = 3});
  WriteProblem(experiment, SmallProblem());
  WriteRun(experiment, "", "random", 1, {{kCompleted, 120, 10, 1.01, 1.0, 1}});
  WriteRun(experiment, "", "random", 2, {{kOutOfMemory, 60}});
  WriteRun(experiment, "", "random", 3,
           {{kOutOfMemory, 60},
            {kCompleted, 180, 10, 0.8, 0.8, 1},
            {kCompleted, 300, 10, 1.9, 1.92, 2}});
  for (int repeat = 1; repeat <= 3; ++repeat) {
    const double t = 60.0 * repeat;
    const std::vector<ShortTrial> found = {
        {kCompleted, t, 10, 1.5, 1.5, 1},
        {kTerminatedEarly, t + 30, 5, 0.5, 0.5, 1},
        {kCompleted, t + 90, 10, 1.99, 2.0, 2}};
    WriteRun(experiment, "", "oppa", repeat, found);
    WriteRun(experiment, "", "oppa-bare", repeat, {found[0], found[1]});
  }
}

// A folder with that experiment.
struct SmallExperiment : fakes::TemporaryFolder {
  SmallExperiment() { WriteSmallExperiment(path()); }
};

// The text is that of tests/golden/<name>. With OPPA_UPDATE_GOLDEN set in the
// environment the file is written instead; review its changes.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path path =
      fakes::SourceFolder() / "tests/golden" / name;
  if (std::getenv("OPPA_UPDATE_GOLDEN") != nullptr) {
    fakes::WriteFile(path, text);
  }
  EXPECT_EQ(text, fakes::ReadFile(path)) << "differs from " << path;
}

}  // namespace plots_test
