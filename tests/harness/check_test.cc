#include "harness/check.h"

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/error.h"
#include "common/json.h"
#include "harness/records/journal.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace harness::check_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::WriteFile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

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
          journal.Commit(trial, {number, 0.1, 0.1},
                         {{number, "time", "scale", 0.5}});
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
  // Describes the experiment of these runs; returns its folder.
  [[nodiscard]] fs::path Describe(int repeats,
                                  const trials::ProblemInfo& problem = {},
                                  const std::vector<std::string>& problems = {
                                      ""}) const {
    fs::path folder = results_.path() / "m";
    trials::ExperimentInfo info{.methods = {{"oppa", "OPPA"}},
                                .repeats = repeats};
    info.problems = problems;
    Write(folder, problem);
    Write(folder, info);
    return folder;
  }
  // As their runs did.
  void NoteFinished() const {
    for (const int repeat : {1, 2, 2}) {
      trials::RecordList::Add(results_.path() / "m",
                              fmt::format("oppa/{}", repeat));
    }
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

// The data of a figure are no trials, not even where no run is recorded.
TEST_F(CheckTest, TheDataOfAFigureAreNotTheTrialsOfARun) {
  WriteFile(results_.path() / "m/figures/trials.csv", "x,random\n1,2\n");
  EXPECT_THAT(Check().damage, IsEmpty());
  EXPECT_EQ(trials::RunFoldersBelow(results_.path()).size(), 3U);
  WriteFile(results_.path() / "m/oppa/9/trials.csv", "x,random\n1,2\n");
  EXPECT_THAT(Check().damage, ElementsAre(HasSubstr("oppa/9/trials.csv")));
}

// The third run has no seal yet.
TEST_F(CheckTest, AChangedRowOfAnUnfinishedRunIsDamageInEveryFile) {
  for (const std::string name :
       {"trials.csv", "steps.csv", "fits.csv", "thinking.csv"}) {
    const fs::path file = Folder(3) / name;
    const std::string text = ReadFile(file);
    std::string changed = text;
    const std::size_t at = text.find_last_of("1234567890");
    changed[at] = changed[at] == '9' ? '8' : '9';
    WriteFile(file, changed);
    EXPECT_THAT(Check().damage, ElementsAre(HasSubstr(name))) << changed;
    WriteFile(file, text);
  }
  EXPECT_THAT(Check().damage, IsEmpty());
}

TEST_F(CheckTest, ARunThatIsGoneIsDamage) {
  const fs::path experiment = Describe(4);
  NoteFinished();
  EXPECT_THAT(trials::RecordList(experiment).names(),
              ElementsAre("oppa/1", "oppa/2"));
  EXPECT_THAT(Check().damage, IsEmpty());
  fs::remove_all(Folder(2));
  EXPECT_THAT(
      Check().damage,
      ElementsAre(HasSubstr("oppa/2: the records of this run are gone")));
}

TEST_F(CheckTest, ARunOfAnotherExperimentIsDamage) {
  const fs::path experiment = Describe(3);
  NoteFinished();
  trials::RunInfo run = trials::ReadRunInfo(Folder(2));
  trials::RecordList::Add(experiment,
                          trials::ContentLine("oppa/2", trials::SealText(run)));
  EXPECT_THAT(Check().damage, IsEmpty());
  Cut(Folder(2) / "steps.csv");
  run.files = trials::SealFiles(Folder(2));
  Write(Folder(2), run);
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("2/run.json: " + experiment.string() +
                                    "/.runs does not list this content")));
}

TEST_F(CheckTest, RecordsOfASearchThatAreGoneOrExchangedAreDamage) {
  const fs::path folder = results_.path() / "m";
  const auto write = [](const fs::path& file, int trials) {
    trials::WriteRecord(file, {{"trials", trials}});
  };
  for (const std::string name :
       {"preflight.json", "finals.json", "best.json"}) {
    write(folder / name, 3);
    write(folder / name, 4);
    EXPECT_THAT(Check().damage, IsEmpty()) << "no experiment.json yet";
    const std::string text = ReadFile(folder / name);
    write(results_.path() / "other" / name, 5);
    WriteFile(folder / name, ReadFile(results_.path() / "other" / name));
    EXPECT_THAT(Check().damage, ElementsAre(HasSubstr("m/" + name)));
    fs::remove(folder / name);
    EXPECT_THAT(Check().damage,
                ElementsAre(HasSubstr("m/" + name + ": missing")));
    WriteFile(folder / name, text);
  }
  fs::copy_file(folder / "finals.json", folder / "preflight.json",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(Check().damage, ElementsAre(HasSubstr("m/preflight.json")));
  fs::remove(folder / ".runs");
  EXPECT_EQ(Check().damage.size(), 3U) << "these records are always listed";
}

TEST_F(CheckTest, ACommandLineThatWasEditedIsNoted) {
  const fs::path file = results_.path() / "m/best.sh";
  trials::WriteListed(file, "#!/bin/sh\n");
  EXPECT_THAT(Check().notes, IsEmpty());
  WriteFile(file, "#!/bin/sh\ntrue\n");
  EXPECT_THAT(Check().notes, ElementsAre(HasSubstr("best.sh: edited")));
  EXPECT_THAT(Check().damage, IsEmpty());
}

TEST_F(CheckTest, WhatListsTheRunsCannotBeLostUnnoticed) {
  const fs::path experiment = Describe(3);
  NoteFinished();
  Cut(experiment / ".runs");
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr(".runs: does not list the run oppa/2")));
  fs::remove(experiment / ".runs");
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("oppa/1"), HasSubstr("oppa/2")));
  NoteFinished();
  fs::remove(experiment / "experiment.json");
  EXPECT_THAT(Check().damage, ElementsAre(HasSubstr("json: missing")));
}

// As a full disk leaves it.
TEST_F(CheckTest, ALineOfRunsThatWasCutIsReplaced) {
  const fs::path experiment = results_.path() / "m";
  WriteFile(experiment / ".runs", "oppa/1\nopp");
  NoteFinished();
  EXPECT_EQ(ReadFile(experiment / ".runs"), "oppa/1\noppa/2\n");
}

TEST_F(CheckTest, SumsThatAreGoneAreNoted) {
  fs::remove(Folder(3) / ".sums");
  EXPECT_THAT(Check().notes, ElementsAre(HasSubstr(".sums is missing")));
  EXPECT_THAT(Check().damage, IsEmpty());
}

// Whoever writes a file also writes its check value; a damaged file has
// another.
TEST_F(CheckTest, EditsOfJsonAndFilesThatAreGoneAreFound) {
  const fs::path experiment = Describe(4, {.optimum_steps_per_s = 2.5});
  NoteFinished();
  EXPECT_THAT(Check().damage, IsEmpty());
  EXPECT_THAT(Check().notes,
              ElementsAre(HasSubstr("1 of its runs have no records: oppa/4")));
  const auto edit = [](const fs::path& file, const std::string& from,
                       const std::string& to) {
    std::string text = ReadFile(file);
    WriteFile(file, text.replace(text.find(from), from.size(), to));
  };
  edit(experiment / "problem.json", "2.5", "5.0");
  edit(experiment / "experiment.json", ": 4", ": 0");
  edit(Folder(1) / "run.json", "\"seed\": 0", "\"seed\": 7");
  edit(Folder(2) / "run.json", "\"files\"", "\"gone\"");
  fs::remove(Folder(3) / "run.json");
  EXPECT_THAT(
      Check().damage,
      ElementsAre(HasSubstr("experiment.json: it does not match its check"),
                  HasSubstr("1/run.json: it does not match"),
                  HasSubstr("2/run.json: it does not match"),
                  HasSubstr("3/run.json: missing"),
                  HasSubstr("problem.json: it does not match")));
}

TEST_F(CheckTest, ADescriptionThatIsGoneAndAnEditedPreflightAreFound) {
  const fs::path experiment = Describe(3, {}, {"", "second"});
  WriteFile(experiment / "preflight.json",
            common::SealedText(common::Json{{"rounds", 3}}));
  NoteFinished();
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("second/problem.json: missing")));
  std::string text = ReadFile(experiment / "preflight.json");
  WriteFile(experiment / "preflight.json",
            text.replace(text.find('3'), 1, "4"));
  fs::remove(experiment / "problem.json");
  EXPECT_THAT(Check().damage,
              UnorderedElementsAre(HasSubstr("m/problem.json: missing"),
                                   HasSubstr("second/problem.json: missing"),
                                   HasSubstr("preflight.json: it does not")));
}

TEST_F(CheckTest, AFolderInThePlaceOfAFileIsDamage) {
  const fs::path file = Folder(2) / "run.json";
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_THAT(Check().damage,
              ElementsAre(HasSubstr("run.json: is a directory")));
}

TEST_F(CheckTest, AFolderThatCannotBeListedDoesNotHideOthers) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root lists every folder";
  }
  fs::permissions(Folder(1), fs::perms::none);
  Cut(Folder(2) / "trials.csv");
  const auto damage = Check().damage;
  fs::permissions(Folder(1), fs::perms::owner_all);
  EXPECT_THAT(damage, ElementsAre(HasSubstr("oppa/1: cannot be listed"),
                                  HasSubstr("2/trials.csv")));
}

TEST_F(CheckTest, AnUncommittedTrialIsANoteAndStays) {
  Cut(Folder(3) / "trials.csv");
  const std::string steps = ReadFile(Folder(3) / "steps.csv");
  const CheckSummary summary = Check();
  EXPECT_THAT(summary.damage, IsEmpty());
  EXPECT_THAT(summary.notes,
              ElementsAre(HasSubstr("steps.csv: dropped 2 rows"),
                          HasSubstr("fits.csv: dropped 1 rows"),
                          HasSubstr("thinking.csv: dropped 1 rows")));
  EXPECT_EQ(ReadFile(Folder(3) / "steps.csv"), steps);
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

TEST_F(CheckTest, AMissingFolderIsAnError) {
  EXPECT_THROW((void)CheckRecordsBelow(results_.path() / "none"),
               common::InputError);
}

}  // namespace harness::check_test
