#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/record.h"

namespace trials::seal_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::WriteFile;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <typename Record>
void WriteRows(const fs::path& folder, const std::vector<Record>& records) {
  std::string text = FileOf<Record>().header;
  for (const Record& record : records) {
    text += ToRow(record) + "\n";
  }
  WriteFile(folder / FileOf<Record>().name, text);
}

class SealTest : public testing::Test {
 protected:
  SealTest() {
    for (int repeat = 1; repeat <= 2; ++repeat) {
      const fs::path folder = Folder(repeat);
      fs::create_directories(folder);
      Trial trial =
          MakeTrial(3, ParallelConfig{.dp = 2}, {.message = "failed"});
      trial.number = 1;
      trial.elapsed_s = repeat;
      WriteRows<Trial>(folder, {trial});
      WriteRows<StepRecord>(folder, {{1, 1, 0.5 * repeat}, {1, 2, 0.25}});
      WriteRows<SuggestionTime>(folder, {{1, 0.1 * repeat, 0.1}});
      RunInfo info{.problem = "b64", .method = "oppa", .repeat = repeat};
      info.finished = true;
      info.files = SealFiles(folder);
      Write(folder, info);
    }
  }

  [[nodiscard]] fs::path Folder(int repeat) const {
    return RunFolder(results_.path(), "b64", "oppa", repeat);
  }
  void Check(int repeat = 1) const {
    RequireWhole(Folder(repeat), ReadRunInfo(Folder(repeat)));
  }

  fakes::TemporaryFolder results_;
};

TEST_F(SealTest, AnUntouchedRunIsWhole) {
  Check(1);
  Check(2);
  const RunInfo info = ReadRunInfo(Folder(1));
  ASSERT_EQ(info.files->size(), 3U);
  EXPECT_EQ(info.files->at(1).name, "steps.csv");
  EXPECT_EQ(info.files->at(1).rows, 2);
}

TEST_F(SealTest, FindsEveryChangedByteOfEveryFile) {
  for (const std::string file : {"trials.csv", "steps.csv", "thinking.csv"}) {
    const std::string content = ReadFile(Folder(1) / file);
    for (std::size_t at = 0; at < content.size(); ++at) {
      std::string changed = content;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      WriteFile(Folder(1) / file, changed);
      EXPECT_THROW(Check(), common::InputError) << file << " byte " << at;
    }
    WriteFile(Folder(1) / file, content);
  }
  Check();
}

TEST_F(SealTest, FindsEveryCutOfEveryFile) {
  for (const std::string file : {"trials.csv", "steps.csv", "thinking.csv"}) {
    const std::string content = ReadFile(Folder(1) / file);
    for (std::size_t bytes = 0; bytes < content.size(); ++bytes) {
      WriteFile(Folder(1) / file, content.substr(0, bytes));
      EXPECT_THROW(Check(), common::InputError) << file << " cut at " << bytes;
    }
    WriteFile(Folder(1) / file, content);
  }
}

TEST_F(SealTest, NamesTheFileAndTheNumberOfRows) {
  const std::string content = ReadFile(Folder(1) / "steps.csv");
  WriteFile(Folder(1) / "steps.csv",
            content.substr(0, content.rfind('\n', content.size() - 2) + 1));
  EXPECT_THAT([&] { Check(); },
              ThrowsMessage<common::InputError>(
                  HasSubstr("steps.csv: 1 rows; the finished run had 2")));
  fs::remove(Folder(1) / "trials.csv");
  EXPECT_THAT([&] { Check(); },
              ThrowsMessage<common::InputError>(
                  HasSubstr("trials.csv: missing; the finished run had it")));
}

TEST_F(SealTest, FindsFilesOfAnotherRepeat) {
  for (const char* file : {"trials.csv", "steps.csv", "thinking.csv"}) {
    const std::string mine = ReadFile(Folder(1) / file);
    WriteFile(Folder(1) / file, ReadFile(Folder(2) / file));
    EXPECT_THAT([&] { Check(); },
                ThrowsMessage<common::InputError>(HasSubstr(file)));
    WriteFile(Folder(1) / file, mine);
  }
}

TEST_F(SealTest, FindsAWholeRunInTheFolderOfAnother) {
  fs::rename(Folder(1), results_.path() / "kept");
  fs::rename(Folder(2), Folder(1));
  EXPECT_THAT([&] { Check(); },
              ThrowsMessage<common::InputError>(
                  HasSubstr("describes repeat 2 of method oppa, problem b64")));
}

TEST_F(SealTest, FindsAFileThatTheRunDidNotHave) {
  WriteRows<FitRecord>(Folder(1), {{1, "memory", "noise_stddev", 0.5}});
  EXPECT_THAT([&] { Check(); }, ThrowsMessage<common::InputError>(
                                    HasSubstr("the finished run had no")));
}

TEST_F(SealTest, ADamagedFileIsNotSealed) {
  std::string content = ReadFile(Folder(1) / "steps.csv");
  content[content.size() - 12] ^= 1;
  WriteFile(Folder(1) / "steps.csv", content);
  EXPECT_THROW((void)SealFiles(Folder(1)), common::InputError);
}

TEST_F(SealTest, ARunIsThatOfItsRepeatMethodAndProblem) {
  const RunInfo info = ReadRunInfo(Folder(1));
  const auto check = [&](const std::string& problem, const std::string& method,
                         const std::string& repeat, const RunInfo& run) {
    const fs::path folder = results_.path() / problem / method / repeat;
    fs::create_directories(folder.parent_path());
    fs::copy(
        Folder(1), folder,
        fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    RequireWhole(folder, run);
  };
  EXPECT_NO_THROW(RequireWhole(Folder(1), info));
  EXPECT_NO_THROW(RequireWhole(Folder(1) / "", info));
  EXPECT_THROW(check("b64", "oppa", "3", info), common::InputError);
  EXPECT_THROW(check("b64", "grid", "1", info), common::InputError);
  EXPECT_THROW(check("b65", "oppa", "1", info), common::InputError);
  RunInfo without_problem = info;
  without_problem.problem = "";
  EXPECT_NO_THROW(check("b65", "oppa", "1", without_problem));
}

TEST_F(SealTest, AnUnfinishedRunMayHaveAnyFiles) {
  RunInfo info = ReadRunInfo(Folder(1));
  info.finished = false;
  fs::remove(Folder(1) / "steps.csv");
  EXPECT_NO_THROW(RequireWhole(Folder(1), info));
}

}  // namespace trials::seal_test
