#include "plots/pareto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plots/report.h"
#include "plots/summary.h"
#include "tests/plots/synthetic_experiment.h"

namespace plots::pareto_test {

namespace fs = std::filesystem;
using fakes::ReadFile;
using fakes::TemporaryFolder;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trials::Outcome;

// At this price, a GPU second costs 1 USD.
constexpr double kPrice = 3600.0;

// A method on 2 or 4 GPUs. By time, the third trial is the best; by money, the
// second.
void WriteParts(const fs::path& experiment, trials::Objective objective,
                std::vector<int> gpus = {2, 4}) {
  trials::Write(experiment,
                trials::ExperimentInfo{.name = "parts",
                                       .problems = {""},
                                       .methods = {{"random", "RANDOM"}},
                                       .repeats = 1});
  trials::ProblemInfo problem = plots_test::SmallProblem();
  problem.gpus = 4;
  problem.optimum_steps_per_s = 1.25;
  problem.optimum_config = "dp=2,tp=1,pp=1";
  problem.trade_off = {
      .objective = objective,
      .price_per_gpu_hour = kPrice,
      .gpus = std::move(gpus),
      .optimum_gpus = 2,
      .pareto = {{"dp=4,tp=1,pp=1", 4, 2.0}, {"dp=2,tp=1,pp=1", 2, 1.25}}};
  plots_test::WriteProblem(experiment, problem);
  plots_test::WriteRun(experiment, "", "random", 1,
                       {{Outcome::kCompleted, 10, 5, 0.5, 0.5, 4},
                        {Outcome::kCompleted, 20, 5, 1.0, 1.0, 2},
                        {Outcome::kCompleted, 30, 5, 1.6, 1.6, 4},
                        {Outcome::kTerminatedEarly, 40, 5, 3.0, 3.0, 2},
                        {Outcome::kOutOfMemory, 50}});
}

TEST(ParetoFront, OfTrialsHasCompletedOnesWithTheirTimeAndCost) {
  for (const auto objective :
       {trials::Objective::kTime, trials::Objective::kMoney}) {
    const TemporaryFolder folder;
    WriteParts(folder.path(), objective);
    const ExperimentRecords records = LoadExperiment(folder.path());
    const std::vector<CostPoint> tried = TrialCosts(records.problems.front());
    ASSERT_EQ(tried.size(), 4U);
    const std::vector<CostPoint> front = FrontOfTrials(tried);
    ASSERT_EQ(front.size(), 2U);
    EXPECT_EQ(front[0].gpus, 4);
    EXPECT_NEAR(front[0].cost.step_time_s, 1.0 / 1.6, 1e-12);
    EXPECT_NEAR(front[0].cost.cost, 4.0 / 1.6, 1e-12);
    EXPECT_EQ(front[1].gpus, 2);
    EXPECT_NEAR(front[1].cost.step_time_s, 1.0, 1e-12);
    EXPECT_NEAR(front[1].cost.cost, 2.0, 1e-12);
    const std::vector<CostPoint> all =
        FrontOfAll(records.problems.front().info);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_NEAR(all[1].cost.cost, 1.6, 1e-12);
  }
}

TEST(Report, RanksByMoneyWhereItIsTheObjective) {
  const TemporaryFolder folder;
  WriteParts(folder.path(), trials::Objective::kMoney);
  const Summary summary = Summarize(LoadExperiment(folder.path()));
  const MethodSummary& method = summary.problems.front().methods.front();
  // 1 step/s on 2 GPUs is half a step per USD; the optimum has 0.625.
  EXPECT_NEAR(method.throughput.median, 0.5, 1e-12);
  EXPECT_NEAR(method.shares[kEnd].mean.value, 0.8, 1e-12);
  EXPECT_THAT(method.best_config, HasSubstr("dp=2"));
}

TEST(Report, NamesTheUnitOfTheObjective) {
  const TemporaryFolder folder;
  WriteParts(folder.path(), trials::Objective::kMoney);
  const ReportOutcome outcome = Report(folder.path(), {.formats = {}});
  const std::string csv = ReadFile(folder.path() / "summary.csv");
  EXPECT_THAT(csv, HasSubstr("throughput_median_steps_per_usd"));
  EXPECT_THAT(csv, Not(HasSubstr("steps_per_s")));
  EXPECT_THAT(outcome.summary, HasSubstr("steps/USD"));
  EXPECT_THAT(outcome.summary, Not(HasSubstr("steps/s")));
  EXPECT_THAT(ReadFile(folder.path() / "figures" / "throughput-time.gp"),
              HasSubstr("steps/USD"));
  // Steps of training with the incumbent need its throughput.
  EXPECT_FALSE(fs::exists(folder.path() / "figures" / "training-steps.gp"));
}

TEST(Report, DrawsAndTabulatesTheParetoFront) {
  const TemporaryFolder folder;
  WriteParts(folder.path(), trials::Objective::kTime);
  const ReportOutcome outcome = Report(folder.path());
  for (const char* file : {"pareto.pdf", "pareto.svg", "pareto.png"}) {
    EXPECT_TRUE(fs::exists(folder.path() / "figures" / file)) << file;
  }
  EXPECT_THAT(outcome.files, Contains(folder.path() / "pareto.csv"));
  EXPECT_THAT(ReadFile(folder.path() / "pareto.csv"),
              HasSubstr("trials,RANDOM,2,1,2,"));
  EXPECT_THAT(outcome.summary, HasSubstr("USD/1000 steps"));
  EXPECT_THAT(ReadFile(folder.path() / "summary.md"),
              HasSubstr("## Step time and money"));
  // One row per point, however many share a time.
  const Panel panel =
      ParetoPanel(LoadExperiment(folder.path()).problems.front());
  EXPECT_THAT(panel.series.front().band.x,
              ElementsAre(testing::DoubleNear(1 / 3.0, 1e-12), 0.5, 0.625, 0.8,
                          1.0, 2.0));
}

TEST(Report, HasNoParetoFrontForOneNumberOfGpus) {
  const TemporaryFolder folder;
  WriteParts(folder.path(), trials::Objective::kMoney, {4});
  const ReportOutcome outcome = Report(folder.path(), {.formats = {}});
  EXPECT_FALSE(fs::exists(folder.path() / "pareto.csv"));
  EXPECT_FALSE(fs::exists(folder.path() / "figures" / "pareto.csv"));
  EXPECT_THAT(outcome.summary, Not(HasSubstr("Pareto")));
}

}  // namespace plots::pareto_test
