#include "studies/profiles.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.h"
#include "tests/plots/synthetic_experiment.h"

namespace studies::profiles_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNever = std::numeric_limits<double>::infinity();

TEST(ExpectedRunningTime, CountsWhatFailedRunsSpent) {
  EXPECT_DOUBLE_EQ(ExpectedRunningTime({4.0, 6.0}, {10.0, 10.0}), 5.0);
  // Half of the runs fail after 10: a success costs one failure on average.
  EXPECT_DOUBLE_EQ(ExpectedRunningTime({4.0, kNever}, {10.0, 10.0}), 14.0);
  EXPECT_EQ(ExpectedRunningTime({kNever, kNever}, {10.0, 10.0}), kNever);
}

// scipy.stats.trim_mean(values, 0.25) of scipy 1.17.
TEST(InterquartileMean, AgreesWithScipy) {
  const std::vector<double> values = {0.31, 0.97, 0.12, 0.55, 0.99,
                                      0.43, 0.98, 0.07, 0.61, 0.77};
  const std::vector<double> expected = {
      0.31,  0.64,  0.4666666666666666, 0.43, 0.61, 0.565, 0.648,
      0.565, 0.574, 0.6066666666666666};
  for (std::size_t n = 1; n <= values.size(); ++n) {
    EXPECT_NEAR(InterquartileMean({values.begin(), values.begin() + n}),
                expected[n - 1], 1e-12)
        << n;
  }
}

// A run that reaches these shares of the optimum after 1, 2, ... trials.
Attempt Reaching(const std::string& problem, int repeat,
                 const std::vector<double>& shares) {
  Attempt attempt{.problem = problem, .repeat = repeat, .budget_s = 100.0};
  for (const double share : shares) {
    attempt.trials += 1.0;
    attempt.time_s += 10.0;
    attempt.by_trials.x.push_back(attempt.trials);
    attempt.by_trials.y.push_back(share);
    attempt.by_time.x.push_back(attempt.time_s);
    attempt.by_time.y.push_back(share);
  }
  return attempt;
}

std::vector<Contender> Two() {
  return {{"random",
           "RANDOM",
           {Reaching("a", 1, {0.5, 0.8, 0.8, 0.96}),
            Reaching("a", 2, {0.5, 0.6, 0.7, 0.7}),
            Reaching("b", 1, {0.2, 0.9, 0.9, 0.9})}},
          {"oppa",
           "OPPA",
           {Reaching("a", 1, {0.9, 1.0}), Reaching("a", 2, {0.8, 1.0}),
            Reaching("b", 1, {0.3, 1.0})}}};
}

std::vector<std::string> Texts(const plots::Table& table,
                               const std::string& title) {
  std::vector<std::string> texts;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      if (table.columns[c].title == title) {
        texts.push_back(table.rows[r][c].text);
      }
    }
  }
  return texts;
}

TEST(Profiles, TargetsCountAllRunsOfAllProblems) {
  const Output targets = Profiles(Two(), {}).front();
  // RANDOM at 80, 90, 95, 98 and 99%, then OPPA.
  EXPECT_THAT(Texts(targets.table, "reached (%)"),
              ElementsAre("66.7", "66.7", "33.3", "0.0", "0.0", "100.0",
                          "100.0", "100.0", "100.0", "100.0"));
  // (2 + 4 + 2) / 2, (4 + 4 + 2) / 2 with 0.9 on b, (4 + 4 + 4) / 1.
  EXPECT_THAT(Texts(targets.table, "expected trials"),
              ElementsAre("4.00", "5.00", "12.0", "-", "-", "1.33", "1.67",
                          "2.00", "2.00", "2.00"));
  EXPECT_THAT(
      Texts(targets.table, "RANDOM: times the trials"),
      ElementsAre("1.0", "1.0", "1.0", "", "", "3.0", "3.0", "6.0", "-", "-"));
  // The profile of RANDOM at 80%, before and after 1, 2, 3 and 4 trials.
  const plots::Figure& trials = targets.figures.front();
  ASSERT_EQ(trials.panels.size(), 5U);
  std::vector<double> shares;
  for (const common::Quartiles& y : trials.panels[0].series[0].band.y) {
    shares.push_back(y.median);
  }
  EXPECT_THAT(shares, ElementsAre(0.0, 0.0, 0.0, 2.0 / 3, 2.0 / 3, 2.0 / 3,
                                  2.0 / 3, 2.0 / 3));
}

TEST(Profiles, StepsArePairedByRepeatAndSumToTheWhole) {
  std::vector<Contender> three = Two();
  three.push_back({"middle",
                   "MIDDLE",
                   {Reaching("a", 1, {0.98}), Reaching("a", 2, {0.76})}});
  const Output steps = Profiles(three, {.methods = {"random", "oppa"},
                                        .steps = {"random,middle,oppa"}})
                           .back();
  EXPECT_THAT(Texts(steps.table, "problem"), ElementsAre("a", "a", "a"));
  // Means of 0.02 and 0.06, of 0.02 and 0.24, of 0.04 and 0.30.
  EXPECT_THAT(
      Texts(steps.table, "difference (points)"),
      ElementsAre(HasSubstr("4.0 [2.0, 6.0]"), HasSubstr("13.0 [2.0, 24.0]"),
                  HasSubstr("17.0 [4.0, 30.0]")));
  EXPECT_THAT(Texts(steps.table, "part (%)"),
              ElementsAre("24 [20, 50]", "76 [50, 80]", ""));
}

TEST(Profiles, ReadFinishedRunsAndNameAMissingMethod) {
  const fakes::TemporaryFolder folder;
  plots_test::WriteSmallExperiment(folder.path() / "small");
  const std::vector<Contender> contenders =
      LoadContenders({(folder.path() / "small").string()});
  ASSERT_EQ(contenders.size(), 3U);
  EXPECT_EQ(contenders[0].attempts.size(), 3U);
  EXPECT_EQ(contenders[0].attempts[0].problem, "small");
  EXPECT_DOUBLE_EQ(contenders[0].attempts[2].share(), 0.96);
  EXPECT_THAT([&] { (void)Profiles(contenders, {.methods = {"opa"}}); },
              testing::ThrowsMessage<common::InputError>(
                  HasSubstr("did you mean 'oppa'")));
}

}  // namespace studies::profiles_test
