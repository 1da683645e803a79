#include "trials/record.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/error.h"
#include "common/text.h"

namespace trials {
namespace {

TrialRecord SomeTrial() {
  TrialRecord record;
  record.trial = 3;
  record.candidate = 17;
  record.config = ParseParallelConfig(
      "dp=4,pp=2,zero_stage=1,microbatches=8,overlap_zero_comm=0");
  record.outcome = Outcome::kTerminatedEarly;
  record.steps = 5;
  record.throughput_steps_per_s = 0.1 + 0.2;
  record.throughput_variance = 1e-300;
  record.setup_s = 1.0 / 3.0;
  record.duration_s = 2.0 / 3.0;
  record.elapsed_s = 100.1;
  record.chosen_by = "model";
  record.message = "a, b\nc";
  return record;
}

class RecordFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("oppa-record-" + std::to_string(::getpid()) +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteTrials(const std::string& tail) {
    std::ofstream(folder_ / "trials.csv") << TrialsFile().version << '\n'
                                          << TrialsFile().header << '\n'
                                          << tail;
  }

  std::filesystem::path folder_;
};

TEST(Record, TrialRowReadsBackBitForBit) {
  const TrialRecord written = SomeTrial();
  const TrialRecord read = ParseTrialRow(ToRow(written));
  EXPECT_EQ(read.trial, written.trial);
  EXPECT_EQ(read.candidate, written.candidate);
  EXPECT_EQ(read.config, written.config);
  EXPECT_EQ(read.outcome, written.outcome);
  EXPECT_EQ(read.throughput_steps_per_s, written.throughput_steps_per_s);
  EXPECT_EQ(read.throughput_variance, written.throughput_variance);
  EXPECT_TRUE(std::isnan(read.peak_memory_bytes));
  EXPECT_TRUE(std::isnan(read.incumbent_steps_per_s));
  EXPECT_EQ(read.setup_s, written.setup_s);
  EXPECT_EQ(read.elapsed_s, written.elapsed_s);
  EXPECT_EQ(ToRow(read), ToRow(written));
}

TEST(Record, MessageCannotBreakTheRow) {
  const std::string row = ToRow(SomeTrial());
  EXPECT_EQ(row.find('\n'), std::string::npos);
  EXPECT_EQ(ParseTrialRow(row).message, "a; b c");
}

TEST(Record, FlipOfAnyBitOfARowIsFound) {
  const std::string row = ToRow(SomeTrial());
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = row;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THROW((void)ParseTrialRow(damaged), common::InputError) << i;
    }
  }
}

TEST(Record, HeaderHasOneColumnPerCell) {
  EXPECT_EQ(common::Split(TrialsFile().header, ',').size(),
            common::Split(ToRow(SomeTrial()), ',').size());
  EXPECT_EQ(common::Split(StepsFile().header, ',').size(),
            common::Split(ToRow(StepRecord{1, 2, 0.5}), ',').size());
  EXPECT_EQ(common::Split(FitsFile().header, ',').size(),
            common::Split(ToRow(FitRecord{1, "a", "b", 0.5}), ',').size());
  EXPECT_EQ(common::Split(ThinkingFile().header, ',').size(),
            common::Split(ToRow(ThinkingRecord{1, 2, 3}), ',').size());
}

TEST_F(RecordFiles, IncompleteLastLineIsDropped) {
  const std::string row = ToRow(SomeTrial());
  for (std::size_t length = 0; length <= row.size(); ++length) {
    WriteTrials(row + "\n" + row.substr(0, length));
    EXPECT_EQ(ReadTrials(folder_).size(), 1U) << length;
  }
}

TEST_F(RecordFiles, DamagedLineIsNamedByFileAndLine) {
  WriteTrials("1,2,3\n");
  try {
    (void)ReadTrials(folder_);
    FAIL() << "a row of three cells was accepted";
  } catch (const common::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("trials.csv:3:"), std::string::npos)
        << e.what();
  }
}

TEST_F(RecordFiles, MissingFileIsNoRows) {
  EXPECT_TRUE(ReadSteps(folder_).empty());
}

TEST_F(RecordFiles, InfoFilesReadBack) {
  ProblemInfo problem;
  problem.name = "p";
  problem.optimum_steps_per_s = 0.446;
  Write(folder_, problem);
  const ProblemInfo read = ReadProblemInfo(folder_);
  EXPECT_EQ(read.optimum_steps_per_s, 0.446);
  EXPECT_TRUE(std::isnan(read.time_budget_s));

  ExperimentInfo experiment;
  experiment.name = "e";
  experiment.problems = {""};
  experiment.methods = {{"oppa", "OPPA"}};
  Write(folder_, experiment);
  EXPECT_EQ(ReadExperimentInfo(folder_).methods.at(0).label, "OPPA");

  RunInfo run;
  run.seed = 0xffffffffffffffffU;
  run.finished = true;
  Write(folder_, run);
  EXPECT_EQ(ReadRunInfo(folder_).seed, run.seed);
  EXPECT_TRUE(ReadRunInfo(folder_).finished);
}

}  // namespace
}  // namespace trials
