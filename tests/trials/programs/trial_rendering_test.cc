#include "trials/programs/trial_rendering.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "trials/custom_knobs.h"
#include "trials/knobs.h"

namespace trials::trial_rendering_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes of four GPUs, and a batch of 48.
class TrialRendering : public testing::Test {
 protected:
  TrialRendering() {
    cluster_.nodes = 2;
    cluster_.gpus_per_node = 4;
    options_.program = {"train", "--tp={tp}"};
    options_.folder = "/job";
    options_.workload.batch_size = 48;
    request_.candidate = ParallelConfig{.dp = 4, .tp = 2, .microbatches = 4};
    request_.max_steps = 7;
  }

  CommandOptions options_;
  Cluster cluster_;
  TrialRequest request_;
};

TEST_F(TrialRendering, OneProcessIsStartedAsItIs) {
  EXPECT_THAT(TrialWords(options_, cluster_, request_),
              ElementsAre("train", "--tp=2"));
}

TEST_F(TrialRendering, RanksAreStartedOnEachNodeOrGpu) {
  options_.rank_wrapper = {"wrap"};
  options_.ranks = CommandOptions::Ranks::kPerNode;
  EXPECT_THAT(
      TrialWords(options_, cluster_, request_),
      ElementsAre("srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1",
                  "--overcommit", "--kill-on-bad-exit=1", "--input=none",
                  "--export=ALL", "--chdir=/job", "wrap", "--", "train",
                  "--tp=2"));
  options_.ranks = CommandOptions::Ranks::kPerGpu;
  const auto words = TrialWords(options_, cluster_, request_);
  EXPECT_EQ(words.at(2), "--ntasks=8");
  EXPECT_EQ(words.at(3), "--ntasks-per-node=4");
}

TEST_F(TrialRendering, HostsGetTheProgramBySsh) {
  options_.rank_wrapper = {"oppa", "contain"};
  options_.ranks = CommandOptions::Ranks::kPerNode;
  options_.hosts = {"me@a", "b", "c"};
  options_.environment = {"X=1"};
  options_.program = {"train", "{node_rank}", "{master_addr}"};
  EXPECT_THAT(
      TrialWords(options_, cluster_, request_),
      ElementsAre("oppa", "contain", "--hosts", "me@a,b", "--folder", "/job",
                  "--", "env", "X=1", "train", "{node_rank}", "a"));
  EXPECT_THAT(RenderJob(options_, cluster_, request_, "").words,
              ElementsAre("train", "{node_rank}", "{master_addr}"));
  options_.ranks = CommandOptions::Ranks::kOne;  // on one node
  EXPECT_THAT(TrialWords(options_, cluster_, request_),
              ElementsAre("train", "0", "localhost"));
}

// A program whose words name no parameter reads them from the environment.
TEST_F(TrialRendering, AProgramGetsItsParametersInWordsOrInTheEnvironment) {
  EXPECT_THAT(RenderJob(options_, cluster_, request_, "").environment,
              IsEmpty());
  options_.program = {"train", "--config={config}"};
  EXPECT_THAT(RenderJob(options_, cluster_, request_, "").environment,
              IsEmpty());
  options_.program = {"train", "--steps={max_steps}", "--gpus={gpus}"};
  const RenderedJob job = RenderJob(options_, cluster_, request_, "");
  EXPECT_THAT(job.words, ElementsAre("train", "--steps=7", "--gpus=8"));
  ASSERT_EQ(job.environment.size(), 1u);
  const std::string& variable = job.environment.front();
  ASSERT_TRUE(variable.starts_with("OPPA_TRIAL="));
  const auto json = common::ParseJson(variable.substr(11), "environment");
  EXPECT_EQ(json.at("nodes"), 2);
  EXPECT_EQ(json.at("gpus_per_node"), 4);
  EXPECT_EQ(json.at("config").at("tp"), 2);
  EXPECT_EQ(json.at("config").at("micro_batch_size"), 3);
}

// 48 sequences on 8 GPUs: tp and pp decide dp, and the microbatch the number of
// microbatches.
TEST_F(TrialRendering, WordsThatDoNotTellConfigurationsApartLackParameters) {
  std::vector<ParallelConfig> configs;
  for (const int tp : {1, 2}) {
    for (const int pp : {1, 2}) {
      const int dp = 8 / tp / pp;
      for (const int microbatches : {1, 2}) {
        configs.push_back(
            {.dp = dp, .tp = tp, .pp = pp, .microbatches = microbatches});
      }
    }
  }
  const SearchSpace space(configs);
  const auto unnamed = [&](const std::vector<std::string>& words) {
    options_.program = words;
    return UnnamedParameters(options_, space);
  };
  EXPECT_THAT(unnamed({"train", "--tp={tp}", "{pp}", "{micro_batch_size}"}),
              IsEmpty());
  EXPECT_THAT(unnamed({"train", "--tp={tp}", "{microbatches}"}),
              ElementsAre("dp", "micro_batch_size", "pp"));
  EXPECT_THAT(unnamed({"train", "{config}", "{tp}"}), IsEmpty());
  EXPECT_THAT(unnamed({"train", "{max_steps}"}), IsEmpty()) << "OPPA_TRIAL";
}

TEST_F(TrialRendering, ParametersOfYourOwnHaveTheirType) {
  const KnobSet knobs = ReadCustomKnobs(
      common::TomlTable::ParseString("[space.custom]\n"
                                     "word = ['flash', 'sdpa']\n"
                                     "number = [0.5, 1]\n"
                                     "yes = [true, false]\n",
                                     "m.toml")
          .GetTable("space"));
  const auto json = ParametersAsJson(knobs, {.dp = 2}, 48);
  EXPECT_EQ(json.at("dp"), 2);
  EXPECT_EQ(json.at("word"), "flash");
  EXPECT_EQ(json.at("number"), 0.5);
  EXPECT_EQ(json.at("yes"), true);
}

TEST_F(TrialRendering, TheEnvironmentSaysWhatToTry) {
  options_.environment = {"A=b=c", "OPPA_SEED=5"};
  options_.timeout_s = 100.0;
  request_.time_limit_s = 60.0;
  ::setenv("OPPA_TEST_VARIABLE", "x=y", 1);
  const auto environment = TrialEnvironment(options_, cluster_, request_);
  EXPECT_THAT(environment, testing::Contains("OPPA_TEST_VARIABLE=x=y"));
  ::unsetenv("OPPA_TEST_VARIABLE");
  for (const char* variable : {"A=b=c", "OPPA_SEED=5", "OPPA_MAX_STEPS=7",
                               "OPPA_TP=2", "OPPA_MICRO_BATCH_SIZE=3"}) {
    EXPECT_THAT(environment, testing::Contains(variable));
  }
  const auto time_limit_s = [&] {
    for (const std::string& variable :
         TrialEnvironment(options_, cluster_, request_)) {
      if (variable.starts_with("OPPA_TRIAL=")) {
        return common::ParseJson(variable.substr(11), "environment")
            .at("time_limit_s")
            .get<double>();
      }
    }
    return 0.0;
  };
  EXPECT_EQ(time_limit_s(), 60.0);
  request_.time_limit_s = 200.0;
  EXPECT_EQ(time_limit_s(), 100.0);
}

// Else Python holds the lines of a log back until the trial ends.
TEST_F(TrialRendering, PythonPrintsALogAtOnceUnlessItsVariableIsSet) {
  const char* const before = std::getenv("PYTHONUNBUFFERED");
  const std::string value = before == nullptr ? "" : before;
  ::unsetenv("PYTHONUNBUFFERED");
  const auto unbuffered = [this] {
    std::string found = "none";
    for (const std::string& variable :
         TrialEnvironment(options_, cluster_, request_)) {
      if (variable.starts_with("PYTHONUNBUFFERED=")) {
        found = variable.substr(17);
      }
    }
    return found;
  };
  EXPECT_EQ(unbuffered(), "none");
  options_.log = std::make_shared<const LogPatterns>();
  EXPECT_EQ(unbuffered(), "1");
  ::setenv("PYTHONUNBUFFERED", "0", 1);
  EXPECT_EQ(unbuffered(), "0");
  if (before == nullptr) {
    ::unsetenv("PYTHONUNBUFFERED");
  } else {
    ::setenv("PYTHONUNBUFFERED", value.c_str(), 1);
  }
}

// 48 sequences over 2 replicas and 4 microbatches.
TEST(Placeholders, AMicrobatchThatIsNotGivenFollowsFromTheBatch) {
  const Knob& size = BuiltInKnobs().Require("micro_batch_size");
  ParallelConfig config{.dp = 2, .microbatches = 4};
  EXPECT_EQ(ValueOf(size, config, 48), 6);
  EXPECT_EQ(ValueOf(size, config, 8), 1);
  EXPECT_EQ(ValueOf(size, {}, 1), 1);
  EXPECT_EQ(ValueOf(size, config, 0), 0);
  config.micro_batch_size = 3;
  EXPECT_EQ(ValueOf(size, config, 48), 3);
  config.zero_stage = 0;
  EXPECT_EQ(ValueOf(BuiltInKnobs().Require("zero_stage"), config, 48), 0);
}

TEST(Placeholders, SayWhatToTryAndWhere) {
  Cluster cluster;
  cluster.nodes = 3;
  cluster.gpus_per_node = 5;
  TrialRequest request;
  request.candidate = ParallelConfig{.dp = 2, .microbatches = 4};
  request.max_steps = 7;
  request.seed = 11;
  CommandOptions options;
  options.workload.batch_size = 48;
  auto values = Placeholders(options, cluster, request);
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"gpus", "15"},
           {"nodes", "3"},
           {"gpus_per_node", "5"},
           {"max_steps", "7"},
           {"seed", "11"},
           {"micro_batch_size", "6"},
           {"config", "dp=2,tp=1,pp=1,microbatches=4"}}) {
    EXPECT_EQ(values[name], value) << name;
  }
}

}  // namespace trials::trial_rendering_test
