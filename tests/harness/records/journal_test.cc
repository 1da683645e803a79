#include "harness/records/journal.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/search.h"
#include "tests/fakes/fake_method.h"
#include "tests/fakes/fake_runner.h"
#include "tests/fakes/temporary_folder.h"

namespace harness::journal_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::WriteFile;

const std::vector<std::string> kFiles = {"trials.csv", "steps.csv", "fits.csv"};

// A short run of five trials, one of them out of memory and one cut short.
void RunIn(const fs::path& folder) {
  const trials::SearchSpace space = fakes::SmallSpace(8);
  fakes::FakeRunner runner;
  runner.max_dp = 4;
  fakes::FakeMethod method({7, 1, space.size() - 1, 3, 4});
  method.stop_below_steps_per_s = 0.9;
  Journal journal(folder);
  VirtualClock clock(runner);
  (void)Search({.space = space,
                .budget = {.time_s = 1e4, .trials = 5, .q_max = 4},
                .trial_seed = 3,
                .method = method,
                .clock = clock,
                .journal = journal});
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    RunIn(whole_.path());
    for (const std::string& file : kFiles) {
      expected_.push_back(ReadFile(whole_.path() / file));
    }
  }

  // A copy of the finished run in which `damage` is done.
  template <typename Damage>
  void ExpectSurvives(const std::string& what, Damage damage) {
    fs::remove_all(copy_.path());
    fs::copy(whole_.path(), copy_.path());
    damage(copy_.path());
    RunIn(copy_.path());
    for (std::size_t i = 0; i < kFiles.size(); ++i) {
      ASSERT_EQ(ReadFile(copy_.path() / kFiles[i]), expected_[i])
          << kFiles[i] << " after " << what;
    }
    ASSERT_EQ(
        trials::ReadRows<trials::SuggestionTime>(copy_.path()).records.size(),
        5U)
        << what;
  }

  // Nothing can be opened with this content of `file`, which stays.
  void ExpectRefused(const std::string& file, const std::string& content,
                     const std::string& what) {
    fs::remove_all(copy_.path());
    fs::copy(whole_.path(), copy_.path());
    WriteFile(copy_.path() / file, content);
    try {
      const Journal journal(copy_.path());
      FAIL() << "opened after " << what;
    } catch (const common::InputError& e) {
      ASSERT_THAT(e.what(), testing::HasSubstr(file)) << what;
    }
    ASSERT_EQ(ReadFile(copy_.path() / file), content) << what;
  }

  fakes::TemporaryFolder whole_;
  fakes::TemporaryFolder copy_;
  std::vector<std::string> expected_;
};

TEST_F(JournalTest, SurvivesACutAtEveryByteThatACrashCanLeave) {
  // The last row of trials.csv may be cut or missing, as after a crash between
  // the files of a trial. The other two are not needed.
  for (const std::string file : {"trials.csv", "fits.csv", "thinking.csv"}) {
    const std::string content = ReadFile(whole_.path() / file);
    ASSERT_GT(content.size(), 100U);
    const std::size_t begin =
        file == "trials.csv" ? content.rfind('\n', content.size() - 2) + 1 : 0;
    for (std::size_t bytes = begin; bytes < content.size(); ++bytes) {
      ExpectSurvives(file + " cut at byte " + std::to_string(bytes),
                     [&](const fs::path& folder) {
                       fs::resize_file(folder / file, bytes);
                     });
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST_F(JournalTest, RefusesEveryCutThatNoCrashCanLeaveAndKeepsTheFiles) {
  for (const std::string file : {"trials.csv", "steps.csv"}) {
    const std::string content = ReadFile(whole_.path() / file);
    const std::size_t last_row = content.rfind('\n', content.size() - 2) + 1;
    const std::size_t end = file == "trials.csv" ? last_row : content.size();
    for (std::size_t bytes = 0; bytes < end; ++bytes) {
      ExpectRefused(file, content.substr(0, bytes),
                    file + " cut at byte " + std::to_string(bytes));
      if (HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST_F(JournalTest, RefusesAMissingFileOfTrialsOrSteps) {
  for (const std::string file : {"trials.csv", "steps.csv"}) {
    fs::remove_all(copy_.path());
    fs::copy(whole_.path(), copy_.path());
    fs::remove(copy_.path() / file);
    EXPECT_THROW(const Journal journal(copy_.path()), common::InputError)
        << file;
    EXPECT_FALSE(fs::exists(copy_.path() / file)) << file;
  }
}

TEST_F(JournalTest, NotesWhatItDropsAndWhatIsUnknown) {
  const std::string rows = ReadFile(whole_.path() / "trials.csv");
  fs::resize_file(whole_.path() / "trials.csv", rows.size() - 1);
  EXPECT_THAT(Journal(whole_.path()).notes(),
              testing::Contains(testing::StartsWith(
                  "trials.csv: dropped 0 rows and an incomplete one")));
  fs::remove(whole_.path() / "thinking.csv");
  const Journal journal(whole_.path());
  EXPECT_EQ(journal.committed().size(), 4U);
  EXPECT_THAT(journal.notes(),
              testing::ElementsAre(
                  "thinking.csv: no suggestion time of trials 1 to 4"));
}

// A row with its newline is durable: no crash damages it.
TEST_F(JournalTest, RefusesAFlippedByteInTheLastTrial) {
  const std::string content = ReadFile(whole_.path() / "trials.csv");
  const std::size_t last_row = content.rfind('\n', content.size() - 2) + 1;
  for (std::size_t at = last_row; at + 1 < content.size(); ++at) {
    std::string damaged = content;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    ExpectRefused("trials.csv", damaged, "flip of byte " + std::to_string(at));
    if (HasFatalFailure()) {
      return;
    }
  }
}

TEST_F(JournalTest, RefusesRowsThatAreNotInOrder) {
  const auto lines = common::Split(expected_[1], '\n');
  std::vector<std::string> steps(lines.begin(), lines.end());
  std::swap(steps[2], steps[3]);  // two steps of the first trial
  ExpectRefused("steps.csv", fmt::format("{}", fmt::join(steps, "\n")),
                "an exchange of steps");
  const std::string& rows = expected_[0];
  const std::size_t last = rows.rfind('\n', rows.size() - 2) + 1;
  ExpectRefused("trials.csv", rows + rows.substr(last), "a trial twice");
}

TEST_F(JournalTest, ReportsADamagedRowInTheMiddle) {
  std::string rows = ReadFile(whole_.path() / "trials.csv");
  const std::size_t first_row = rows.find('\n', rows.find('\n') + 1) + 1;
  rows[first_row] = '9';
  WriteFile(whole_.path() / "trials.csv", rows);
  try {
    const Journal journal(whole_.path());
    FAIL() << "opened";
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("trials.csv:3:"));
  }
}

TEST_F(JournalTest, AFinishedRunIsReplayedWithoutANewTrial) {
  ExpectSurvives("nothing", [](const fs::path&) {});
  EXPECT_EQ(ReadFile(whole_.path() / "thinking.csv"),
            ReadFile(copy_.path() / "thinking.csv"));
}

TEST_F(JournalTest, HasOneWriter) {
  auto journal = std::make_unique<Journal>(whole_.path(), 0.5);
  EXPECT_TRUE(IsLeased(whole_.path()));
  EXPECT_THROW(Journal(whole_.path(), 0.5), LeaseLost);
  journal.reset();
  EXPECT_FALSE(IsLeased(whole_.path()));
  EXPECT_NO_THROW(Journal(whole_.path(), 0.5));
}

TEST(Journal, KeepsThePlansOfCommittedTrials) {
  const fakes::TemporaryFolder folder;
  trials::Trial trial = trials::MakeTrial(4, trials::ParallelConfig{.dp = 2},
                                          {.message = "failed"});
  const auto commit = [&](Journal& journal, int number, std::string plan) {
    trial.number = number;
    trial.plan = std::move(plan);
    journal.Commit(trial, {.trial = number}, {});
  };
  {
    Journal journal(folder.path());
    commit(journal, 1, "");
    EXPECT_FALSE(fs::exists(folder.path() / "plans.csv"));
    commit(journal, 2, "dp=2;pp=2|dp=4");
    commit(journal, 3, "dp=4|dp=4");
  }
  std::string rows = ReadFile(folder.path() / "trials.csv");
  rows.resize(rows.size() - 1);  // trial 3 is cut off
  WriteFile(folder.path() / "trials.csv", rows);
  Journal journal(folder.path());
  ASSERT_EQ(journal.committed().size(), 2U);
  EXPECT_EQ(journal.committed()[0].plan, "");
  EXPECT_EQ(journal.committed()[1].plan, "dp=2;pp=2|dp=4");
  commit(journal, 3, "dp=8");
  EXPECT_EQ(CandidateLabel(trials::ReadTrials(folder.path()).at(2)), "dp=8");
}

TEST(Journal, ACutOfAnImportKeepsTheTrialsBeforeIt) {
  const fakes::TemporaryFolder whole;
  std::vector<trials::Trial> imported;
  for (int number = 1; number <= 4; ++number) {
    imported.push_back(
        trials::MakeTrial(number, trials::ParallelConfig{.dp = number}, {}));
    imported.back().number = number;
  }
  Journal(whole.path()).CommitImported(imported);
  const std::string rows = ReadFile(whole.path() / "trials.csv");
  const std::string times = ReadFile(whole.path() / "thinking.csv");
  for (std::size_t bytes = rows.find("\n1,") + 1; bytes <= rows.size();
       ++bytes) {
    const fakes::TemporaryFolder cut;
    fs::copy(whole.path(), cut.path());
    WriteFile(cut.path() / "trials.csv", rows.substr(0, bytes));
    WriteFile(cut.path() / "thinking.csv",
              times.substr(0, times.find("\n1,") + 1));
    ASSERT_EQ(Journal(cut.path()).committed().size(),
              std::ranges::count(rows.substr(0, bytes), '\n') - 2)
        << bytes;
    ASSERT_EQ(
        trials::ReadRows<trials::SuggestionTime>(cut.path()).records.size(),
        Journal(cut.path()).committed().size());
  }
}

TEST(Journal, CannotBeOpenedWhereNothingCanBeWritten) {
  EXPECT_THROW(Journal("/proc/nothing"), std::runtime_error);
}

}  // namespace harness::journal_test
