#include "trials/record.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/hash.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::record_test {

using ::testing::HasSubstr;

Trial SomeTrial() {
  Trial trial;
  trial.number = 3;
  trial.candidate = 17;
  trial.config = ParseParallelConfig(
      "dp=4,pp=2,zero_stage=1,microbatches=8,overlap_zero_comm=0");
  trial.measurement.outcome = Outcome::kTerminatedEarly;
  trial.steps = 5;
  trial.throughput.steps_per_s = 0.1 + 0.2;
  trial.throughput.variance = 1e-300;
  trial.measurement.setup_s = 1.0 / 3.0;
  trial.measurement.duration_s = 2.0 / 3.0;
  trial.elapsed_s = 100.1;
  trial.chosen_by = ChosenBy::kModel;
  trial.measurement.message = "a, b\nc";
  return trial;
}

class RecordFiles : public testing::Test {
 protected:
  void WriteTrials(const std::string& tail) {
    std::ofstream(folder_.path() / "trials.csv")
        << FileOf<Trial>().header << tail;
  }

  fakes::TemporaryFolder folder_;
};

TEST(Record, TrialRowReadsBackBitForBit) {
  const Trial written = SomeTrial();
  const Trial read = ParseRow<Trial>(ToRow(written));
  EXPECT_EQ(read.config, written.config);
  EXPECT_EQ(read.throughput.steps_per_s, written.throughput.steps_per_s);
  EXPECT_FALSE(read.measurement.peak_memory_bytes);
  EXPECT_TRUE(std::isnan(read.incumbent_steps_per_s));
  EXPECT_EQ(read.measurement.message, "a; b c");
  EXPECT_EQ(ToRow(read), ToRow(written));
}

TEST(Record, ColumnsAreThoseOfTheRecordFormat) {
  EXPECT_EQ(FileOf<Trial>().header,
            "# oppa trials 1\n"
            "trial,candidate,dp,tp,pp,dp_bucket_mb,zero_stage,zero_bucket_mb,"
            "overlap_zero_comm,overlap_zero_allgather,microbatches,"
            "model_chunks,overlap_p2p,grad_checkpoint,micro_batch_size,ep,cp,"
            "sp,dp_replicate,etp,torch_compile,outcome,steps,throughput_steps_"
            "per_s,throughput_variance,"
            "peak_memory_bytes,setup_s,duration_s,elapsed_s,"
            "incumbent_steps_per_s,exact_steps_per_s,chosen_by,message,check"
            "\n");
  EXPECT_EQ(FileOf<StepRecord>().header,
            "# oppa steps 1\ntrial,step,step_time_s,check\n");
  EXPECT_EQ(FileOf<FitRecord>().header,
            "# oppa fits 1\ntrial,surrogate,parameter,value,check\n");
  EXPECT_EQ(FileOf<SuggestionTime>().header,
            "# oppa thinking 1\ntrial,wall_s,cpu_s,check\n");
  EXPECT_EQ(FileOf<PlanRecord>().header, "# oppa plans 1\ntrial,plan,check\n");
}

TEST(Record, ATrialIsMadeAsItIsReadBack) {
  Measurement measurement{.outcome = Outcome::kFailed,
                          .step_times_s = {0.5, 0.25, 0.3},
                          .peak_memory_bytes = kUnknown,
                          .setup_s = 0.1,
                          .message = "a, b\nc"};
  const Trial made = MakeTrial(3, ParallelConfig{.dp = 2}, measurement);
  const Trial read = ParseRow<Trial>(ToRow(made));
  EXPECT_EQ(read.measurement.message, made.measurement.message);
  EXPECT_EQ(read.measurement.peak_memory_bytes,
            made.measurement.peak_memory_bytes);
  EXPECT_EQ(read.throughput.steps_per_s, made.throughput.steps_per_s);
  EXPECT_EQ(read.steps, 3);
}

TEST(Record, FlipOfAnyBitOfARowIsFound) {
  const std::string row = ToRow(SomeTrial());
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = row;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_THROW((void)ParseRow<Trial>(damaged), common::InputError) << i;
    }
  }
}

TEST_F(RecordFiles, ATrialOfAPlanIsLabelledByItsPlan) {
  Trial trial = SomeTrial();
  EXPECT_EQ(CandidateLabel(trial), ToString(trial.config));
  trial.number = 1;
  WriteTrials(ToRow(trial) + "\n");
  EXPECT_EQ(ReadTrials(folder_.path()).at(0).plan, "");
  std::ofstream(folder_.path() / "plans.csv")
      << FileOf<PlanRecord>().header
      << ToRow(PlanRecord{1, "dp=4,pp=2|dp=2,tp=2"}) << "\n"
      << ToRow(PlanRecord{2, "of a trial that is not committed"}) << "\n";
  const Trial read = ReadTrials(folder_.path()).at(0);
  EXPECT_EQ(read.config, trial.config);
  EXPECT_EQ(CandidateLabel(read), "dp=4;pp=2|dp=2;tp=2");
}

TEST_F(RecordFiles, IncompleteLastLineIsDropped) {
  const std::string row = ToRow(SomeTrial());
  for (std::size_t length = 0; length <= row.size(); ++length) {
    WriteTrials(row + "\n" + row.substr(0, length));
    EXPECT_EQ(ReadTrials(folder_.path()).size(), 1U) << length;
  }
}

TEST_F(RecordFiles, DamagedLineIsNamedByFileAndLine) {
  WriteTrials("1,2,3\n");
  EXPECT_THAT(fakes::ErrorOf([&] { return ReadTrials(folder_.path()); }),
              HasSubstr("trials.csv:3:"));
}

TEST_F(RecordFiles, MissingFileIsNoRows) {
  EXPECT_TRUE(ReadRows<StepRecord>(folder_.path()).records.empty());
}

TEST_F(RecordFiles, InfoFilesReadBack) {
  Write(folder_.path(), ProblemInfo{.optimum_steps_per_s = 0.446});
  const ProblemInfo problem = ReadProblemInfo(folder_.path());
  EXPECT_EQ(problem.optimum_steps_per_s, 0.446);
  EXPECT_TRUE(std::isnan(problem.time_budget_s));
  ExperimentInfo experiment;
  experiment.problems = {""};
  experiment.methods = {{"oppa", "OPPA"}, {"bare", "OPPA, bare", "oppa"}};
  Write(folder_.path(), experiment);
  const auto methods = ReadExperimentInfo(folder_.path()).methods;
  EXPECT_FALSE(methods.at(0).family);
  EXPECT_EQ(methods.at(1).family, "oppa");
  RunInfo run;
  run.seed = 0xffffffffffffffffU;
  run.finish_reason = FinishReason::kMethodDone;
  Write(folder_.path(), run);
  EXPECT_EQ(ReadRunInfo(folder_.path()).seed, run.seed);
  EXPECT_EQ(ReadRunInfo(folder_.path()).finish_reason,
            FinishReason::kMethodDone);
}

// A line that a crash has left is dropped where that is asked for, but not one
// that has others after it.
TEST_F(RecordFiles, OnlyADamagedEndIsDropped) {
  const std::string row = ToRow(Trial{.number = 1}) + "\n";
  const std::string text = FileOf<Trial>().header + row;
  fakes::WriteFile(folder_.path() / "trials.csv", text + "damaged\n");
  EXPECT_EQ(ReadRows<Trial>(folder_.path(), true).records.size(), 1u);
  EXPECT_THROW((void)ReadRows<Trial>(folder_.path(), false),
               common::InputError);
  fakes::WriteFile(folder_.path() / "trials.csv", text + "damaged\n\n");
  EXPECT_THROW((void)ReadRows<Trial>(folder_.path(), true), common::InputError);
  fakes::WriteFile(folder_.path() / "trials.csv", text + "damaged\n" + row);
  EXPECT_THROW((void)ReadRows<Trial>(folder_.path(), true), common::InputError);
}

// Other problems have no such key.
TEST_F(RecordFiles, OnlyAProblemWithPricesHasMoney) {
  const auto has_money = [this] {
    return fakes::ReadFile(folder_.path() / "problem.json").find("money") !=
           std::string::npos;
  };
  ProblemInfo problem;
  Write(folder_.path(), problem);
  EXPECT_FALSE(has_money());
  EXPECT_FALSE(ReadProblemInfo(folder_.path()).trade_off.has_value());
  problem.trade_off.emplace();
  Write(folder_.path(), problem);
  EXPECT_TRUE(has_money());
  EXPECT_TRUE(ReadProblemInfo(folder_.path()).trade_off.has_value());
}

// Two columns of one's own, and two cells too few.
TEST_F(RecordFiles, ARowWithMissingCellsIsAnErrorWithBothNumbers) {
  Trial trial = SomeTrial();
  trial.custom = {{"a", "1"}, {"b", "2"}};
  const auto columns = [](const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), ','));
  };
  const std::string header = TrialsHeader({{"a", "b"}});
  const std::string without = ToRow(SomeTrial());
  ASSERT_EQ(columns(header), columns(without) + 2);
  fakes::WriteFile(folder_.path() / "trials.csv", header + without + "\n");
  EXPECT_THAT(fakes::ErrorOf([&] { return ReadTrials(folder_.path()); }),
              HasSubstr(std::to_string(columns(without)) + " cells where " +
                        std::to_string(columns(header)) + " are expected"));
}

TEST(Record, ACellOfANumberHasNothingElse) {
  const auto row = [](const std::string& body) {
    return fmt::format("{},{:08x}", body, common::RowCheck(body));
  };
  EXPECT_EQ(ParseRow<StepRecord>(row("12,3,0.5")).trial, 12);
  EXPECT_EQ(ParseRow<StepRecord>(row("12,3,0.5")).step, 3);
  for (const char* body :
       {"12x,3,0.5", "x,3,0.5", ",3,0.5", "99999999999,3,0.5", "12,3,0.5x",
        "12,3", "12,3,0.5,1"}) {
    EXPECT_THROW((void)ParseRow<StepRecord>(row(body)), common::InputError)
        << body;
  }
}

// As a file has it that was written before the knobs cp and sp were added.
TEST_F(RecordFiles, AKnobWithoutAColumnHasItsDefault) {
  std::string header = FileOf<Trial>().header;
  const std::string absent = ",cp,sp,dp_replicate,etp,torch_compile";
  header.erase(header.find(absent), absent.size());
  std::string row = ToRow(SomeTrial());
  row.resize(row.rfind(','));
  row.erase(row.find(",1,1,1,0,0,terminated"),
            std::string(",1,1,1,0,0").size());
  fakes::WriteFile(
      folder_.path() / "trials.csv",
      fmt::format("{}{},{:08x}\n", header, row, common::RowCheck(row)));
  const Rows<Trial> rows = ReadRows<Trial>(folder_.path());
  ASSERT_EQ(rows.records.size(), 1U);
  EXPECT_EQ(ToRow(rows.records.front()), ToRow(SomeTrial()));
  EXPECT_EQ(rows.columns.absent,
            (std::vector<std::string>{"cp", "sp", "dp_replicate", "etp",
                                      "torch_compile"}));
}

TEST(Record, ALikelyAssumptionIsThatOfTheLastTrial) {
  std::vector<FitRecord> fits = {
      {1, "throughput", "share[links within hosts x 0.25]", 0.9},
      {2, "throughput", "share[links within hosts x 0.25]", 0.2},
      {2, "throughput", "share[links between hosts x 0.0625]", 0.7},
      {2, "memory", "signal_stddev", 3.0}};
  const auto likely = LikelyAssumptionOf(fits);
  ASSERT_TRUE(likely);
  EXPECT_EQ(likely->assumption, "links between hosts x 0.0625");
  EXPECT_EQ(likely->probability, 0.7);
  fits[2].value = 0.45;
  EXPECT_FALSE(LikelyAssumptionOf(fits));
  EXPECT_FALSE(LikelyAssumptionOf({}));
}

// A header that has neither the columns nor one's own in their place.
TEST_F(RecordFiles, OtherHeadersAreRefused) {
  const std::string row = ToRow(Trial{.number = 1}) + "\n";
  const std::string plain = FileOf<Trial>().header;
  const std::size_t outcome = plain.find(",outcome,");
  const auto with = [&](std::size_t at, const std::string& text) {
    return plain.substr(0, at) + text + plain.substr(at);
  };
  for (const std::string& header :
       {std::string("trial,candidate\n"), with(plain.size() - 1, ",more"),
        with(0, "# first\n"), with(plain.find('\n') + 1, "own,"),
        plain.substr(0, outcome) + "\n", plain.substr(outcome)}) {
    fakes::WriteFile(folder_.path() / "trials.csv", header + row);
    EXPECT_THROW((void)ReadTrials(folder_.path()), common::InputError)
        << header;
  }
}

}  // namespace trials::record_test
