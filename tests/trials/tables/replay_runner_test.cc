#include "trials/tables/replay_runner.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/trials/tables/table_file.h"

namespace trials::replay_runner_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ParallelConfig kFast{.dp = 4, .pp = 2};
const ParallelConfig kTooBig{.dp = 8};

class ReplayRunnerTest : public TableFile {
 protected:
  [[nodiscard]] ReplayRunner Runner() const {
    return ReplayRunner(
        ReplayTable::Read(
            Write("scenario,gpus,dp,tp,pp,status,step_time_s,peak_memory_gb\n"
                  "a,8,4,1,2,ok,0.5,20\n"
                  "a,8,8,1,1,oom,,\n"
                  "a,8,2,4,1,ok,2,\n"),
            "a"),
        {.setup_s = 10.0, .failure_s = 5.0});
  }
};

TEST_F(ReplayRunnerTest, EveryStepTakesTheMeasuredTime) {
  ReplayRunner runner = Runner();
  const Measurement result = runner.Run({.candidate = kFast, .max_steps = 3});
  EXPECT_EQ(result.outcome, Outcome::kCompleted);
  EXPECT_THAT(result.step_times_s, ElementsAre(0.5, 0.5, 0.5));
  EXPECT_DOUBLE_EQ(*result.peak_memory_bytes, 20e9);
  EXPECT_DOUBLE_EQ(result.setup_s, 10.0);
  EXPECT_DOUBLE_EQ(result.duration_s, 11.5);
}

TEST_F(ReplayRunnerTest, OutOfMemoryCostsTheSetUpAndTheFailure) {
  ReplayRunner runner = Runner();
  const Measurement result = runner.Run({.candidate = kTooBig, .max_steps = 3});
  EXPECT_EQ(result.outcome, Outcome::kOutOfMemory);
  EXPECT_TRUE(result.step_times_s.empty());
  EXPECT_FALSE(result.peak_memory_bytes.has_value());
  EXPECT_DOUBLE_EQ(result.duration_s, 15.0);
}

TEST_F(ReplayRunnerTest, AConfigurationOutsideTheTableFails) {
  ReplayRunner runner = Runner();
  const Measurement result =
      runner.Run({.candidate = ParallelConfig{.tp = 8}, .max_steps = 3});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.message, HasSubstr("dp=1,tp=8,pp=1 is not in the table"));
  EXPECT_DOUBLE_EQ(result.duration_s, 10.0 + 5.0);
}

TEST_F(ReplayRunnerTest, ExactThroughputIsTheInverseOfTheStepTime) {
  const ReplayRunner runner = Runner();
  EXPECT_EQ(runner.ExactThroughput(kFast), 2.0);
  EXPECT_EQ(runner.ExactThroughput(kTooBig), 0.0);
  EXPECT_EQ(runner.ExactThroughput(ParallelConfig{.tp = 8}), std::nullopt);
}

TEST_F(ReplayRunnerTest, PlansAreMeasuredByTheirOwnRowsAndAreNoCandidates) {
  ReplayRunner runner(
      ReplayTable::Read(
          Write("scenario,gpus,dp,tp,pp,status,step_time_s,peak_memory_gb,"
                "plan\n"
                "a,8,4,1,2,ok,0.5,20,\n"
                "a,8,,,,ok,0.5,30,microbatches=4 / layers=3 dp=4 tp=1 / "
                "layers=5 dp=2 tp=2\n"
                "a,8,,,,ok,0.25,,microbatches=4 / layers=3 dp=4 tp=1 / "
                "layers=5 dp=2 tp=2\n"
                "a,8,,,,oom,,,2x layers=4 dp=4 tp=1\n"),
          "a"),
      {.setup_s = 10.0, .failure_s = 5.0});
  EXPECT_EQ(runner.space().size(), 1);
  Plan plan;
  FromText("microbatches=4 / layers=3 dp=4 tp=1 / layers=5 dp=2 tp=2", plan);
  const Measurement result = runner.Run({.candidate = plan, .max_steps = 2});
  EXPECT_EQ(result.outcome, Outcome::kCompleted);
  EXPECT_THAT(result.step_times_s, ElementsAre(0.375, 0.375));  // the median
  EXPECT_EQ(result.peak_memory_bytes, 30e9);
  EXPECT_DOUBLE_EQ(*runner.ExactThroughput(plan), 1.0 / 0.375);
  FromText("2x layers=4 dp=4 tp=1", plan);
  EXPECT_EQ(runner.Run({.candidate = plan}).outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(runner.ExactThroughput(plan), 0.0);
  // Nearly that of a row: it says which plan has none.
  FromText("microbatches=4 / layers=4 dp=4 tp=1 / layers=4 dp=2 tp=2", plan);
  const Measurement unknown = runner.Run({.candidate = plan});
  EXPECT_EQ(unknown.outcome, Outcome::kFailed);
  EXPECT_THAT(unknown.message,
              HasSubstr(ToString(plan) + " is not in the table's scenario a"));
  EXPECT_FALSE(runner.ExactThroughput(plan));
}

TEST_F(ReplayRunnerTest, ATableWithoutPlansRefusesThem) {
  ReplayRunner runner = Runner();
  EXPECT_THROW((void)runner.Run({.candidate = UniformPlan(kFast, 4)}),
               std::logic_error);
}

TEST_F(ReplayRunnerTest, NegativeCostsAreRefused) {
  const ReplayTable table = Runner().table();
  EXPECT_THROW(ReplayRunner(table, {.setup_s = -1e-9}), common::InputError);
  EXPECT_THROW(ReplayRunner(table, {.failure_s = -1e-9}), common::InputError);
  EXPECT_NO_THROW(ReplayRunner(table, {.setup_s = 0.0, .failure_s = 0.0}));
}

}  // namespace trials::replay_runner_test
