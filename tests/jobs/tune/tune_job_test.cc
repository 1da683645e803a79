#include "jobs/tune/tune_job.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/jobs/tune/tune_job_fixture.h"

namespace jobs::tune_job_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trials::Measurement;
using trials::Outcome;

class JobTest : public TuneJobTest {};

TEST_F(JobTest, TakesOneSearchWithAProgram) {
  const std::string text = ToText(DraftManifest(options_));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    Write("other.toml", changed.replace(text.find(from), from.size(), to));
    return fakes::ErrorOf([&] { return ReadSearch(Path("other.toml")); });
  };
  EXPECT_EQ(with("[budget]", "[budget]"), "no error");
  EXPECT_THAT(with("[\"oppa-sim\"]", "[\"oppa-sim\", \"random\"]"),
              HasSubstr("`oppa tune` takes one search"));
  EXPECT_THAT(with("[backend]", "repeats = 2\n[backend]"),
              HasSubstr("one problem, one method, repeats = 1"));
}

TEST_F(JobTest, OnlyServeTakesTheTrialsOfAClient) {
  std::string text(fakes::kWorkload);
  text.append(fakes::kCluster)
      .append(
          "[backend]\ntype = \"client\"\n[experiment]\nmethods = "
          "[\"random\"]\n[space]\nrule_sets = [\"colossalai\"]\n[budget]\n"
          "trials = 3\nq_max = 2\n");
  Write("client.toml", text);
  const auto problem = [&](bool clients) {
    return fakes::ErrorOf(
        [&] { return ReadSearch(Path("client.toml"), {}, clients); });
  };
  EXPECT_THAT(problem(false), HasSubstr("type = \"command\")"));
  EXPECT_EQ(problem(true), "no error");
}

TEST_F(JobTest, ComparesWithTheFirstStart) {
  EXPECT_EQ(Job().Text(*Job().Present()), "dp=2,tp=1,pp=1,microbatches=8");
  EXPECT_EQ(Job().First(), *Job().Present());
  options_.start = "";
  EXPECT_FALSE(Job().Present().has_value());
  EXPECT_EQ(job_->First().dp, 2) << "the plainest data parallelism";
  EXPECT_EQ(job_->First().tp, 1);
}

TEST_F(JobTest, DescribesAMeasurementInALine) {
  const TuneJob& job = Job();
  Measurement measured;
  measured.outcome = Outcome::kCompleted;
  measured.step_times_s = {0.9, 0.25, 0.25, 0.25};
  EXPECT_EQ(job.Describe(measured), "0.25 s a step, 4,096 tokens/s");
  measured.peak_memory_bytes = 3.1e9;
  EXPECT_EQ(job.Describe(measured), "0.25 s a step, 4,096 tokens/s, 3.10 GB");
  measured.outcome = Outcome::kTerminatedEarly;
  EXPECT_THAT(job.Describe(measured),
              HasSubstr("3.10 GB, slower: stopped after 4 steps"));
  EXPECT_EQ(job.Describe({.outcome = Outcome::kOutOfMemory,
                          .step_times_s = {},
                          .peak_memory_bytes = {},
                          .message = "8 GB are too few"}),
            "out of memory: 8 GB are too few");
}

TEST_F(JobTest, SaysWhatAStepCostsWhereThePriceOrThePowerIsKnown) {
  EXPECT_TRUE(Job().CostOf(1.0).empty());
  options_.price = 3.6;  // 0.002 USD a second of two GPUs
  EXPECT_EQ(Job().SpeedText(0.5),
            "0.5 s a step, 2,048 tokens/s, 0.001 USD a step, 977 USD per "
            "billion tokens");
  options_.price = 0.0;
  options_.power_w = 500.0;
  EXPECT_THAT(Job().SpeedText(0.5),
              AllOf(HasSubstr(", 500 J a step, "), Not(HasSubstr("USD"))));
}

TEST_F(JobTest, MeasuresOutsideOfTheSearchWithAStatusOfEachStep) {
  const Measurement measured = Job().Measure(
      trials::ParseParallelConfig("dp=2,microbatches=4"), 2, "check");
  EXPECT_EQ(measured.outcome, Outcome::kCompleted);
  EXPECT_THAT(measured.step_times_s, ElementsAre(0.042, 0.043));
  EXPECT_THAT(statuses_, ElementsAre("check: starts", "check: step 1 of 2",
                                     "check: step 2 of 2", ""));
  EXPECT_TRUE(printed_.empty());
  EXPECT_TRUE(job_->Recorded().empty()) << "it is none of the search";
  EXPECT_THAT(fakes::ReadFile(job_->LogOf(
                  trials::ParseParallelConfig("dp=2,microbatches=4"))),
              HasSubstr("took 0.043"));
}

// The runner answers as one whose nodes are lost.
TEST_F(JobTest, SaysWhyAMeasurementWasInterrupted) {
  class Lost final : public trials::TrialRunner {
   public:
    [[nodiscard]] Measurement Run(const trials::TrialRequest&) override {
      throw trials::TrialInterrupted("the nodes are lost");
    }
    [[nodiscard]] std::optional<double> ExactThroughput(
        const trials::Candidate&) const override {
      return std::nullopt;
    }
  };
  std::vector<std::optional<harness::TrialCheck>> checks;
  trial_jobs_ = [&](const TuneJob&, const auto& check) {
    checks.push_back(check);
    return std::make_unique<Lost>();
  };
  EXPECT_EQ(Job().Nodes(), "trials run with a job of Slurm for each\n");
  EXPECT_FALSE(job_->interrupted());
  EXPECT_THROW((void)job_->Measure(std::nullopt, 2, "check", 1),
               trials::TrialInterrupted);
  EXPECT_TRUE(job_->interrupted());
  EXPECT_EQ(printed_, "the nodes are lost\n");
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_TRUE(checks[0]->yours);
  EXPECT_EQ(checks[0]->round, 1);
}

TEST_F(JobTest, AStatusKeepsTheAnswerOfTheStopRule) {
  trials::TrialRequest request;
  request.max_steps = 3;
  std::vector<double> seen;
  request.on_step = [&seen](double time_s) {
    seen.push_back(time_s);
    return time_s < 1.0;
  };
  const auto with = Job().WithStatus(request, "trial 1");
  EXPECT_TRUE(with.on_step(0.5));
  EXPECT_FALSE(with.on_step(2.0));
  EXPECT_THAT(seen, ElementsAre(0.5, 2.0));
  EXPECT_THAT(statuses_, ElementsAre("trial 1: starts", "trial 1: step 1 of 3",
                                     "trial 1: step 2 of 3"));
}

TEST(Count, HasAPluralButForOne) {
  EXPECT_EQ(Count(0, "run"), "0 runs");
  EXPECT_EQ(Count(1, "run"), "1 run");
  EXPECT_EQ(Count(24, "configuration"), "24 configurations");
}

}  // namespace jobs::tune_job_test
