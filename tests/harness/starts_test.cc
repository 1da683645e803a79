
#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/experiment.h"
#include "harness/run_one.h"
#include "harness/testbeds/testbeds.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/harness/manifest_checks.h"
#include "trials/record.h"

namespace harness::starts_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Replays a table with sequence parallelism of sizes 1, 2, 4 and 8 over ranks
// of its own: dp * tp * pp * sp = 16. Long sequences run with sp > 1 only.
class StartsTest : public testing::Test {
 protected:
  StartsTest() {
    std::ofstream table(folder_.path() / "table.csv");
    table << "scenario,gpus,dp,tp,pp,sp,zero_stage,microbatches,status,"
             "step_time_s,peak_memory_gb\n";
    for (const int tp : {1, 2}) {
      for (const int pp : {1, 2}) {
        for (const int sp : {1, 2, 4, 8}) {
          for (const int zero : {0, 1}) {
            const int dp = 16 / (tp * pp * sp);
            if (dp < 1) {
              continue;
            }
            const double memory = 20.0 / (tp * pp) + 100.0 / (tp * sp);
            const double time =
                1.0 + 0.1 * tp + 0.2 * pp + 0.05 * sp + 0.01 * zero;
            const bool fits = memory < 80.0;
            table << fmt::format("long,16,{},{},{},{},{},{},{},{},{}\n", dp, tp,
                                 pp, sp, zero, 4, fits ? "ok" : "oom",
                                 fits ? fmt::format("{}", time) : "",
                                 fits ? fmt::format("{}", memory) : "");
          }
        }
      }
    }
  }

  Manifest Read(const std::string& experiment) {
    const auto path = folder_.path() / "m.toml";
    std::ofstream(path) << fmt::format(
        "[experiment]\nmethods = [\"random\", \"xgboost\", \"oppa\"]\n"
        "repeats = 2\n{}\n"
        "[backend]\ntype = \"replay\"\ntable = \"{}\"\nscenarios = \"long\"\n"
        "[cluster]\nfile = \"{}\"\n"
        "[budget]\ntrials = 12\nq_max = 3\n",
        experiment, (folder_.path() / "table.csv").string(),
        (fakes::SourceFolder() / "experiments/clusters/h100-efa.toml")
            .string());
    return ReadManifest(path);
  }

  static std::vector<std::string> Configs(const Manifest& manifest,
                                          int repeat) {
    const Testbed testbed = MakeTestbed(manifest.problems.front());
    std::vector<std::string> configs;
    for (const methods::Suggestion& start : StartsOf(
             manifest, manifest.problems.front(), repeat, *testbed.space)) {
      configs.push_back(
          fmt::format("{} {}", ToString(start.chosen_by),
                      ToString((*testbed.space)[start.candidate])));
    }
    return configs;
  }

  std::string Error(const std::string& experiment) {
    return ErrorOf([&] { return CheckManifest(Read(experiment)); });
  }

  std::vector<trials::Trial> Run(const Manifest& manifest,
                                 const std::string& method, int repeat) {
    const RunSpec run = FindRun(manifest, "", method, repeat);
    const auto folder = folder_.path() / "results";
    EXPECT_TRUE(RunOne({manifest, folder}, run, {}));
    return trials::ReadTrials(run.Folder(folder));
  }

  fakes::TemporaryFolder folder_;
};

TEST_F(StartsTest, OppaSearchesATableWithSizesOfSequenceParallelism) {
  const Manifest manifest = Read("");
  const auto records = Run(manifest, "oppa", 1);
  ASSERT_EQ(records.size(), 12U);
  std::set<int> sizes;
  double best = 0.0;
  for (const trials::Trial& trial : records) {
    sizes.insert(trial.config.sp);
    best = std::max(best, trial.exact_steps_per_s);
  }
  EXPECT_GT(sizes.size(), 1U);
  // The optimum takes 1.4 s; the median configuration that fits, 1.65 s.
  EXPECT_GE(best, 0.96 / 1.4);
}

TEST_F(StartsTest, NamedConfigurationsComeFirstAndMayLeaveOutParameters) {
  const Manifest manifest =
      Read("start = [\"dp=16,zero_stage=1\", \"tp=2,sp=8,microbatches=4\"]");
  EXPECT_THAT(Configs(manifest, 1),
              ElementsAre("given dp=16,tp=1,pp=1,zero_stage=1,microbatches=4",
                          "given dp=1,tp=2,pp=1,microbatches=4,sp=8"));
  EXPECT_EQ(Configs(manifest, 1), Configs(manifest, 2));
}

TEST_F(StartsTest, CommonStartsAreThoseOfTheRepeatForEveryMethod) {
  const Manifest manifest = Read("common_starts = 10");
  const std::vector<std::string> first = Configs(manifest, 1);
  ASSERT_EQ(first.size(), 10U);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 10U);
  EXPECT_NE(first, Configs(manifest, 2));
  for (const char* method : {"random", "xgboost", "oppa"}) {
    const auto records = Run(manifest, method, 1);
    ASSERT_EQ(records.size(), 12U);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ("random " + ToString(records[i].config), first[i]);
      EXPECT_EQ(records[i].chosen_by, trials::ChosenBy::kRandom);
    }
  }
}

TEST_F(StartsTest, CommonStartsAreDrawnFromTheConfigurationsThatAreNotNamed) {
  const std::vector<std::string> starts =
      Configs(Read("start = \"dp=16,zero_stage=1\"\ncommon_starts = 29"), 1);
  EXPECT_EQ(std::set(starts.begin(), starts.end()).size(), 30U);
  EXPECT_THAT(starts.front(), HasSubstr("given dp=16"));
}

TEST_F(StartsTest, AnImpossibleStartIsAnErrorWithItsPlace) {
  EXPECT_THAT(
      Error("start = [\"ddp=8\"]"),
      AllOf(HasSubstr("m.toml:4:"),
            HasSubstr("start 'ddp=8': unknown field 'ddp' (did you mean "
                      "'dp'?)")));
  EXPECT_THAT(Error("start = [\"dp=32\"]"),
              AllOf(HasSubstr("m.toml:4:"),
                    HasSubstr("start 'dp=32': not in the search space")));
  EXPECT_THAT(Error("start = [\"dp=16\", \"dp=16,microbatches=4\"]"),
              HasSubstr("is already named"));
  EXPECT_THAT(Error("common_starts = 31"),
              AllOf(HasSubstr("m.toml:4:"),
                    HasSubstr("has only 30 other configurations")));
  EXPECT_THAT(Error("common_starts = -1"), HasSubstr("m.toml:4:"));
  EXPECT_THAT(Error("common_starts = 12"),
              AllOf(HasSubstr("m.toml:4:"),
                    HasSubstr("12 starts in a budget of 12 trials")));
  EXPECT_EQ(Error("common_starts = 11"), "no error");
}

TEST_F(StartsTest, OnlyStartsThatAreSetAreInTheHashOfARun) {
  const std::string none = HashOf(Read(""));
  EXPECT_EQ(HashOf(Read("start = []\ncommon_starts = 0")), none);
  EXPECT_NE(HashOf(Read("common_starts = 3")), none);
  EXPECT_NE(HashOf(Read("start = [\"dp=16\"]")), none);
}

}  // namespace harness::starts_test
