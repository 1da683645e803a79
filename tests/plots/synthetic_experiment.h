// Small experiments written through trials/record.h, for the tests of plots/.

#ifndef TESTS_PLOTS_SYNTHETIC_EXPERIMENT_H_
#define TESTS_PLOTS_SYNTHETIC_EXPERIMENT_H_

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

// A trial in few words: how it ended, when, and at what throughput. The noise-
// free throughput is `exact`; `dp` tells configurations apart.
struct ShortTrial {
  trials::Outcome outcome = trials::Outcome::kCompleted;
  double elapsed_s = 0.0;
  int steps = 0;
  double throughput = trials::kUnknown;
  double exact = trials::kUnknown;
  int dp = 1;
};

inline std::vector<trials::TrialRecord> Trials(
    const std::vector<ShortTrial>& short_trials) {
  std::vector<trials::TrialRecord> records;
  double before_s = 0.0;
  for (const ShortTrial& one : short_trials) {
    trials::TrialRecord record;
    record.trial = static_cast<int>(records.size()) + 1;
    record.config.dp = one.dp;
    record.outcome = one.outcome;
    record.steps = one.steps;
    record.throughput_steps_per_s = one.throughput;
    record.exact_steps_per_s = one.exact;
    record.duration_s = one.elapsed_s - before_s;
    record.elapsed_s = before_s = one.elapsed_s;
    records.push_back(record);
  }
  return records;
}

// Writes one run; `thinking_s` is the wall-clock time of each suggestion.
inline void WriteRun(const std::filesystem::path& experiment,
                     const std::string& problem,
                     const std::string& method,
                     int repeat,
                     const std::vector<ShortTrial>& short_trials,
                     const std::string& finish_reason = "time budget",
                     double thinking_s = 0.25) {
  const std::filesystem::path folder =
      trials::RunFolder(experiment, problem, method, repeat);
  std::filesystem::create_directories(folder);
  std::ofstream out(folder / "trials.csv");
  std::ofstream thinking(folder / "thinking.csv");
  out << trials::TrialsFile().version << "\n"
      << trials::TrialsFile().header << "\n";
  thinking << trials::ThinkingFile().version << "\n"
           << trials::ThinkingFile().header << "\n";
  for (const trials::TrialRecord& record : Trials(short_trials)) {
    out << trials::ToRow(record) << "\n";
    thinking << trials::ToRow(trials::ThinkingRecord{
                    record.trial, thinking_s, thinking_s})
             << "\n";
  }
  trials::Write(folder,
                trials::RunInfo{.problem = problem,
                                .method = method,
                                .repeat = repeat,
                                .backend = "simulator",
                                .finished = !finish_reason.empty(),
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
  trials::Write(experiment,
                trials::ExperimentInfo{.name = "small",
                                       .title = "A small experiment",
                                       .problems = {""},
                                       .methods = {{"random", "RANDOM"},
                                                   {"oppa", "OPPA"},
                                                   {"oppa-bare", "OPPA, bare"}},
                                       .repeats = 3});
  WriteProblem(experiment, SmallProblem());
  WriteRun(experiment, "", "random", 1, {{kCompleted, 120, 10, 1.01, 1.0, 1}});
  WriteRun(experiment, "", "random", 2, {{kOutOfMemory, 60}});
  WriteRun(experiment,
           "",
           "random",
           3,
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

// The text is that of tests/golden/<name>. With OPPA_UPDATE_GOLDEN set in the
// environment the file is written instead: look at what changed in it.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::filesystem::path path =
      fakes::SourceFolder() / "tests/golden" / name;
  if (std::getenv("OPPA_UPDATE_GOLDEN") != nullptr) {
    fakes::WriteFile(path, text);
  }
  EXPECT_EQ(text, fakes::ReadFile(path)) << "differs from " << path;
}

}  // namespace plots_test

#endif  // TESTS_PLOTS_SYNTHETIC_EXPERIMENT_H_
