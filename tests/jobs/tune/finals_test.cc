#include "jobs/tune/finals.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "jobs/tune/tune.h"
#include "tests/fakes/error_of.h"
#include "tests/jobs/tune/tune_job_fixture.h"

namespace jobs::finals_test {

TEST(Finals, RoundsThatDifferMakeTheMeanLessCertain) {
  const StepTime alike =
      *MeanStepTime({"a", {{1.0, 1.1, 0.9, 1.0}, {1.0, 1.1, 0.9, 1.0}}, {}});
  EXPECT_DOUBLE_EQ(alike.mean_s, 1.0);
  EXPECT_EQ(alike.steps, 8);
  // s^2 = 0.04 / 7 of 8 steps.
  EXPECT_NEAR(alike.standard_error_s, std::sqrt(0.04 / 7.0 / 8.0), 1e-12);
  const StepTime apart =
      *MeanStepTime({"b", {{0.5, 0.5, 0.5, 0.5}, {1.5, 1.5, 1.5, 1.5}}, {}});
  EXPECT_DOUBLE_EQ(apart.mean_s, 1.0);
  EXPECT_NEAR(apart.standard_error_s, std::sqrt(0.5 / 2.0), 1e-12);
}

TEST(Finals, AClearDifferenceIsSignificantAndNoiseIsNot) {
  const StepTime fast{1.0, 0.01, 20};
  const SpeedUp clear = Compare(fast, {1.2, 0.01, 20});
  EXPECT_NEAR(clear.factor.value, 1.2, 1e-12);
  EXPECT_LT(clear.factor.low, 1.2);
  EXPECT_GT(clear.factor.low, 1.16);
  EXPECT_TRUE(clear.Differs());
  const SpeedUp noise = Compare(fast, {1.02, 0.2, 20});
  EXPECT_FALSE(noise.Differs());
  EXPECT_LT(noise.factor.low, 1.0);
  EXPECT_EQ(ToString(Compare(fast, {1.5, 0.0, 3})), "1.50 times [1.47, 1.53]");
}

TEST(Finals, OnlyAClearlySlowerConfigurationIsNotMeasuredAgain) {
  const auto one_round = [](const char* config, double mean_s) {
    return Finalist{config, {{0.99 * mean_s, mean_s, 1.01 * mean_s}}, {}};
  };
  const std::vector<Finalist> all = {one_round("best", 1.0),
                                     one_round("close", 1.04),
                                     one_round("slow", 1.2),
                                     {"failed", {{}}, {}},
                                     one_round(kPresent, 2.0)};
  for (const Finalist& finalist : all) {
    EXPECT_EQ(Contends(finalist, all, 1), finalist.config != "slow")
        << finalist.config;
    EXPECT_TRUE(Contends(finalist, all, 0)) << "nothing is measured yet";
  }
  // Later rounds do not change what the first one decided.
  std::vector<Finalist> later = all;
  later[2].rounds.push_back({0.5, 0.5});
  EXPECT_FALSE(Contends(later[2], later, 1));
}

TEST(Finals, ConfigurationsWithoutAStepHaveNoTime) {
  EXPECT_FALSE(MeanStepTime({"a", {{}, {}}, {}}).has_value());
}

TEST(Finals, TheFactorIsInverseInTheOtherDirection) {
  const StepTime a{1.0, 0.05, 20};
  const StepTime b{1.3, 0.04, 20};
  const SpeedUp ahead = Compare(a, b);
  const SpeedUp behind = Compare(b, a);
  EXPECT_NEAR(ahead.factor.value * behind.factor.value, 1.0, 1e-12);
  EXPECT_NEAR(ahead.factor.low * behind.factor.high, 1.0, 1e-12);
  EXPECT_NEAR(ahead.p, behind.p, 1e-12);
}

TEST(Finals, TimesWithoutNoiseDifferUnlessTheyAreEqual) {
  EXPECT_EQ(Compare({1.0, 0.0, 2}, {1.0, 0.0, 2}).p, 1.0);
  EXPECT_EQ(Compare({1.0, 0.0, 2}, {1.001, 0.0, 2}).p, 0.0);
}

class MeasureTest : public TuneJobTest {
 protected:
  // A search of three trials, and the job after it.
  TuneJob& Searched() {
    options_.trials = 3;
    EXPECT_EQ(Tune({.manifest = WriteManifest(),
                    .command = "test",
                    .finalists = 2,
                    .reporter = shown_}),
              0)
        << printed_;
    printed_.clear();
    return job_.emplace(options_.manifest, trial_jobs_, shown_);
  }
  [[nodiscard]] std::string File() const {
    return Path("oppa-results/tune/finals.json").string();
  }
  [[nodiscard]] Finals Known() const { return ReadFinals(File()); }
  void Replace(const Finals& finals) const {
    common::ReplaceFile(File(), common::SealedText(common::ToJson(finals)));
  }
};

TEST_F(MeasureTest, RunsTheBestAndThePresentOneInEachRound) {
  const TuneJob& job = Searched();
  const Finals known = Known();
  EXPECT_EQ(known.trials, 3);
  ASSERT_EQ(known.finalists.size(), 3U);
  EXPECT_EQ(known.finalists.back().config, kPresent);
  for (const Finalist& each : known.finalists) {
    EXPECT_NE(each.config, job.Text(*job.Present())) << "it runs as kPresent";
    EXPECT_GT(each.duration_s, 0.0);
    for (const std::vector<double>& round : each.rounds) {
      EXPECT_EQ(round.size(), 5U) << "all of six steps but the first";
    }
  }
  // The fastest and the present one have all rounds.
  EXPECT_EQ(known.finalists.front().rounds.size(), 3U);
  EXPECT_EQ(known.finalists.back().rounds.size(), 3U);
}

TEST_F(MeasureTest, MeasuresNothingAgainThatTheFileHas) {
  TuneJob& job = Searched();
  const Finals known = Known();
  const std::vector<Finalist> again = MeasureFinalists(job, 2);
  EXPECT_EQ(common::ToJson(Finals{3, again}), common::ToJson(known));
  EXPECT_EQ(printed_, "");
}

TEST_F(MeasureTest, ResumesInTheRoundThatWasInterrupted) {
  TuneJob& job = Searched();
  Finals known = Known();
  known.finalists.back().rounds.resize(1);
  Replace(known);
  (void)MeasureFinalists(job, 2);
  EXPECT_THAT(printed_,
              testing::StartsWith("measuring the best again, round 2 of 3, 1 "
                                  "run\n  yours: 0.08"));
  EXPECT_EQ(Known().finalists.back().rounds.size(), 3U);
}

TEST_F(MeasureTest, MeasuresAllAgainAfterAnotherNumberOfTrials) {
  TuneJob& job = Searched();
  Finals known = Known();
  known.trials = 2;
  for (Finalist& each : known.finalists) {
    each.rounds = {{9.0}, {9.0}, {9.0}};
  }
  Replace(known);
  for (const Finalist& each : MeasureFinalists(job, 2)) {
    EXPECT_LT(MeanStepTime(each)->mean_s, 1.0) << each.config;
  }
}

TEST_F(MeasureTest, MakesAThirdRoundOnlyInTheMinutesOfTheSearch) {
  TuneJob& job = Searched();
  Finals known = Known();
  for (Finalist& each : known.finalists) {
    each.rounds = {{0.5, 0.51}, {0.5, 0.51}};
    each.duration_s = 1e6;
  }
  Replace(known);
  for (const Finalist& each : MeasureFinalists(job, 2)) {
    EXPECT_EQ(each.rounds.size(), 2U) << each.config;
  }
  EXPECT_EQ(printed_, "no time is left for a third round\n");
}

TEST_F(MeasureTest, ARoundThatFailsHasNoSteps) {
  TuneJob& job = Searched();
  std::filesystem::remove(File());
  WriteProgram("exit 3");
  for (const Finalist& each : MeasureFinalists(job, 1)) {
    EXPECT_FALSE(MeanStepTime(each).has_value()) << each.config;
  }
  EXPECT_THAT(printed_, testing::HasSubstr("  yours: failed: exit code 3"));
}

TEST_F(MeasureTest, ReadsNoFileAndNoImpossibleTime) {
  EXPECT_TRUE(Known().finalists.empty()) << "there is none";
  std::filesystem::create_directories(Path("oppa-results/tune"));
  for (const double time_s : {0.0, -1.0, 1e7}) {
    Replace({2, {{"a", {{0.5}, {time_s}}, {}}}});
    EXPECT_THAT(fakes::ErrorOf([this] { return Known(); }),
                testing::HasSubstr("a has a time that no step takes"));
  }
  Replace({2, {{"a", {{0.5}, {0.6}}, {}}}});
  EXPECT_EQ(Known().finalists.at(0).rounds.size(), 2U);
}

}  // namespace jobs::finals_test
