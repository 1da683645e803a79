#include "plots/summary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/comparison.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::summary_test {

using fakes::TemporaryFolder;
using plots_test::SmallExperiment;
using plots_test::WriteProblem;
using plots_test::WriteRun;
using testing::HasSubstr;
using testing::Not;
using enum trials::Outcome;

constexpr std::size_t kAfter10 = 3;  // of kCheckpoints
constexpr std::size_t kAfter20 = 4;

std::string TextOf(const std::filesystem::path& folder,
                   Form form = Form::kTerminal) {
  const ExperimentRecords records = LoadExperiment(folder);
  const Summary summary = Summarize(records);
  return ToText(summary, Compare(summary, DefaultReference(records.problems)),
                records.info, form);
}

Summary SmallSummary() {
  const SmallExperiment folder;
  return Summarize(LoadExperiment(folder.path()));
}

TEST(Summary, ThroughputIsTheMeasuredOneOfTheIncumbentAndNoneCountsAsZero) {
  const Summary summary = SmallSummary();
  const MethodSummary& random = summary.problems[0].methods[0];
  EXPECT_EQ(random.runs, 3);
  EXPECT_DOUBLE_EQ(random.throughput.median, 1.01);  // of 0, 1.01 and 1.9
  EXPECT_DOUBLE_EQ(random.throughput.q1, 0.505);
  EXPECT_DOUBLE_EQ(random.throughput.q3, 1.455);
}

TEST(Summary, RatioIsThatOfTheNoiseFreeThroughput) {
  const Summary summary = SmallSummary();
  EXPECT_DOUBLE_EQ(summary.problems[0].methods[0].shares[kEnd].median.value,
                   0.5);
  EXPECT_DOUBLE_EQ(summary.problems[0].methods[0].shares[kEnd].q3, 0.73);
  EXPECT_DOUBLE_EQ(summary.problems[0].methods[1].shares[kEnd].median.value,
                   1.0);
  EXPECT_DOUBLE_EQ(summary.problems[0].methods[2].shares[kEnd].median.value,
                   0.75);
}

TEST(Summary, ReachIsTheMedianAndInfiniteUnlessMoreThanHalfArrive) {
  const Summary summary = SmallSummary();
  const MethodSummary& random = summary.problems[0].methods[0];
  EXPECT_EQ(random.reach_95.runs, 1);
  EXPECT_TRUE(std::isinf(random.reach_95.time_s));
  EXPECT_EQ(random.reach_99.runs, 0);
  const MethodSummary& oppa = summary.problems[0].methods[1];
  EXPECT_EQ(oppa.reach_99.runs, 3);
  EXPECT_DOUBLE_EQ(oppa.reach_99.time_s, 210.0);  // 150, 210, 270
  EXPECT_DOUBLE_EQ(oppa.reach_99.trials, 3.0);
}

TEST(Summary, CountsTrialsByOutcomeAndAveragesThinking) {
  const Summary summary = SmallSummary();
  const MethodSummary& random = summary.problems[0].methods[0];
  EXPECT_DOUBLE_EQ(random.trials, 1.0);         // of 1, 1 and 3
  EXPECT_DOUBLE_EQ(random.out_of_memory, 1.0);  // of 0, 1 and 1
  EXPECT_DOUBLE_EQ(random.thinking_s, 0.25);
  EXPECT_DOUBLE_EQ(summary.problems[0].methods[1].terminated_early, 1.0);
}

TEST(Summary, NamesTheBestConfigurationOverRepeats) {
  const Summary summary = SmallSummary();
  const MethodSummary& random = summary.problems[0].methods[0];
  EXPECT_DOUBLE_EQ(random.best_steps_per_s, 1.92);
  EXPECT_EQ(random.best_config, "dp=2,tp=1,pp=1");
}

TEST(Summary, KnowsNoRatioWithoutAnOptimum) {
  const SmallExperiment folder;
  WriteProblem(folder.path(), {.backend = "replay", .time_budget_s = 600.0});
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  const MethodSummary& oppa = summary.problems[0].methods[1];
  EXPECT_TRUE(std::isnan(oppa.shares[kEnd].median.value));
  EXPECT_TRUE(std::isnan(oppa.reach_95.time_s));
  EXPECT_DOUBLE_EQ(oppa.throughput.median, 1.99);
}

// Two problems with optimum 2, one method, one run of 25 trials each: the
// noise-free incumbent is 0.5 after 10 trials, `late` from trial 15 on.
struct TwoProblems : TemporaryFolder {
  TwoProblems() {
    trials::Write(path(), trials::ExperimentInfo{.name = "two",
                                                 .title = "Two problems",
                                                 .problems = {"a", "b"},
                                                 .methods = {{"oppa", "OPPA"}},
                                                 .repeats = 1});
    for (const auto& [name, late] :
         {std::pair<std::string, double>("a", 1.0), {"b", 1.8}}) {
      WriteProblem(path(), plots_test::SmallProblem(name));
      std::vector<plots_test::ShortTrial> trials;
      for (int i = 1; i <= 25; ++i) {
        const double exact = i < 15 ? 0.5 : late;
        trials.push_back({kCompleted, 60.0 * i, 10, exact + 0.01, exact});
      }
      WriteRun(path(), name, "oppa", 1, trials,
               trials::FinishReason::kTrialBudget);
    }
  }
};

TEST(Summary, MeansOverProblemsAreThoseOfTheirMeansAndMedians) {
  const TwoProblems folder;
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  ASSERT_EQ(summary.means.size(), 1U);
  EXPECT_EQ(summary.means[0].problems.size(), 2U);
  ASSERT_EQ(summary.means[0].methods.size(), 1U);
  const MethodSummary& mean = summary.means[0].methods[0];
  EXPECT_EQ(mean.runs, 2);
  EXPECT_DOUBLE_EQ(mean.shares[kAfter10].mean.value, 0.25);
  EXPECT_DOUBLE_EQ(mean.shares[kAfter20].mean.value, 0.5 * (0.5 + 0.9));
  EXPECT_DOUBLE_EQ(mean.shares[kEnd].mean.value, 0.7);
  EXPECT_DOUBLE_EQ(mean.shares[kEnd].median.value, 0.7);
}

TEST(Summary, MeanLeavesOutAProblemThatIsNotCompleteYet) {
  const TwoProblems folder;
  std::filesystem::remove_all(folder.path() / "b" / "oppa");
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  EXPECT_EQ(summary.means[0].problems.size(), 1U);
  EXPECT_DOUBLE_EQ(summary.means[0].methods[0].shares[kAfter20].mean.value,
                   0.5);
}

TEST(SummaryText, CsvIsTheGoldenOne) {
  const TwoProblems folder;
  plots_test::ExpectGolden("summary.csv",
                           ToCsv(Summarize(LoadExperiment(folder.path()))));
}

TEST(SummaryText, TerminalTextWithAnAxisOverProblemsIsTheGoldenOne) {
  const TwoProblems folder;
  plots_test::ExpectGolden("summary.txt", TextOf(folder.path()));
}

TEST(SummaryText, CallsTheBestMeasuredWhereNoiseFreeIsUnknown) {
  const SmallExperiment folder;
  WriteProblem(folder.path(), {.backend = "command", .time_budget_s = 600.0});
  for (const char* method : {"random", "oppa", "oppa-bare"}) {
    for (const int repeat : {1, 2, 3}) {
      WriteRun(folder.path(), "", method, repeat, {{kCompleted, 60, 10, 1.5}});
    }
  }
  EXPECT_THAT(TextOf(folder.path()), HasSubstr("best found, measured: 1.500"));
}

TEST(SummaryText, ExplainsOnlyTheColumnsThatAreShown) {
  const SmallExperiment folder;
  EXPECT_THAT(TextOf(folder.path()), HasSubstr("to 95%:"));
  WriteProblem(folder.path(), {.backend = "command", .time_budget_s = 600.0});
  const std::string text = TextOf(folder.path());
  for (const char* absent : {"to 95%", "of optimum", "after 5, 10"}) {
    EXPECT_THAT(text, Not(HasSubstr(absent)));
  }
  EXPECT_THAT(text, HasSubstr("pick (ms): "));
}

TEST(SummaryText, HasNoQuartilesOfOneRepeat) {
  const TwoProblems folder;
  const std::string text = TextOf(folder.path());
  EXPECT_THAT(text, HasSubstr("Mean over 2 of 2 problems, 1 repeat ("));
  EXPECT_THAT(text, Not(HasSubstr("[")));
  EXPECT_THAT(text, Not(HasSubstr("interval")));
}

TEST(SummaryText, MarkdownHasEveryProblem) {
  const TwoProblems folder;
  const std::string text = TextOf(folder.path(), Form::kMarkdown);
  EXPECT_THAT(text, HasSubstr("\n## a\n\na small model on 2 GPUs;"));
  EXPECT_THAT(text, HasSubstr("\n## b\n"));
  EXPECT_THAT(text, HasSubstr("| OPPA   |"));
  EXPECT_THAT(text, HasSubstr("`of optimum (%)`: noise-free throughput"));
}

TEST(SummaryText, SaysHowManyRunsAreFinished) {
  const SmallExperiment folder;
  WriteRun(folder.path(), "", "oppa", 2, {{kOutOfMemory, 5}},
           trials::FinishReason::kUnfinished);
  EXPECT_THAT(TextOf(folder.path()), HasSubstr(" 2/3 "));
}

// The budget is 600 s. Trials after half of it do not count.
TEST(Summary, HalfwayIsWhatStandsWhenHalfOfTheTimeBudgetIsSpent) {
  const SmallExperiment folder;
  for (const int repeat : {1, 2, 3}) {
    WriteRun(folder.path(), "", "oppa", repeat,
             {{kCompleted, 60, 10, 1.25, 1.5}, {kCompleted, 400, 10, 1.75, 2}});
  }
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  EXPECT_EQ(summary.problems[0].methods[1].throughput_halfway, 1.25);
  EXPECT_EQ(summary.problems[0].methods[1].throughput.median, 1.75);
}

TEST(SummaryText, FitsTerminalsOf120ColumnsWithLongLabels) {
  std::vector<MethodSummary> methods(
      9, {.label = "OPPA without early termination",
          .repeats = 10,
          .runs = 10,
          .finished = 10,
          .throughput = {0.333, 0.344, 0.359},
          .reach_95 = {.time_s = 1080.0, .trials = 11.0, .runs = 7},
          .reach_99 = {.time_s = 1140.0, .trials = 12.0, .runs = 6},
          .trials = 10.5,
          .terminated_early = 4.5,
          .out_of_memory = 3.5,
          .thinking_s = 0.06});
  for (MethodSummary& method : methods) {
    method.shares.fill({.mean = {0.9999, 0.9991, 1.0}, .median = {1.0}});
  }
  Summary summary{.problems = {{.info = {.name = "ultrascale-80b-512"},
                                .methods = methods}}};
  const auto widest = [](const std::string& text) {
    std::size_t longest = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      longest = std::max(longest, end - begin);
      begin = end + 1;
    }
    return longest;
  };
  EXPECT_LE(widest(ToText(summary, {}, {.title = "Wide", .problems = {"a"}},
                          Form::kTerminal)),
            120U);
}

}  // namespace plots::summary_test
