#include "harness/status.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/records/journal.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::status_test {

using testing::HasSubstr;
using testing::Not;

class StatusTest : public testing::Test {
 protected:
  StatusTest() {
    manifest_.name = "m";
    manifest_.repeats = 2;
    manifest_.budget = {.time_s = 100.0, .trials = 10, .q_max = 3};
    manifest_.problems.emplace_back();
    manifest_.methods.push_back({"fast", "FAST", "random", {}});
    manifest_.methods.push_back({"slow", "SLOW", "oppa", {}});
  }

  [[nodiscard]] Experiment Given() const { return {manifest_, folder_.path()}; }

  // Records `trials` trials of 10 s each, with a suggestion time of
  // `thinking_s`.
  void Record(const std::string& method, int repeat, int trials,
              double thinking_s, bool finished) {
    const auto folder = trials::RunFolder(folder_.path(), "", method, repeat);
    std::filesystem::create_directories(folder);
    trials::RunInfo info{.method = method, .repeat = repeat};
    info.finished = finished;
    info.finish_reason = finished ? trials::FinishReason::kTimeBudget
                                  : trials::FinishReason::kUnfinished;
    Write(folder, info);
    Journal journal(folder);
    for (int i = 1; i <= trials; ++i) {
      trials::Trial trial;
      trial.number = i;
      trial.elapsed_s = 10.0 * i;
      trial.incumbent_steps_per_s = 0.25;
      journal.Commit(trial, {i, thinking_s, thinking_s}, {});
    }
  }

  [[nodiscard]] RunStatus Read(std::size_t run) const {
    const Experiment experiment = Given();
    return ReadRunStatus(experiment, experiment.runs[run]);
  }

  // What a progress without a terminal writes.
  std::string Written(const std::function<void(Progress&)>& work) const {
    std::FILE* out = std::tmpfile();
    const Experiment experiment = Given();
    {
      Progress progress(experiment, /*terminal=*/false, out);
      progress.Update(0.0);
      work(progress);
    }
    std::rewind(out);
    std::string text(8192, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), out));
    std::fclose(out);
    return text;
  }

  fakes::TemporaryFolder folder_;
  Manifest manifest_;
};

TEST_F(StatusTest, TellsTheStatesApart) {
  EXPECT_EQ(Read(0).state, RunState::kMissing);
  Record("fast", 1, 4, 1.0, /*finished=*/false);
  EXPECT_EQ(Read(0).state, RunState::kStopped);
  EXPECT_EQ(Read(0).trials, 4);
  EXPECT_DOUBLE_EQ(Read(0).fraction, 0.4);
  EXPECT_DOUBLE_EQ(Read(0).thinking_s, 4.0);
  EXPECT_DOUBLE_EQ(Read(0).incumbent_steps_per_s, 0.25);
  const auto folder = trials::RunFolder(folder_.path(), "", "fast", 1);
  {
    const Journal writer(folder);
    EXPECT_EQ(Read(0).state, RunState::kRunning);
  }
  Record("fast", 2, 10, 1.0, /*finished=*/true);
  EXPECT_EQ(Read(2).state, RunState::kDone);
  EXPECT_EQ(Read(2).message, "time budget");
  fakes::WriteFile(folder / "trials.csv", "something else\n");
  EXPECT_EQ(Read(0).state, RunState::kDamaged);
  EXPECT_THAT(Read(0).message, HasSubstr("trials.csv:1"));
}

TEST_F(StatusTest, ARunOfASmallerBudgetIsNotDone) {
  Record("fast", 1, 10, 1.0, /*finished=*/true);
  const auto folder = trials::RunFolder(folder_.path(), "", "fast", 1);
  trials::RunInfo info = trials::ReadRunInfo(folder);
  info.bounds = {.time_s = 100.0, .trials = 10};
  Write(folder, info);
  EXPECT_EQ(Read(0).state, RunState::kDone);
  manifest_.budget.time_s = 200.0;
  EXPECT_EQ(Read(0).state, RunState::kStopped);
  EXPECT_EQ(Read(0).message, "ended at a smaller budget");
}

TEST_F(StatusTest, EstimatesTheTimeLeftFromThePaceOfEachMethod) {
  EXPECT_TRUE(std::isnan(SecondsLeft(ReadStatus(Given()), 1)));
  Record("fast", 1, 10, 1.0, true);
  Record("slow", 1, 5, 6.0, false);
  // fast: one more run of 10 s; slow: half a run and a whole one at 60 s each.
  const Experiment experiment = Given();
  const auto runs = ReadStatus(experiment);
  EXPECT_NEAR(SecondsLeft(runs, 1), 10.0 + 90.0, 1e-9);
  EXPECT_NEAR(SecondsLeft(runs, 2), 50.0, 1e-9);
  const std::string table = FormatStatus(experiment.manifest, runs);
  EXPECT_THAT(table, HasSubstr("m: 1 of 4 runs done, 0 running, 15 trials"));
}

TEST_F(StatusTest, ProgressWritesPlainLinesWhereThereIsNoTerminal) {
  EXPECT_EQ(Written([this](Progress& progress) {
              Record("fast", 1, 10, 1.0, true);
              progress.Update(1.0);
              progress.RunEnded(0, "");
              progress.RunEnded(1, "exit code 3: no luck");
              progress.Update(60.0);
              progress.Clear();
            }),
            "1 of 4 runs done; 10 trials, best 0.25 steps/s\n"
            "slow/1: failed: exit code 3: no luck\n"
            "1 of 4 runs done; 10 trials, best 0.25 steps/s\n")
      << "nothing is known about the time of `slow`";
}

TEST_F(StatusTest, ProgressOfManyRunsIsAboutTwentyLines) {
  manifest_.repeats = 150;
  const std::string text = Written([this](Progress& progress) {
    // Budgets of `slow` take twelve times as long.
    double now_s = 0.0;
    for (int run = 0; run < 300; ++run) {
      const bool slow = run % 2 == 1;
      Record(slow ? "slow" : "fast", run / 2 + 1, 1, slow ? 12.0 : 1.0, true);
      now_s += slow ? 1.2 : 0.1;
      progress.Update(now_s);
      progress.RunEnded(run, "");
    }
  });
  const auto lines = std::ranges::count(text, '\n');
  EXPECT_GE(lines, 20);
  EXPECT_LE(lines, 25) << text;
  // 16 of 300 runs took 10.4 of 195 s.
  EXPECT_THAT(text, HasSubstr("16 of 300 runs done; 16 trials, best 0.25 "
                              "steps/s, about 3 min 05 s left"));
  EXPECT_THAT(text, Not(HasSubstr("about 4 min")));
}

TEST(FormatDuration, SpeaksToPeople) {
  EXPECT_EQ(FormatDuration(0.0), "0 s");
  EXPECT_EQ(FormatDuration(59.2), "1 min 00 s");
  EXPECT_EQ(FormatDuration(200.0), "3 min 20 s");
  EXPECT_EQ(FormatDuration(3900.0), "1 h 05 min");
  EXPECT_EQ(FormatDuration(trials::kUnknown), "?");
}

}  // namespace harness::status_test
