#include "plots/experiment_records.h"

#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/plots/synthetic_experiment.h"
#include "trials/record_list.h"

namespace plots::experiment_records_test {

using fakes::TemporaryFolder;
using plots_test::SmallExperiment;
using plots_test::WriteRun;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using enum trials::Outcome;

TEST(ExperimentRecords, HoldEveryRunInTheOrderOfTheManifest) {
  const SmallExperiment folder;
  const ExperimentRecords records = LoadExperiment(folder.path());
  EXPECT_THAT(records.notes, IsEmpty());
  ASSERT_EQ(records.problems.size(), 1U);
  const ProblemRecords& problem = records.problems[0];
  EXPECT_EQ(problem.info.optimum_steps_per_s, 2.0);
  ASSERT_EQ(problem.methods.size(), 3U);
  EXPECT_EQ(problem.methods[0].name, "random");
  EXPECT_EQ(problem.methods[1].label, "OPPA");
  ASSERT_EQ(problem.methods[0].runs.size(), 3U);
  EXPECT_EQ(problem.methods[0].runs[2].repeat, 3);
  EXPECT_EQ(problem.methods[0].runs[2].trials.size(), 3U);
  EXPECT_EQ(problem.methods[0].runs[2].suggestion_times.size(), 3U);
  EXPECT_TRUE(problem.methods[0].runs[2].finished);
}

TEST(ExperimentRecords, SayWhichRunsAreMissingOrUnfinished) {
  const SmallExperiment folder;
  std::filesystem::remove_all(folder.path() / "oppa");
  std::filesystem::remove_all(folder.path() / "random" / "3");
  WriteRun(folder.path(), "", "random", 1, {{kOutOfMemory, 5}},
           trials::FinishReason::kUnfinished);
  const ExperimentRecords records = LoadExperiment(folder.path());
  EXPECT_THAT(
      records.notes,
      ElementsAre("not begun: repeats 1-3 of oppa",
                  "not begun: repeats 3 of random",
                  "unfinished, in tables but in no comparison: repeats 1 of "
                  "random",
                  "method random: no trial completed: 2 out of memory"));
  EXPECT_EQ(records.problems[0].methods[0].runs.size(), 2U);
  EXPECT_FALSE(records.problems[0].methods[0].runs[0].finished);
}

TEST(ExperimentRecords, LeaveOutADamagedRunAndSaySo) {
  const SmallExperiment folder;
  std::ofstream(folder.path() / "oppa/2/trials.csv", std::ios::app)
      << "this is no row\n";
  const ExperimentRecords records = LoadExperiment(folder.path());
  EXPECT_THAT(records.failures,
              ElementsAre(HasSubstr("oppa/2/trials.csv:6: ")));
  EXPECT_EQ(records.problems[0].methods[1].runs.size(), 2U);
}

// One repeat without a completed trial is a result of a comparison; a method
// without any is not, once a run of it has finished.
TEST(ExperimentRecords, SayWhyAMethodHasNoResult) {
  const SmallExperiment folder;
  EXPECT_THAT(LoadExperiment(folder.path()).failures, IsEmpty());
  for (const int repeat : {1, 2, 3}) {
    WriteRun(folder.path(), "", "random", repeat,
             {{kOutOfMemory, 60}, {kFailed, 70}, {kFailed, 80}},
             trials::FinishReason::kUnfinished);
  }
  EXPECT_THAT(LoadExperiment(folder.path()).failures, IsEmpty());
  WriteRun(folder.path(), "", "random", 2, {{kOutOfMemory, 60}, {kFailed, 70}});
  EXPECT_THAT(
      LoadExperiment(folder.path()).failures,
      ElementsAre(
          "method random: no trial completed: 3 out of memory, 5 failed"));
  WriteRun(folder.path(), "", "oppa-bare", 1, {});
  WriteRun(folder.path(), "", "oppa-bare", 2, {});
  WriteRun(folder.path(), "", "oppa-bare", 3, {});
  EXPECT_THAT(LoadExperiment(folder.path()).failures,
              ElementsAre(testing::_, "method oppa-bare: no trial ran"));
}

TEST(ExperimentRecords, NoteAMethodWhoseTrialsAllRanOutOfMemoryBesideAnother) {
  const SmallExperiment folder;
  for (const int repeat : {1, 2, 3}) {
    WriteRun(folder.path(), "", "random", repeat, {{kOutOfMemory, 60}});
  }
  const ExperimentRecords records = LoadExperiment(folder.path());
  EXPECT_THAT(records.failures, IsEmpty());
  EXPECT_THAT(
      records.notes,
      testing::Contains("method random: no trial completed: 3 out of memory"));
}

TEST(ExperimentRecords, NoteSuchAMethodWhoseLastTrialTheBudgetCutOff) {
  const SmallExperiment folder;
  const auto failures =
      [&folder](const std::vector<plots_test::ShortTrial>& trials) {
        for (const int repeat : {1, 2, 3}) {
          WriteRun(folder.path(), "", "random", repeat, trials);
        }
        return LoadExperiment(folder.path()).failures;
      };
  EXPECT_THAT(failures({{kOutOfMemory, 60}, {kTimedOut, 100}}), IsEmpty());
  EXPECT_THAT(failures({{kTimedOut, 100}}), testing::SizeIs(1));
  EXPECT_THAT(failures({{kTimedOut, 60}, {kOutOfMemory, 100}}),
              testing::SizeIs(1));
}

// Changes run.json of a run of the small experiment.
void Change(const SmallExperiment& folder, const std::string& run,
            const std::function<void(trials::RunInfo&)>& change) {
  trials::RunInfo info = trials::ReadRunInfo(folder.path() / run);
  change(info);
  trials::Write(folder.path() / run, info);
}

TEST(ExperimentRecords, SayThatRunsOfOtherBudgetsAreNoComparison) {
  const SmallExperiment folder;
  for (const std::string method : {"oppa", "random"}) {
    for (const std::string repeat : {"/1", "/2", "/3"}) {
      Change(folder, method + repeat,
             [&](trials::RunInfo& info) { info.bounds = {.trials = 4}; });
    }
  }
  EXPECT_THAT(LoadExperiment(folder.path()).notes, IsEmpty());
  Change(folder, "oppa/2",
         [](trials::RunInfo& info) { info.bounds = {.trials = 10}; });
  EXPECT_THAT(LoadExperiment(folder.path()).notes,
              ElementsAre("different budgets, so that their ends cannot be "
                          "compared: 10 trials for oppa; 4 trials for oppa, "
                          "random"));
}

TEST(ExperimentRecords, SayThatTrialsAreFromBeforeAndAfterAChange) {
  const SmallExperiment folder;
  Change(folder, "oppa/2", [](trials::RunInfo& info) {
    info.accepted = {{2, {"cluster.gpu_speed_factor is gone"}}};
    info.settings = {{"budget.trials=6"}};
  });
  const ExperimentRecords records = LoadExperiment(folder.path());
  EXPECT_THAT(records.notes,
              ElementsAre(testing::AllOf(
                  HasSubstr("before and after a change "
                            "(cluster.gpu_speed_factor is gone)"),
                  HasSubstr("of neither: oppa"))));
  EXPECT_THAT(records.settings, ElementsAre("budget.trials=6"));
}

TEST(ExperimentRecords, SayWhichRunsOfTheFolderTheyLeaveOut) {
  const SmallExperiment folder;
  trials::ExperimentInfo info = trials::ReadExperimentInfo(folder.path());
  for (const trials::ExperimentInfo::Method& method : info.methods) {
    for (const std::string repeat : {"/1", "/2", "/3"}) {
      trials::RecordList::Add(folder.path(), method.name + repeat);
    }
  }
  EXPECT_THAT(LoadExperiment(folder.path()).notes, IsEmpty());
  info.repeats = 2;
  std::erase_if(info.methods,
                [](const auto& method) { return method.name == "random"; });
  trials::Write(folder.path(), info);
  EXPECT_THAT(LoadExperiment(folder.path()).notes,
              ElementsAre(HasSubstr("did not name them: repeats of oppa (3), "
                                    "oppa-bare (3), random (1-3);")));
}

TEST(ExperimentRecords, SayThatAMethodChoseNothing) {
  const SmallExperiment folder;
  const auto write = [&](const std::string& method, trials::ChosenBy last) {
    for (const int repeat : {1, 2, 3}) {
      WriteRun(folder.path(), "", method, repeat,
               {{kCompleted, 30, 1, 1.0, 1.0, 1, trials::ChosenBy::kRandom},
                {kCompleted, 60, 1, 1.0, 1.0, 1, last}});
    }
  };
  write("random", trials::ChosenBy::kRandom);
  write("oppa", trials::ChosenBy::kModel);
  EXPECT_THAT(LoadExperiment(folder.path()).notes, IsEmpty());
  write("oppa", trials::ChosenBy::kGiven);
  EXPECT_THAT(LoadExperiment(folder.path()).notes,
              ElementsAre(HasSubstr("before a method chose one: oppa")));
}

TEST(ExperimentRecords, SayThatWhatTellsMethodsApartHadNoEffect) {
  const SmallExperiment folder;
  for (const std::string method : {"oppa", "oppa-bare"}) {
    for (const int repeat : {1, 2, 3}) {
      WriteRun(folder.path(), "", method, repeat,
               {{kOutOfMemory, 20}, {kFailed, 40}, {kCompleted, 60, 1, 1.0}});
    }
  }
  EXPECT_THAT(LoadExperiment(folder.path()).notes,
              ElementsAre("the same trials: oppa, oppa-bare: what tells them "
                          "apart had no effect"));
}

TEST(ExperimentRecords, IgnoreTheRowThatIsBeingWritten) {
  const SmallExperiment folder;
  std::ofstream(folder.path() / "oppa/2/trials.csv", std::ios::app) << "4,2,";
  EXPECT_EQ(LoadExperiment(folder.path())
                .problems[0]
                .methods[1]
                .runs[1]
                .trials.size(),
            3U);
}

TEST(ExperimentRecords, LeaveOutAProblemThatHasNotBegun) {
  const TemporaryFolder folder;
  trials::Write(folder.path(),
                trials::ExperimentInfo{.name = "two",
                                       .problems = {"a", "b"},
                                       .methods = {{"random", "RANDOM"}},
                                       .repeats = 1});
  plots_test::WriteProblem(folder.path(), plots_test::SmallProblem("b"));
  WriteRun(folder.path(), "b", "random", 1, {{kOutOfMemory, 5}});
  const ExperimentRecords records = LoadExperiment(folder.path());
  ASSERT_EQ(records.problems.size(), 1U);
  EXPECT_EQ(records.problems[0].info.name, "b");
  EXPECT_THAT(records.notes, ElementsAre("a: not begun"));
}

TEST(ExperimentRecords, NeedAnExperiment) {
  const TemporaryFolder folder;
  EXPECT_THROW((void)LoadExperiment(folder.path()), common::InputError);
}

TEST(Incumbents, AreTheBestCompletedTrialsSoFar) {
  EXPECT_THAT(Incumbents(plots_test::Trials({{kOutOfMemory, 1},
                                             {kCompleted, 2, 1, 1.0},
                                             {kTerminatedEarly, 3, 1, 9.0},
                                             {kCompleted, 4, 1, 1.0},
                                             {kCompleted, 5, 1, 2.0}})),
              ElementsAre(-1, 1, 1, 1, 4));
}

TEST(Ranges, JoinNeighbours) {
  EXPECT_EQ(Ranges({1, 2, 3, 7}), "1-3, 7");
  EXPECT_EQ(Ranges({}), "");
}

TEST(Remaining, ReadsTheEstimatesOfEveryTrial) {
  const auto estimates =
      RemainingByTrial({{4, "throughput", "expected_gain", 9.0},
                        {4, "remaining", "expected_gain", 0.25},
                        {4, "remaining", "candidate", 17.0},
                        {4, "remaining", "p_within_5", 0.5},
                        {5, "remaining", "expected_gain", 0.125}});
  ASSERT_EQ(estimates.size(), 2U);
  EXPECT_EQ(estimates.at(4),
            (trials::Remaining{
                .expected_gain = 0.25, .candidate = 17, .p_within_5 = 0.5}));
  EXPECT_EQ(estimates.at(5).expected_gain, 0.125);
}

TEST(Remaining, IsOneLineOfText) {
  EXPECT_EQ(ExpectedGainText({.expected_gain = 1e-58}),
            "expected gain < 0.01%");
  EXPECT_EQ(RemainingText({.expected_gain = 0.00834, .p_within_5 = 0.931}),
            "expected gain 0.83%, within 5% of the optimum: 93%");
}

}  // namespace plots::experiment_records_test
