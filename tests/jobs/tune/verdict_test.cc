#include "jobs/tune/verdict.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json.h"
#include "tests/jobs/tune/tune_job_fixture.h"

namespace jobs::verdict_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two rounds of steps at `mean_s` plus and minus `spread_s`.
Finalist Ran(const std::string& config, double mean_s, double spread_s = 0.0) {
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
  EXPECT_THAT(output_, testing::StartsWith("took 0.012\n"));
  const fs::path file = Path("oppa-results/tune/best.json");
  common::Json json = common::ReadJson(file);
  EXPECT_TRUE(common::Unseal(json, file.string()));
  EXPECT_EQ(json, JsonOf(verdict));
}

}  // namespace jobs::verdict_test
