#include "jobs/tune/tune_job.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/text.h"
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
              HasSubstr("3.10 GB, slower than the best at step 4"));
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
  EXPECT_THAT(statuses_, ElementsAre("check; starts", "check; step 1/2",
                                     "check; step 2/2", ""));
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
  EXPECT_THAT(statuses_, ElementsAre("trial 1; starts", "trial 1; step 1/3",
                                     "trial 1; step 2/3"));
}

// The words of a text, and the length of its longest line.
std::pair<std::vector<std::string>, std::size_t> Measured(
    const std::string& text) {
  std::istringstream words(text);
  std::size_t longest = 0;
  for (const std::string_view line : common::Split(text, '\n')) {
    longest = std::max(longest, line.size());
  }
  return {{std::istream_iterator<std::string>(words), {}}, longest};
}

TEST_F(JobTest, LinesFitTheTerminalWithTheSameWords) {
  const std::string text =
      "next: at most 20 trials of 100 steps in 13.3 minutes, then at most 12 "
      "runs that measure the best and yours again\n    KeyError: 'a log' of "
      "the program that is longer than a line of the terminal is, by far\n\n";
  const auto [words, whole] = Measured(Job().Wrapped(text));
  EXPECT_GT(whole, 100U) << "no terminal";
  for (const std::size_t columns : {60, 80, 120}) {
    shown_.columns = columns;
    const auto [wrapped, longest] = Measured(Job().Wrapped(text));
    EXPECT_EQ(wrapped, words);
    EXPECT_LE(longest, columns);
  }
  EXPECT_EQ(Job().Wrapped("  dp=2"), "  dp=2");
  shown_.columns = 60;
  EXPECT_EQ(Job().Wrapped("dp=2,tp=1,pp=1,zero_stage=1,microbatches=8,micro_"
                          "batch_size=4: 1 s"),
            "dp=2,tp=1,pp=1,zero_stage=1,microbatches=8,\nmicro_batch_"
            "size=4: 1 s");
}

TEST_F(JobTest, ALongRowContinuesBelowItsLastColumn) {
  shown_.columns = 80;
  Job().PrintRow("3/20",
                 {.outcome = Outcome::kFailed,
                  .step_times_s = {},
                  .peak_memory_bytes = {},
                  .message = "exit code 3"},
                 1.0, 2.0, "one " + std::string(34, 'x') + " two");
  const std::size_t at = printed_.find("one");
  EXPECT_EQ(printed_.find("two") - printed_.find('\n') - 1, at) << printed_;
  EXPECT_THAT(printed_, testing::EndsWith("two\n         exit code 3\n"));
  EXPECT_EQ(printed_.find("2.00"), std::string::npos) << "it has no speed-up";
}

TEST_F(JobTest, AConfigurationIsShownByWhatItChanges) {
  const TuneJob& job = Job();
  EXPECT_EQ(job.Changes(*job.Present()),
            "yours: dp=2 tp=1 pp=1 microbatches=8");
  EXPECT_EQ(job.Changes(trials::ParseParallelConfig("dp=2,zero_stage=3")),
            "zero_stage=3 microbatches=1");
}

TEST(Count, HasAPluralButForOne) {
  EXPECT_EQ(Count(0, "run"), "0 runs");
  EXPECT_EQ(Count(1, "run"), "1 run");
  EXPECT_EQ(Count(24, "configuration"), "24 configurations");
}

}  // namespace jobs::tune_job_test
