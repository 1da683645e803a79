#include "trials/programs/trial_report.h"

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fakes/temporary_folder.h"

namespace trials::trial_report_test {

using testing::ElementsAre;

ReportReader::Line Read(std::string_view line) {
  return ReportReader().Read(line);
}

// The step times in lines that come one after another.
std::vector<double> Steps(const std::vector<std::string>& lines) {
  ReportReader reader;
  std::vector<double> steps;
  for (const std::string& line : lines) {
    for (const TrialReport& report : reader.Read(line).reports) {
      steps.push_back(report.step_time_s.value_or(-1.0));
    }
  }
  return steps;
}

TEST(ReportReader, ReadsMemoryAndStatus) {
  const auto line = Read(
      R"(oppa {"peak_memory_bytes": 7, "status": "out_of_memory", "message": "}{\""})");
  ASSERT_EQ(line.reports.size(), 1U);
  EXPECT_EQ(line.reports[0].peak_memory_bytes, 7.0);
  EXPECT_EQ(line.reports[0].status, Outcome::kOutOfMemory);
  EXPECT_EQ(line.reports[0].message, "}{\"");
}

TEST(ReportReader, OtherLinesAreOutput) {
  for (const char* line : {"", "oppa", "oppa ", "oppa is here", "step 3: 0.4 s",
                           "{\"step_time_s\": 1}", " oppas {}"}) {
    EXPECT_TRUE(Read(line).reports.empty()) << line;
    EXPECT_EQ(Read(line).broken, "") << line;
  }
}

TEST(ReportReader, RefusesIntactObjectsWithWrongContent) {
  for (const char* line :
       {"oppa {\"step_time_s\": -1}", "oppa {\"step_time_s\": 0}",
        "oppa {\"step_time_s\": 1e-160}", "oppa {\"step_time_s\": 1e30}",
        "oppa {\"step_time_s\": \"1\"}", "oppa {\"step_time\": 1}",
        "oppa {\"peak_memory_bytes\": -1}", "oppa {\"status\": \"fine\"}"}) {
    EXPECT_THROW((void)Read(line), std::invalid_argument) << line;
  }
}

TEST(ReportReader, SkipsBrokenReportsAndSaysSo) {
  for (const char* line :
       {"oppa {", "oppa {\"step_time_s\": 1e999}",
        "oppa {\"step_time_s\": NaN}", "oppa {\"step_time_s\": 0.4 epoch 3}"}) {
    EXPECT_TRUE(Read(line).reports.empty()) << line;
    EXPECT_EQ(Read(line).broken, line + 5) << line;
  }
}

TEST(ReportReader, FindsReportsAnywhereInALine) {
  EXPECT_THAT(Steps({"[rank0]: oppa {\"step_time_s\": 1} {} done\r"}),
              ElementsAre(1.0));
  EXPECT_THAT(Steps({"epoch 3oppa {\"step_time_s\": 1}oppa "
                     "{\"step_time_s\": 2}"}),
              ElementsAre(1.0, 2.0));
  EXPECT_THAT(Steps({"oppa {\"step_timoppa {\"step_time_s\": 3}"}),
              ElementsAre(3.0));
}

// print("oppa", report, flush=True) with PYTHONUNBUFFERED=1 writes the word, a
// space, the object and the newline one by one.
TEST(ReportReader, RecoversReportsOfSeveralRanksThatInterleave) {
  EXPECT_THAT(Steps({"oppaoppa {\"peak_memory_bytes\": 9}",
                     " {\"step_time_s\": 1.008}"}),
              ElementsAre(-1.0, 1.008));
  EXPECT_THAT(
      Steps({"oppaoppa  {\"step_time_s\": 1}{\"step_time_s\": 2}", "", ""}),
      ElementsAre(1.0, 2.0));
  EXPECT_THAT(Steps({"oppaepoch 3", "epoch 3", " {\"step_time_s\": 1}"}),
              ElementsAre(1.0));
}

TEST(ReportReader, ObjectsWithoutAWordNearbyAreOutput) {
  const std::string step = "{\"step_time_s\": 1}";
  EXPECT_THAT(Steps({"results/oppa/1", step}), ElementsAre());
  EXPECT_THAT(Steps({"oppa " + step, step, step}), ElementsAre(1.0));
  EXPECT_THAT(Steps({"oppa", "{\"status\": \"failed\"}"}), ElementsAre());
  std::vector<std::string> lines(10, "epoch");
  lines.insert(lines.begin(), "oppa starts");
  lines.push_back(step);
  EXPECT_THAT(Steps(lines), ElementsAre());
}

TEST(ReportReader, AWordThatIsPartOfANameAnnouncesNothing) {
  const std::string step = "{\"step_time_s\": 1}";
  for (const char* line : {"/oppa x", "a.oppa x", "b_oppa x", "c-oppa x",
                           "oppa/x", "oppa.x", "oppa_x", "oppa-x"}) {
    EXPECT_THAT(Steps({line, step}), ElementsAre()) << line;
  }
  for (const char* line : {"oppa", "oppa x", "(oppa)", "noppa"}) {
    EXPECT_THAT(Steps({line, step}), ElementsAre(1.0)) << line;
  }
}

TEST(ReportReader, ALineOfBracesTakesNoTime) {
  std::string line;
  while (line.size() < LineReader::kLongest) {
    line += "oppa {\"step_time_s\"";
  }
  EXPECT_TRUE(Read(line).reports.empty());
}

TEST(ReportFile, ReadsWhatWasAppendedAndIsRemoved) {
  const fakes::TemporaryFolder folder;
  const auto path = folder.path() / "sub" / "x.report";
  {
    ReportFile file(path);
    EXPECT_EQ(file.path(), path);
    EXPECT_EQ(file.Read(), "");
    fakes::WriteFile(path, "oppa {}\n");
    EXPECT_EQ(file.Read(), "oppa {}\n");
    EXPECT_EQ(file.Read(), "");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ReportFile, IsReadAndWrittenAsTheUmaskSays) {
  const fakes::TemporaryFolder folder;
  const mode_t before = ::umask(0);
  const ReportFile file(folder.path() / "x.report");
  ::umask(before);
  EXPECT_EQ(
      static_cast<unsigned>(std::filesystem::status(file.path()).permissions()),
      0666U);
}

TEST(ReportFile, IsInTheTemporaryFolderWhereItsOwnCannotBeMade) {
  ReportFile file("/proc/nowhere/x.report");
  EXPECT_EQ(file.path().parent_path(), std::filesystem::temp_directory_path());
  EXPECT_NE(file.path(), ReportFile("/proc/nowhere/x.report").path());
  fakes::WriteFile(file.path(), "oppa {}\n");
  EXPECT_EQ(file.Read(), "oppa {}\n");
}

TEST(ReportFile, IsInTmpWhereTheTemporaryFolderIsMissing) {
  ::setenv("TMPDIR", "/nowhere/at/all", 1);
  const ReportFile file("/proc/nowhere/x.report");
  ::unsetenv("TMPDIR");
  EXPECT_EQ(file.path().parent_path(), "/tmp");
}

TEST(ReportFile, IsReadInPiecesUpToALimit) {
  const fakes::TemporaryFolder folder;
  ReportFile file(folder.path() / "x.report");
  std::filesystem::resize_file(file.path(), std::uintmax_t{100} << 30U);
  std::size_t all = 0;
  for (std::string piece; !(piece = file.Read()).empty();) {
    EXPECT_LE(piece.size(), std::size_t{1} << 20U);
    all += piece.size();
  }
  EXPECT_EQ(all, std::size_t{64} << 20U);
}

TEST(LineReader, PutsPiecesTogetherAndBoundsALine) {
  LineReader reader;
  std::vector<std::string> lines;
  const auto take = [&lines](std::string_view line) {
    lines.emplace_back(line);
  };
  reader.Take("a", take);
  reader.Take("b\n\nof 9: 1\rof 9: 2\r\ncd", take);
  EXPECT_THAT(lines, ElementsAre("ab", "of 9: 1", "of 9: 2"));
  reader.Take(std::string(3 * LineReader::kLongest, 'x'), take);
  reader.Finish(take);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[3].size(), LineReader::kLongest);
}

}  // namespace trials::trial_report_test
