#include "trials/programs/placeholders.h"

#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::placeholders_test {

using ::testing::HasSubstr;

const std::map<std::string, std::string> kValues = {
    {"tp", "4"}, {"a_9", "x"}, {"Fused Adam", "on"}};

TEST(Placeholders, NamesInBracesAreReplaced) {
  EXPECT_EQ(Expand("", kValues), "");
  EXPECT_EQ(Expand("tp", kValues), "tp");
  EXPECT_EQ(Expand("{tp}", kValues), "4");
  EXPECT_EQ(Expand("--tp={tp},{a_9}!", kValues), "--tp=4,x!");
  EXPECT_EQ(Expand("{Fused Adam}", kValues), "on");
}

TEST(Placeholders, TwoBracesAreTheTextItself) {
  EXPECT_EQ(Expand("{{tp}}", kValues), "{tp}");
  EXPECT_EQ(Expand("a{{tp}}b{tp}", kValues), "a{tp}b4");
  EXPECT_EQ(Expand("{{none}}", kValues), "{none}");
}

TEST(Placeholders, BracesAroundAnythingElseAreKept) {
  for (const char* word : {"{}", "{", "}", "a{b", "{ tp }", "{a-b}", "{A}",
                           "{\"tp\": 1}", "{{", "{{}}"}) {
    EXPECT_EQ(Expand(word, kValues), word);
  }
  EXPECT_EQ(Expand("{\"a\": {tp}}", kValues), "{\"a\": 4}");
  EXPECT_EQ(Expand("{{tp}", kValues), "4");
}

TEST(Placeholders, AnUnknownNameIsAnErrorWithARemedy) {
  for (const char* word : {"{tpp}", "{z}", "{0}", "{9}", "{_}"}) {
    EXPECT_THROW((void)Expand(word, kValues), std::invalid_argument) << word;
  }
  try {
    (void)Expand("{tpp}", {{"tp", "4"}});
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr("unknown placeholder '{tpp}'"));
    EXPECT_THAT(e.what(), HasSubstr("write {{tpp}} for the text itself"));
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
  auto values = Placeholders(BuiltInKnobs(), cluster, request, 48);
  EXPECT_EQ(values["gpus"], "15");
  EXPECT_EQ(values["nodes"], "3");
  EXPECT_EQ(values["gpus_per_node"], "5");
  EXPECT_EQ(values["max_steps"], "7");
  EXPECT_EQ(values["seed"], "11");
  EXPECT_EQ(values["micro_batch_size"], "6");
  EXPECT_EQ(values["config"], "dp=2,tp=1,pp=1,microbatches=4");
}

}  // namespace trials::placeholders_test
