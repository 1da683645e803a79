#include "harness/records/check.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "harness/records/journal.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace harness::check_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::WriteFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CheckTest : public testing::Test {
 protected:
  // Runs of three trials with two steps each; the third is not finished.
  CheckTest() {
    for (int repeat = 1; repeat <= 3; ++repeat) {
      trials::RunInfo info{.method = "oppa", .repeat = repeat};
      {
        fs::create_directories(Folder(repeat));
        Journal journal(Folder(repeat));
        for (int number = 1; number <= 3; ++number) {
          trials::Trial trial =
              trials::MakeTrial(number, trials::ParallelConfig{.dp = 2},
                                {.step_times_s = {0.5, 0.25 * repeat}});
          trial.number = number;
          journal.Commit(trial, {number, 0.1, 0.1}, {});
        }
      }
      info.finished = repeat < 3;
      if (info.finished) {
        info.files = trials::SealFiles(Folder(repeat));
      }
      Write(Folder(repeat), info);
    }
  }

  [[nodiscard]] fs::path Folder(int repeat) const {
    return trials::RunFolder(results_.path() / "m", "", "oppa", repeat);
  }
  [[nodiscard]] CheckSummary Check() const {
    return CheckRecordsBelow(results_.path());
  }
  void Cut(const fs::path& file) {
    const std::string text = ReadFile(file);
    WriteFile(file, text.substr(0, text.rfind('\n', text.size() - 2) + 1));
  }

  fakes::TemporaryFolder results_;
};

TEST_F(CheckTest, WholeRunsAreCounted) {
  const CheckSummary summary = Check();
  EXPECT_EQ(summary.finished, 2);
  EXPECT_EQ(summary.unfinished, 1);
  EXPECT_EQ(summary.unsealed, 0);
  EXPECT_THAT(summary.damage, IsEmpty());
  EXPECT_THAT(summary.notes, IsEmpty());
}

TEST_F(CheckTest, EveryDamagedRunIsNamed) {
  Cut(Folder(1) / "trials.csv");
  fs::remove(Folder(2) / "steps.csv");
  fs::remove(Folder(3) / "steps.csv");
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("1/trials.csv: 2 rows; the finished"),
                          HasSubstr("2/steps.csv: missing"),
                          HasSubstr("3/steps.csv: 0 of the 2 steps")));
}

TEST_F(CheckTest, FilesExchangedBetweenRepeatsAreFound) {
  const std::string mine = ReadFile(Folder(1) / "steps.csv");
  WriteFile(Folder(1) / "steps.csv", ReadFile(Folder(2) / "steps.csv"));
  WriteFile(Folder(2) / "steps.csv", mine);
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("1/steps.csv"), HasSubstr("2/steps.csv")));
}

TEST_F(CheckTest, AnUncommittedTrialIsANote) {
  Cut(Folder(3) / "trials.csv");
  const CheckSummary summary = Check();
  EXPECT_THAT(summary.damage, IsEmpty());
  EXPECT_THAT(summary.notes,
              ElementsAre(HasSubstr("steps.csv: dropped 2 rows"),
                          HasSubstr("thinking.csv: dropped 1 rows")));
}

TEST_F(CheckTest, AJsonFileThatIsCutIsNamed) {
  const std::string text = ReadFile(Folder(2) / "run.json");
  WriteFile(Folder(2) / "run.json", text.substr(0, text.size() / 2));
  WriteFile(results_.path() / "m/problem.json", "{");
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("2/run.json"), HasSubstr("problem.json")));
}

// `null` is valid JSON.
TEST_F(CheckTest, ASubmissionThatIsNotAnObjectIsNamed) {
  const fs::path submission = results_.path() / "m/.slurm/token";
  fs::create_directories(submission);
  for (const std::string text : {"null", "[]", "3"}) {
    WriteFile(submission / "submission.json", text);
    EXPECT_THAT(
        Check().damage,
        ElementsAre(HasSubstr("token/submission.json: must be an object, not")))
        << text;
  }
  WriteFile(submission / "submission.json", "{}");
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr(
                  "token/submission.json: key 'experiment' not found")));
  fs::remove(submission / "submission.json");
  WriteFile(submission / "tasks.jsonl", "null\n");
  EXPECT_THAT(
      Check().damage,
      ElementsAre(HasSubstr("token/tasks.jsonl: must be an object, not null")));
}

TEST_F(CheckTest, ChangesNothing) {
  Cut(Folder(3) / "trials.csv");
  const std::string steps = ReadFile(Folder(3) / "steps.csv");
  (void)Check();
  EXPECT_EQ(ReadFile(Folder(3) / "steps.csv"), steps);
}

TEST_F(CheckTest, AMissingFolderIsAnError) {
  EXPECT_THROW((void)CheckRecordsBelow(results_.path() / "none"),
               common::InputError);
}

}  // namespace harness::check_test
