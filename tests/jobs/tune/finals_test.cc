#include "jobs/tune/finals.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "common/json.h"
#include "jobs/tune/tune.h"
#include "tests/fakes/error_of.h"
#include "tests/jobs/tune/tune_job_fixture.h"
#include "trials/record_list.h"

namespace jobs::finals_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Finals, RoundsThatDifferMakeTheMeanLessCertain) {
  const Finalist alike = {
      "a", {{1.0, 1.1, 0.9, 1.0}, {1.0, 1.1, 0.9, 1.0}}, {}};
  const StepTime of_alike = *MeanStepTime(alike, SpreadOfRounds({alike}));
  EXPECT_DOUBLE_EQ(of_alike.mean_s, 1.0);
  EXPECT_EQ(of_alike.steps, 8);
  // s^2 = 0.04 / 7 of 8 steps, and the rounding of their last place.
  EXPECT_NEAR(of_alike.standard_error_s,
              std::sqrt((0.04 / 7.0 + 0.01 / 12.0) / 8.0), 1e-12);
  const Finalist apart = {"b", {{0.5, 0.5, 0.5}, {1.5, 1.5, 1.5}}, {}};
  const StepTime of_apart = *MeanStepTime(apart, SpreadOfRounds({apart}));
  EXPECT_DOUBLE_EQ(of_apart.mean_s, 1.0);
  EXPECT_NEAR(of_apart.standard_error_s,
              std::sqrt(0.5 / 2.0 + 0.01 / 12.0 / 6.0), 1e-12);
  // What one shows of rounds is known of the others.
  const RoundSpread both = SpreadOfRounds({alike, apart});
  EXPECT_EQ(both.freedom, 2);
  EXPECT_NEAR(both.variance, 0.25, 1e-12);
  EXPECT_GT(MeanStepTime(alike, both)->standard_error_s, 0.35);
}

// All run 2% apart from step to step and `between` from round to round.
double ShareOfIntervalsWithoutOne(double between) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  constexpr int kSearches = 500;
  int missed = 0;
  for (int i = 0; i < kSearches; ++i) {
    std::vector<Finalist> all;
    for (const char* config : {kPresent, "a", "b", "c"}) {
      Finalist& one = all.emplace_back(Finalist{config, {}, {}});
      for (int round = 0; round < 3; ++round) {
        const double mean_s = std::exp(between * normal(random));
        one.rounds.emplace_back();
        for (int step = 0; step < 19; ++step) {
          one.rounds.back().push_back(mean_s * std::exp(0.02 * normal(random)));
        }
      }
    }
    const RoundSpread spread = SpreadOfRounds(all);
    const auto factor =
        Compare(*MeanStepTime(all[1], spread), *MeanStepTime(all[0], spread))
            .factor;
    missed += factor.low <= 1.0 && 1.0 <= factor.high ? 0 : 1;
  }
  return static_cast<double>(missed) / kSearches;
}

TEST(Finals, AnIntervalMissesTheTruthOnceInTwentyTimesHoweverRunsDiffer) {
  for (const double between : {0.0, 0.02, 0.05, 0.2}) {
    EXPECT_LT(ShareOfIntervalsWithoutOne(between), 0.08) << between;
  }
}

TEST(Finals, TimesOfOneDecimalAreKnownToHalfOfIt) {
  const Finalist slow = {"a", {{0.2, 0.2, 0.2}, {0.2, 0.2, 0.2}}, {}};
  const Finalist fast = {"b", {{0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}}, {}};
  const RoundSpread spread = SpreadOfRounds({slow, fast});
  const SpeedUp rounded =
      Compare(*MeanStepTime(fast, spread), *MeanStepTime(slow, spread));
  EXPECT_LT(rounded.factor.low, 1.01) << "0.149 and 0.151 print so, too";
  EXPECT_FALSE(rounded.Differs());
  const Finalist exact = {"c", {{0.1000003}, {0.1000003}}, {}};
  EXPECT_EQ(MeanStepTime(exact, spread)->standard_error_s, 0.0);
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
                                     one_round("slow", 1.25),
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
    trials::WriteRecord(File(), common::ToJson(finals));
  }
};

TEST_F(MeasureTest, RunsTheBestAndThePresentOneInEachRound) {
  const TuneJob& job = Searched();
  const Finals known = Known();
  EXPECT_EQ(known.trials, 3);
  ASSERT_EQ(known.finalists.size(), 3U);
  EXPECT_EQ(known.finalists[1].config, kPresent);
  for (const Finalist& each : known.finalists) {
    EXPECT_NE(each.config, job.Text(*job.Present())) << "it runs as kPresent";
    EXPECT_GT(each.duration_s, 0.0);
    for (const std::vector<double>& round : each.rounds) {
      EXPECT_EQ(round.size(), 5U) << "all of six steps but the first";
    }
  }
  // The fastest and the present one have all rounds.
  EXPECT_EQ(known.finalists.front().rounds.size(), 3U);
  EXPECT_EQ(known.finalists[1].rounds.size(), 3U);
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
  known.finalists[1].rounds.resize(1);
  Replace(known);
  (void)MeasureFinalists(job, 2);
  EXPECT_THAT(printed_, testing::ContainsRegex(
                            "^measuring the best again, round 2 of "
                            "3, 1 run\nround 2 +0\\.08[^\n]+ yours\n"));
  EXPECT_EQ(Known().finalists[1].rounds.size(), 3U);
}

TEST_F(MeasureTest, RefusesTheMeasurementsOfAnotherSearch) {
  TuneJob& job = Searched();
  common::Json other = common::ToJson(Known());
  other["record"] = "finals.json";
  other["finalists"][0]["rounds"] = {{0.001}, {0.001}, {0.001}};
  common::ReplaceFile(File(), common::SealedText(other));
  const std::string refusal = "finals.json: .*\\.runs does not list this";
  EXPECT_THAT(fakes::ErrorOf([&] { return MeasureFinalists(job, 2); }),
              testing::ContainsRegex(refusal));
  fs::remove(Path("oppa-results/tune/.runs"));
  EXPECT_THAT(fakes::ErrorOf([&] { return MeasureFinalists(job, 2); }),
              testing::ContainsRegex(refusal));
  fs::remove(File());
  for (const Finalist& each : MeasureFinalists(job, 2)) {
    EXPECT_GT(MeanStepTime(each)->mean_s, 0.001) << each.config;
  }
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

TEST_F(MeasureTest, MeasuresAllAgainAfterAChangeThatIsAccepted) {
  (void)Searched();
  WriteProgram("echo \"step $i took 0.0$1$((i % 3 + 1))\"", "# changed");
  EXPECT_EQ(Tune({.manifest = options_.manifest,
                  .command = "test",
                  .finalists = 2,
                  .accept_changed = true,
                  .reporter = shown_}),
            0)
      << printed_;
  EXPECT_THAT(printed_, HasSubstr("measuring the best again, round 1 of 3"));
  EXPECT_EQ(Known().changes, 1);
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
  EXPECT_THAT(printed_,
              testing::ContainsRegex("failed +0:0[0-9]  yours: exit code 3"));
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

// Two rounds of steps at `mean_s` plus and minus `spread_s`, with many
// decimals.
Finalist Ran(const std::string& config, double mean_s, double spread_s = 0.0) {
  spread_s += 1e-9 * mean_s;
  const std::vector<double> round = {mean_s - spread_s, mean_s + spread_s};
  return {config, {round, round}, std::nullopt};
}
Finalist Failed(const std::string& config) {
  return {config, {{}, {}}, std::nullopt};
}

std::string Decision(const std::vector<Finalist>& finalists,
                     const std::string& present = "") {
  const auto verdict = Judge(finalists, present);
  return verdict ? verdict->config() : "none";
}

TEST(Judge, DecidesNothingWhereNoOtherConfigurationRan) {
  EXPECT_EQ(Decision({}), "none");
  EXPECT_EQ(Decision({Failed("a")}), "none");
  EXPECT_EQ(Decision({Failed("a"), Ran(kPresent, 1.0)}), "none");
  EXPECT_EQ(Decision({Ran(kPresent, 1.0)}, "a"), "none");
}

TEST(Judge, RecommendsWhatIsMeasurablyFaster) {
  const auto verdict =
      Judge({Ran("a", 0.9, 0.001), Ran(kPresent, 1.0, 0.001)}, "b");
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->config(), "a");
  EXPECT_DOUBLE_EQ(verdict->time().mean_s, 0.9);
  EXPECT_NEAR(verdict->speed_up->factor.value, 1.0 / 0.9, 1e-12);
  EXPECT_FALSE(verdict->keeps_present);
}

TEST(Judge, KeepsThePresentConfigurationWhereNoiseHidesTheDifference) {
  const auto verdict =
      Judge({Ran("a", 0.9, 0.5), Ran(kPresent, 1.0, 0.5)}, "b");
  ASSERT_TRUE(verdict.has_value());
  EXPECT_EQ(verdict->config(), kPresent);
  EXPECT_DOUBLE_EQ(verdict->time().mean_s, 1.0) << "that of what it recommends";
  EXPECT_EQ(Decision({Ran("a", 1.0), Ran(kPresent, 1.0)}), kPresent);
}

TEST(Judge, PrefersWhatRanInEveryRoundToWhatRanOutOfMemory) {
  Finalist failing = {"a", {{0.5, 0.51}, {}, {}}, {}};
  failing.failures = {trials::Outcome::kOutOfMemory};
  EXPECT_EQ(Decision({failing, Ran("b", 0.8), Ran(kPresent, 1.0)}), "b");
  EXPECT_EQ(Decision({failing, Ran(kPresent, 1.0)}), kPresent);
  EXPECT_EQ(Decision({failing}), "a") << "nothing else ran";
  Finalist present = Ran(kPresent, 1.0);
  present.failures = {trials::Outcome::kFailed};
  EXPECT_EQ(Decision({failing, present}), "a") << "neither is better there";
}

TEST(Judge, KeepsThePresentConfigurationWhereAllOthersAreSlower) {
  const auto verdict = Judge({Ran("a", 1.2), Ran(kPresent, 1.0)}, "b");
  ASSERT_TRUE(verdict.has_value());
  EXPECT_TRUE(verdict->speed_up->Differs());
  EXPECT_EQ(verdict->config(), kPresent);
}

// A difference of one configuration from itself is one of the machine.
TEST(Judge, DoesNotRecommendThePresentConfigurationAsAnother) {
  const std::vector<Finalist> finalists = {Ran("a", 0.5), Ran(kPresent, 1.0)};
  EXPECT_EQ(Decision(finalists, "a"), kPresent);
  EXPECT_EQ(Decision(finalists, "b"), "a");
  EXPECT_EQ(Decision(finalists), "a");
}

TEST(Judge, RecommendsTheFastestWhereThePresentConfigurationDidNotRun) {
  for (const std::vector<Finalist>& finalists :
       {std::vector{Ran("slow", 2.0), Ran("a", 1.0)},
        std::vector{Failed(kPresent), Ran("a", 1.0)},
        std::vector{Ran("a", 1.0)}}) {
    const auto verdict = Judge(finalists, "b");
    ASSERT_TRUE(verdict.has_value());
    EXPECT_EQ(verdict->config(), "a");
    EXPECT_FALSE(verdict->speed_up.has_value());
  }
}

TEST(Judge, RanksWhatRanByItsTimeAndThenByTheOrderOfTheSearch) {
  const auto verdict = Judge({Ran("c", 3.0), Failed("x"), Ran("a", 1.0),
                              Ran(kPresent, 0.5), Ran("b", 1.0)},
                             "");
  ASSERT_TRUE(verdict.has_value());
  std::vector<std::string> order;
  for (const Finalist& each : verdict->ranked) {
    order.push_back(each.config);
  }
  EXPECT_THAT(order, ElementsAre("a", "b", "c"));
}

class VerdictTest : public TuneJobTest {
 protected:
  // Of configurations with 1 and 2 microbatches, and the present one.
  Verdict Of(double one_s, double two_s, std::optional<double> present_s) {
    std::vector<Finalist> finalists = {Ran(Config(1), one_s),
                                       Ran(Config(2), two_s)};
    if (present_s) {
      finalists.push_back(Ran(kPresent, *present_s));
    }
    return *Judge(finalists, Config(8));
  }
  std::string Config(int microbatches) {
    return job_->Text(trials::ParseParallelConfig(
        fmt::format("dp=2,microbatches={}", microbatches)));
  }
  common::Json JsonOf(const Verdict& verdict) {
    return ToJson(verdict, BestOf(*job_, verdict), *job_);
  }
  std::string TextOf(const Verdict& verdict) {
    return ToText(verdict, BestOf(*job_, verdict), *job_);
  }
};

TEST_F(VerdictTest, TheTextHasTheComparisonTheCommandLineAndItsGain) {
  (void)Job();
  Verdict verdict = Of(0.25, 0.5, 0.5);
  verdict.ranked.front().peak_memory_bytes = 1e9;
  const std::string folder = Path("oppa-results/tune").string();
  EXPECT_EQ(
      TextOf(verdict),
      Config(1) + " is 2.00 times [2.00, 2.00] as fast as " + Config(2) +
          " (p < 0.001)\n\nUse this command line:\n\n  " +
          trials::CommandLine(BestOf(*job_, verdict).rendered) +
          "\n\nIt has the 6 steps of a trial: write your own.\n" + Config(1) +
          ": 0.25 s a step, 4,096 tokens/s; 2.00 times [2.00, 2.00] as fast as "
          "yours; peak memory 1.00 GB, 7.59 GB (88%) left\nAlso in " +
          folder + "/best.sh and best.json\n");
  verdict.ranked.front().failures = {trials::Outcome::kOutOfMemory};
  EXPECT_THAT(TextOf(verdict),
              testing::AllOf(HasSubstr("as fast as yours; it failed in 1 of 3 "
                                       "rounds: out of memory\nAlso"),
                             Not(HasSubstr("left"))));
  ASSERT_TRUE(verdict.yours);
  verdict.yours->failures = {trials::Outcome::kTimedOut};
  EXPECT_THAT(TextOf(verdict), HasSubstr("; yours failed in 1 of "));
  EXPECT_EQ(ToJson(verdict, BestOf(*job_, verdict), *job_)["failures"],
            common::Json({"out_of_memory"}));
  EXPECT_THAT(BestOf(*job_, verdict).rendered.words,
              ElementsAre(HasSubstr("train.sh"), "1", "6"));
}

TEST_F(VerdictTest, TheTextSaysThatThePresentConfigurationStays) {
  (void)Job();
  EXPECT_THAT(
      TextOf(Of(0.5, 0.5, 0.5)),
      testing::AllOf(
          HasSubstr(Config(2) + ", which is not distinguishable (p = 1)\n"),
          HasSubstr("Keep yours: no configuration is measurably faster:\n\n"),
          HasSubstr("train.sh 8 6\n"),
          HasSubstr("; not distinguishable from yours: 1.00 times [1.00, 1.00] "
                    "as fast, p = 1\n"),
          Not(HasSubstr("peak memory"))));
  EXPECT_THAT(TextOf(Of(0.5, 0.6, std::nullopt)), Not(HasSubstr("yours")));
}

TEST_F(VerdictTest, TheTextSaysHowSeveralNodesStart) {
  options_.command.push_back("{master_addr}");
  (void)Job();
  EXPECT_THAT(TextOf(Of(0.2, 0.5, 0.5)),
              HasSubstr("Start it on every node, with the first node for "
                        "{master_addr}.\n\nIt has"));
  options_.command.push_back("{node_rank}");
  (void)Job();
  EXPECT_THAT(TextOf(Of(0.2, 0.5, 0.5)),
              HasSubstr("for {master_addr} and the number of the node for "
                        "{node_rank}.\n\n"));
}

TEST_F(VerdictTest, TheJsonHasWhatIsRecommendedAndTheSpeedUpOfTheFastest) {
  options_.price = 3.6;
  (void)Job();
  const common::Json faster = JsonOf(Of(0.25, 0.5, 0.5));
  std::vector<std::string> keys;
  for (const auto& [key, value] : faster.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("config", "step_time_s", "standard_error_s",
                                "steps", "tokens_per_s", "usd_per_step",
                                "usd_per_billion_tokens", "speed_up", "command",
                                "environment", "parameters"));
  EXPECT_EQ(faster["config"], Config(1));
  EXPECT_EQ(faster["steps"], 4);
  EXPECT_EQ(faster["tokens_per_s"], 4096.0);
  EXPECT_EQ(faster["speed_up"]["value"], 2.0);
  EXPECT_EQ(faster["parameters"]["microbatches"], 1);
  const common::Json kept = JsonOf(Of(0.75, 0.8, 0.5));
  EXPECT_EQ(kept["config"], "yours");
  EXPECT_EQ(kept["step_time_s"], 0.5);
  EXPECT_EQ(kept["speed_up"]["config"], Config(1));
  EXPECT_EQ(kept["parameters"]["microbatches"], 8);
  EXPECT_FALSE(JsonOf(Of(0.7, 0.8, std::nullopt)).contains("speed_up"));
}

TEST_F(VerdictTest, TheScriptRunsAndTheJsonIsSealed) {
  (void)Job();
  const Verdict verdict = Of(0.25, 0.5, 0.5);
  WriteBest(verdict, BestOf(*job_, verdict), *job_);
  const fs::path script = Path("oppa-results/tune/best.sh");
  EXPECT_THAT(fakes::ReadFile(script),
              testing::StartsWith("#!/bin/sh\n# " + Config(1) +
                                  "\n# It has the 6 steps of a trial: write "
                                  "your own.\n"));
  EXPECT_EQ(Call({script.string()}), 0) << errors_;
  EXPECT_THAT(output_, testing::HasSubstr(" took 0.012\n"));
  const fs::path file = Path("oppa-results/tune/best.json");
  common::Json json = trials::ReadRecord(file);
  EXPECT_EQ(json["record"], "best.json");
  json.erase("record");
  EXPECT_EQ(json, JsonOf(verdict));
}

}  // namespace jobs::finals_test
