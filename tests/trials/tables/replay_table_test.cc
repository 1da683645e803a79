#include "trials/tables/replay_table.h"

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/trials/tables/table_file.h"

namespace trials::replay_table_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kHeader =
    "scenario,gpus,dp,tp,pp,zero_stage,micro_batch_size,microbatches,status,"
    "step_time_s,peak_memory_gb\n";

class ReplayTableTest : public TableFile {
 protected:
  [[nodiscard]] std::string Error(const std::string& text,
                                  const std::string& scenario = "a") const {
    return fakes::ErrorOf(
        [&] { return ReplayTable::Read(Write(text), scenario); });
  }
};

TEST_F(ReplayTableTest, ReadsTheRowsOfOneScenario) {
  const auto path = Write(kHeader +
                          "a,8,4,1,2,1,2,8,ok,1.5,20.5\n"
                          "b,4,4,1,1,0,1,1,ok,9,1\n"
                          "a,8,8,1,1,0,4,8,oom,,\n"
                          "a,8,2,4,1,0,4,8,ok,2,\n");
  const ReplayTable table = ReplayTable::Read(path, "a");
  EXPECT_EQ(table.scenario(), "a");
  EXPECT_EQ(table.gpus(), 8);
  ASSERT_EQ(table.rows().size(), 3U);
  EXPECT_EQ(table.rows()[0].candidate.config(),
            (ParallelConfig{.dp = 4,
                            .pp = 2,
                            .zero_stage = 1,
                            .microbatches = 8,
                            .micro_batch_size = 2}));
  EXPECT_DOUBLE_EQ(table.rows()[0].step_time_s, 1.5);
  EXPECT_DOUBLE_EQ(*table.rows()[0].peak_memory_bytes, 20.5e9);
  EXPECT_TRUE(table.rows()[1].out_of_memory);
  EXPECT_TRUE(std::isnan(table.rows()[1].step_time_s));
  EXPECT_FALSE(table.rows()[2].peak_memory_bytes.has_value());
  EXPECT_EQ(table.configs().size(), 3U);
  EXPECT_EQ(table.Warning(), "");
  EXPECT_THAT(ScenarioNames(path), ElementsAre("a", "b"));
}

TEST_F(ReplayTableTest, RowsOfOneScenarioAreOfOneJob) {
  const std::string header =
      "scenario,gpus,dp,tp,pp,batch_size,seq_len,status,step_time_s\n";
  EXPECT_EQ(Error(header + "a,8,8,1,1,64,1024,ok,1\nb,8,8,1,1,8,1024,ok,0.2\n"),
            "no error");
  EXPECT_THAT(
      Error(header + "a,8,8,1,1,64,1024,ok,1\na,8,4,2,1,8,1024,ok,0.2\n"),
      HasSubstr("3: global_batch_size is 8, and 64 on line 2: make each a "
                "scenario of its own"));
  EXPECT_THAT(Error(header + "a,8,8,1,1,64,1024,ok,1\na,8,4,2,1,64,512,oom,\n"),
              HasSubstr("sequence_length is 512, and 1024 on line 2"));
}

TEST_F(ReplayTableTest, TokensPerSecondNeedTheStepOfTheWorkload) {
  const auto path = Write(
      "scenario,gpus,dp,tp,pp,status,tokens_per_s\na,8,8,1,1,ok,131072\n");
  EXPECT_THAT(fakes::ErrorOf([&] { return ReplayTable::Read(path, "a"); }),
              HasSubstr("needs the batch and the sequence length"));
  EXPECT_DOUBLE_EQ(ReplayTable::Read(path, "a", BuiltInKnobs(), {64.0, 1024.0})
                       .rows()
                       .at(0)
                       .step_time_s,
                   0.5);
}

TEST_F(ReplayTableTest, ColumnsComeInAnyOrderAndUnderTheirAliases) {
  const ReplayTable table = ReplayTable::Read(
      Write("step_time_s,pp, status ,mb,tp,gradient_checkpointing,dp,gpus,"
            "scenario,dp_bucket_mb,sequence_parallel\n"
            "0.25, 2 ,ok,16,2,True,2,8,a,,1\n"
            "0.5,2,ok,16.0,1,0,4,8,a,64,false\n"),
      "a");
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_EQ(table.rows()[0].candidate.config(),
            (ParallelConfig{.dp = 2,
                            .tp = 2,
                            .pp = 2,
                            .microbatches = 16,
                            .grad_checkpoint = true,
                            .sp = 2}));
  EXPECT_EQ(table.rows()[1].candidate.config(),
            (ParallelConfig{
                .dp = 4, .pp = 2, .dp_bucket_mb = 64, .microbatches = 16}));
  EXPECT_DOUBLE_EQ(table.rows()[1].step_time_s, 0.5);
}

TEST_F(ReplayTableTest, SpIsASizeAndAColumnOfFlagsHasAnotherName) {
  const std::string header = "scenario,gpus,dp,tp,pp,status,step_time_s,";
  const ReplayTable table = ReplayTable::Read(
      Write(header + "sp\na,8,8,1,1,ok,1,1\na,8,1,1,1,ok,1,8\n"
                     "a,8,4,2,1,ok,1,\n"),
      "a");
  EXPECT_EQ(table.rows()[0].candidate.config(), (ParallelConfig{.dp = 8}));
  EXPECT_EQ(table.rows()[1].candidate.config(), (ParallelConfig{.sp = 8}));
  EXPECT_EQ(table.rows()[2].candidate.config(),
            (ParallelConfig{.dp = 4, .tp = 2}));
  EXPECT_THAT(Error(header + "sp\na,8,4,2,1,ok,1,0\n"),
              AllOf(HasSubstr(":2: invalid value '0' for sp"),
                    HasSubstr("the flag is sequence_parallel")));
  EXPECT_THAT(Error(header + "sp,sequence_parallel\na,8,4,2,1,ok,1,2,1\n"),
              HasSubstr("'sp' and 'sequence_parallel' are the same field"));
}

TEST_F(ReplayTableTest, UnknownColumnsAreLeftOutWithAWarning) {
  const ReplayTable table = ReplayTable::Read(
      Write("scenario,gpus,dp,tp,pp,status,step_time_s,colour,weather\n"
            "a,2,2,1,1,ok,1,\"red, dark\",wet\n"),
      "a");
  EXPECT_THAT(table.Warning(),
              AllOf(HasSubstr("table.csv"), HasSubstr("colour, weather")));
  EXPECT_EQ(table.rows().size(), 1U);
}

TEST_F(ReplayTableTest, WhatMakesItDoubtfulIsAWarning) {
  const auto warning = [&](const std::string& rows) {
    return ReplayTable::Read(Write(kHeader + rows), "a").Warning();
  };
  const std::string first = "a,8,8,1,1,0,1,2,ok,3,10\n";  // 16 sequences
  EXPECT_EQ(warning(first + "a,8,4,2,1,0,2,2,ok,3,\na,8,4,2,1,0,1,1,oom,,\n"),
            "");
  EXPECT_THAT(warning(first + "a,8,4,2,1,0,2,1,ok,2,10\n"),
              HasSubstr("micro_batch_size is from 8 to 16, and a step of fewer "
                        "sequences counts as a faster one"));
  EXPECT_THAT(warning(first + "a,8,4,2,1,0,2,2,ok,3,\na,8,4,2,1,0,2,2,oom,,\n"),
              HasSubstr("ran and failed count as those that run: 1, the first "
                        "on line 3"));
  EXPECT_THAT(warning(first + "a,8,4,1,1,0,2,2,ok,3,\n"),
              HasSubstr("GPUs are not dp * tp * pp * cp: 1, the first on line "
                        "3"));
}

TEST_F(ReplayTableTest, RepeatedRowsAreOneCandidateWithTheirMedian) {
  const ReplayTable table =
      ReplayTable::Read(Write(kHeader + "a,8,8,1,1,0,1,1,ok,3,10\n"
                                        "a,8,4,2,1,0,1,1,oom,,\n"
                                        "a,8,8,1,1,0,1,1,ok,1,12\n"
                                        "a,8,8,1,1,0,1,1,oom,,\n"
                                        "a,8,4,2,1,0,1,1,oom,,\n"
                                        "a,8,8,1,1,0,1,1,ok,7,11\n"
                                        "a,8,2,4,1,0,1,1,ok,2,\n"
                                        "a,8,2,4,1,0,1,1,ok,3,\n"),
                        "a");
  ASSERT_EQ(table.rows().size(), 3U);
  EXPECT_FALSE(table.rows()[0].out_of_memory);  // it ran three times of four
  EXPECT_DOUBLE_EQ(table.rows()[0].step_time_s, 3.0);
  EXPECT_DOUBLE_EQ(*table.rows()[0].peak_memory_bytes, 12e9);
  EXPECT_EQ(table.rows()[0].measurements, 4);
  EXPECT_TRUE(table.rows()[1].out_of_memory);
  EXPECT_DOUBLE_EQ(table.rows()[2].step_time_s, 2.5);
}

TEST_F(ReplayTableTest, ByteOrderMarkWindowsLinesAndCommentsAreUnderstood) {
  const ReplayTable table = ReplayTable::Read(
      Write("\xEF\xBB\xBF# from a paper\r\nscenario,gpus,dp,tp,pp,status,"
            "step_time_s\r\n\r\na,2,2,1,1,ok,1\r\n# end\r\na,2,1,2,1,ok,2"),
      "a");
  ASSERT_EQ(table.rows().size(), 2U);
  EXPECT_DOUBLE_EQ(table.rows()[1].step_time_s, 2.0);
}

TEST_F(ReplayTableTest, ARowOfAPlanIsCheckedWithItsLine) {
  const std::string header =
      "scenario,gpus,dp,tp,pp,status,step_time_s,plan\n"
      "a,8,8,1,1,ok,1,\n";
  EXPECT_EQ(Error(header + "a,8,,,,ok,1,2x layers=4 dp=4 tp=1\n"), "no error");
  EXPECT_THAT(
      Error(header + "a,8,8,,,ok,1,2x layers=4 dp=4 tp=1\n"),
      AllOf(HasSubstr("table.csv:3: "), HasSubstr("leave the cell 'dp'")));
  EXPECT_THAT(
      Error(header + "a,8,,,,ok,1,2x layers=4 dp=2 tp=1\n"),
      HasSubstr("table.csv:3: the stages of the plan have 4 GPUs, and the "
                "row 8"));
  EXPECT_THAT(Error(header + "a,8,,,,ok,1,layers=four\n"),
              HasSubstr("table.csv:3: plan: "));
  EXPECT_THAT(Error("scenario,gpus,dp,tp,pp,status,step_time_s,plan\n"
                    "a,8,,,,ok,1,2x layers=4 dp=4 tp=1\n"),
              HasSubstr("table.csv:2: the scenario a has plans only"));
}

TEST_F(ReplayTableTest, MissingOrRepeatedColumnsAreErrors) {
  EXPECT_THAT(
      Error("scenario,gpus,dp,tp,status,step_time_s\n"),
      AllOf(StartsWith((folder_.path() / "table.csv").string() + ":1: "),
            HasSubstr("the column 'pp' is missing"),
            HasSubstr("scenario, gpus, dp, tp, status")));
  EXPECT_THAT(Error("scenario,gpus,dp,tp,pp,step_time_s\n"),
              HasSubstr("the column 'status' is missing"));
  EXPECT_THAT(Error("scenario,gpus,dp,tp,pp,mb,microbatches,status,"
                    "step_time_s\n"),
              HasSubstr("'mb' and 'microbatches' are the same field"));
  EXPECT_THAT(Error("scenario,gpus,gpus\n"), HasSubstr("comes twice"));
  EXPECT_THAT(Error(""), HasSubstr("the header line is missing"));
}

TEST_F(ReplayTableTest, BadCellsAreErrorsWithFileAndLine) {
  const auto error = [&](const std::string& row) {
    return Error(kHeader + "a,8,4,1,2,1,2,8,ok,1.5,\n" + row + "\n");
  };
  const std::string place = (folder_.path() / "table.csv").string() + ":3: ";
  EXPECT_THAT(
      error("a,8,four,1,2,1,2,8,ok,1.5,"),
      AllOf(StartsWith(place), HasSubstr("invalid value 'four' for dp")));
  EXPECT_THAT(error("a,8,,1,2,1,2,8,ok,1.5,"),
              HasSubstr("invalid value '' for dp"));
  EXPECT_THAT(error("a,8,4,1,2,5,2,8,ok,1.5,"), HasSubstr("zero_stage"));
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,ok,,"),
              HasSubstr("a row that ran needs a step time or a throughput"));
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,ok,-1,"), HasSubstr("not '-1'"));
  for (const char* time : {"0.9e-6", "1.1e6"}) {
    EXPECT_THAT(error(std::string("a,8,4,1,2,1,2,8,ok,") + time + ","),
                HasSubstr("the step time must be from 1e-06 to 1e+06 s"));
  }
  for (const char* gpus : {"8.5", "3e9"}) {
    EXPECT_THAT(error(std::string("a,") + gpus + ",4,1,2,1,2,8,ok,1,"),
                HasSubstr("gpus must be an integer"));
  }
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,OOM?,1,"),
              HasSubstr("status: unknown name 'OOM?'"));
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,ok,1,x"), HasSubstr("peak_memory_gb"));
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,ok"),
              AllOf(StartsWith(place), HasSubstr("9 cells where the header")));
  EXPECT_THAT(error("a,16,4,1,2,1,2,8,ok,1,"), HasSubstr("16 GPUs"));
  EXPECT_THAT(error("a,8,4,1,2,1,2,8,\"ok,1,"), HasSubstr("quote"));
}

TEST_F(ReplayTableTest, AScenarioMayHaveSeveralNumbersOfGpus) {
  const auto read = [&](const std::string& more) {
    return ReplayTable::Read(
        Write(kHeader + "a,8,4,1,2,1,2,8,ok,1.5,\n" + more), "a");
  };
  const ReplayTable table =
      read("a,16,8,1,2,1,2,8,ok,1,\na,4,2,1,2,1,2,8,oom,,\n");
  EXPECT_THAT(table.sizes(), testing::ElementsAre(4, 8, 16));
  EXPECT_EQ(table.gpus(), 16);
  // Idle GPUs, or a group that no column shows: only with one number.
  EXPECT_THAT(read("").sizes(), testing::ElementsAre(8));
  EXPECT_EQ(
      ReplayTable::Read(Write(kHeader + "a,16,4,1,2,1,2,8,ok,1.5,\n"), "a")
          .gpus(),
      16);
  EXPECT_THAT(
      Error(kHeader + "a,16,4,1,2,1,2,8,ok,1.5,\na,8,4,1,2,1,2,8,ok,1,\n"),
      AllOf(HasSubstr(":3: "), HasSubstr("that of line 2 does not use")));
}

TEST_F(ReplayTableTest, UnknownScenarioAndMissingFileAreErrors) {
  EXPECT_THAT(Error(kHeader + "llama-8,8,4,1,2,1,2,8,ok,1.5,\n", "lama-8"),
              AllOf(HasSubstr("no scenario 'lama-8'"),
                    HasSubstr("did you mean 'llama-8'?")));
  EXPECT_THROW((void)ReplayTable::Read(folder_.path() / "nope.csv", "a"),
               common::InputError);
}

// Of the first stage, with the sizes of all stages that they share.
TEST_F(ReplayTableTest, ARowOfAPlanHasTheConfigurationOfItsFirstStage) {
  const ReplayTable table = ReplayTable::Read(
      Write("scenario,gpus,dp,tp,pp,status,step_time_s,plan\n"
            "a,8,8,1,1,ok,1,\n"
            "a,8,,,,ok,2,microbatches=4 / layers=3 dp=4 / layers=5 dp=2 tp=2"
            "\n"),
      "a");
  ASSERT_EQ(table.plans().size(), 1U);
  EXPECT_EQ(ToString(table.plans()[0].candidate.config()),
            "dp=4,tp=1,pp=2,microbatches=4");
}

}  // namespace trials::replay_table_test
