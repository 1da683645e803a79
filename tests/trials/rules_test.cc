#include "trials/rules.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/parallel_config.h"

namespace trials::rules_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kRules =
    fakes::SourceFolder() / "experiments/rules";

bool Matches(const std::string& rule, const ParallelConfig& config = {},
             const Rule::Context& context = {}) {
  return Rule::Parse(rule, "test", "here:1").Matches(config, context);
}

std::string ParseError(const std::string& rule) {
  return fakes::ErrorOf(
      [&] { return Rule::Parse(rule, "test", "fig.toml:7:12"); });
}

// Precedence, signs, remainders from left to right, flags, aliases, and a
// microbatch size that follows from the batch.
TEST(Rules, ExpressionsCompareFieldsOfTheConfiguration) {
  const ParallelConfig config{.dp = 4,
                              .tp = 4,
                              .pp = 2,
                              .zero_stage = 2,
                              .microbatches = 8,
                              .overlap_p2p = true,
                              .sp = 4};
  const Rule::Context context = {{"num_gpus", 16}, {"batch_size", 64}};
  for (const char* rule : {"$zero_stage > 1 && $pp > 1",
                           "$zero_stage > 2 || $pp > 1",
                           "$dp - 2 * $pp <= 0",
                           "1 || 0 && 0",
                           "0 && 0 || 1",
                           "$tp = 4",
                           "$tp == 4",
                           "$tp != 2",
                           "$tp \u2260 2",
                           "$tp \u2264 4 && $tp \u2265 4",
                           "$num_gpus % ($pp * $tp) = 0",
                           "2 * 7 % 4 = 2",
                           "$overlap_p2p",
                           "$overlap_p2p = true",
                           "!$grad_checkpoint && $overlap_p2p",
                           "!($dp > 4)",
                           "$sequence_parallel && $sp = $tp",
                           "$mb = 8 && $microbatches = 8",
                           "!$gradient_checkpointing",
                           "$micro_batch_size = 2"}) {
    EXPECT_TRUE(Matches(rule, config, context)) << rule;
  }
  for (const char* rule :
       {"$zero_stage > 2 && $pp > 1", "(1 || 0) && 0", "$tp=2",
        "$tp >= 5 || $tp <= 3", "$num_gpus % ($pp * $tp + 1) = 0",
        "$overlap_p2p = false", "!$overlap_p2p", "!$sequence_parallel"}) {
    EXPECT_FALSE(Matches(rule, config, context)) << rule;
  }
  ParallelConfig given = config;
  given.micro_batch_size = 1;
  EXPECT_TRUE(Matches("$micro_batch_size = 1", given, context));
}

// Of 10,000, one rule removes 80%, one half of the rest, one 30% of the rest.
TEST(ChapterExercise3, RulesLeave700ConfigurationsOf10000) {
  std::vector<int> left = {10'000};
  std::vector<ParallelConfig> configs;
  for (int i = 0; i < left[0]; ++i) {
    configs.push_back({.dp = i % 10, .tp = i / 10 % 10, .pp = i / 100});
  }
  for (const char* rule : {"$dp > 1", "$tp > 4", "$pp >= 70"}) {
    std::erase_if(configs, [rule](const ParallelConfig& config) {
      return Matches(rule, config);
    });
    left.push_back(static_cast<int>(configs.size()));
  }
  EXPECT_THAT(left, testing::ElementsAre(10'000, 2'000, 1'000, 700));
}

TEST(Rules, ThreadsMayShareARule) {
  const Rule rule = Rule::Parse("$pp * $tp > 6", "test", "here:1");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&rule, &wrong, t] {
      for (int i = 1; i < 5000; ++i) {
        const ParallelConfig config{.tp = t + 1, .pp = i % 8 + 1};
        const bool expected = config.pp * config.tp > 6;
        wrong[t] += rule.Matches(config, {}) == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(Rules, UnknownVariableIsAnErrorWithPlaceAndRemedy) {
  EXPECT_THAT(
      ParseError("$pp > 1 && $zero_stag > 1"),
      AllOf(StartsWith("fig.toml:7:12: rule \"$pp > 1 && $zero_stag"),
            HasSubstr("character 12: unknown variable '$zero_stag'"),
            HasSubstr("did you mean 'zero_stage'?"), HasSubstr("batch_size")));
  EXPECT_THAT(ParseError("zero_stage > 1"), HasSubstr("write $zero_stage"));
  EXPECT_THAT(ParseError("$pp = None"), HasSubstr("unknown word 'None'"));
  EXPECT_THAT(ParseError("$ > 1"), HasSubstr("a variable's name must follow"));
}

TEST(Rules, SyntaxErrorsNameTheCharacter) {
  EXPECT_THAT(ParseError("$pp > 1 &&"), HasSubstr("character 11"));
  EXPECT_THAT(ParseError("$pp = 1 )"), HasSubstr("character 9"));
  EXPECT_THAT(ParseError("($pp > 1"), HasSubstr("rule \"($pp > 1\""));
  EXPECT_THAT(ParseError("  "), HasSubstr("a rule is empty"));
  EXPECT_THAT(ParseError("$pp > 1, $tp > 1"), HasSubstr("use && or ||"));
  EXPECT_THAT(ParseError("$pp > 1x"), HasSubstr("'1x' is not a number"));
  EXPECT_THAT(ParseError("$pp > 1; $tp"), HasSubstr("character 8"));
}

TEST(Rules, AVariableThatTheProblemLacksIsAnError) {
  EXPECT_THROW((void)Matches("$layers > 4"), common::InputError);
}

TEST(Rules, ARemainderOfADivisionByZeroIsAnError) {
  EXPECT_THROW((void)Matches("$dp % $zero_stage = 0"), common::InputError);
  EXPECT_TRUE(Matches("$dp % $zero_stage = 0", {.dp = 4, .zero_stage = 2}));
}

TEST(Rules, EveryRuleSetOfTheProjectCanBeRead) {
  int sets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRules)) {
    EXPECT_FALSE(ReadRuleSet(entry.path()).empty()) << entry.path();
    ++sets;
  }
  EXPECT_GE(sets, 2);
}

TEST(Rules, ColossalAiDropsHighZeroStagesUnderAPipelineAndInFp32) {
  const std::vector<Rule> rules = ReadRuleSet(kRules / "colossalai.rules");
  const auto dropped = [&](const ParallelConfig& config, double bits) {
    for (const Rule& rule : rules) {
      if (rule.Matches(config, {{"precision_bits", bits}})) {
        return true;
      }
    }
    return false;
  };
  EXPECT_FALSE(dropped({.dp = 8, .zero_stage = 2}, 16));
  EXPECT_TRUE(dropped({.dp = 8, .zero_stage = 3}, 16));
  EXPECT_FALSE(dropped({.dp = 4, .pp = 2, .zero_stage = 1}, 16));
  EXPECT_TRUE(dropped({.dp = 4, .pp = 2, .zero_stage = 2}, 16));
  EXPECT_TRUE(dropped({.dp = 8, .zero_stage = 1}, 32));
  EXPECT_FALSE(dropped({.dp = 8}, 32));
}

TEST(Rules, MegatronHasNoContextParallelWindowsOrSinks) {
  const std::vector<Rule> rules = ReadRuleSet(kRules / "megatron.rules");
  const auto dropped = [&](int cp, const Model& model) {
    const Workload workload{"m", model, 64, 512, Precision::kBf16};
    return std::ranges::any_of(rules, [&](const Rule& rule) {
      return rule.Matches({.dp = 8 / cp, .cp = cp}, RuleContext(workload, 8));
    });
  };
  Model model{.type = "llama"};
  model.layers = 4;
  model.hidden_size = 64;
  model.attention_heads = model.kv_heads = 4;
  model.head_size = 16;
  model.ffn_size = 128;
  EXPECT_FALSE(dropped(2, model));
  model.sinks = true;
  EXPECT_TRUE(dropped(2, model));
  EXPECT_FALSE(dropped(1, model));
  model.sinks = false;
  model.window = 128;
  model.windowed_share = 0.5;
  EXPECT_TRUE(dropped(2, model));
}

TEST(Rules, ReadsARuleSetWithCommentsAndNamesTheLineOfAnError) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "mine.rules";
  std::ofstream(path) << "# a set\n\n$pp > 2  # because\n\n"
                         "# Links are\n# slow. Source: us.\n$tp > 2\n";
  const std::vector<Rule> rules = ReadRuleSet(path);
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0].expression(), "$pp > 2");
  EXPECT_EQ(rules[0].origin(), "mine");
  EXPECT_EQ(rules[0].reason(), "$pp > 2");
  EXPECT_EQ(rules[1].reason(), "Links are slow");
  std::ofstream(path) << "# why\n$nope > 2\n";
  EXPECT_THAT(fakes::ErrorOf([&] { return ReadRuleSet(path); }),
              StartsWith(path.string() + ":2: rule \"$nope > 2\""));
  std::filesystem::remove(path);
  EXPECT_THROW((void)ReadRuleSet(path), common::InputError);
}

TEST(Rules, PrecisionIsANumberOfBits) {
  Workload workload;
  for (const auto& [precision, bits] :
       {std::pair{Precision::kFp32, 32}, std::pair{Precision::kBf16, 16},
        std::pair{Precision::kFp16, 16}, std::pair{Precision::kFp8, 16}}) {
    workload.precision = precision;
    EXPECT_EQ(Rule::Parse("$precision_bits", "test", "here:1")
                  .Value({}, RuleContext(workload, 8)),
              bits);
  }
}

TEST(Rules, ReadTheSizesOfTheModelAndOfTheJob) {
  Workload workload;
  workload.batch_size = 3;
  workload.sequence_length = 5;
  workload.model = {.layers = 7,
                    .hidden_size = 17,
                    .attention_heads = 11,
                    .kv_heads = 13,
                    .ffn_size = 19,
                    .vocab_size = 23,
                    .experts = 29};
  for (const auto& [name, value] :
       {std::pair{"$batch_size", 3}, std::pair{"$sequence_length", 5},
        std::pair{"$layers", 7}, std::pair{"$heads", 11},
        std::pair{"$kv_heads", 13}, std::pair{"$hidden_size", 17},
        std::pair{"$ffn_size", 19}, std::pair{"$vocab_size", 23},
        std::pair{"$experts", 29}, std::pair{"$num_gpus", 31}}) {
    EXPECT_EQ(Rule::Parse(name, "test", "here:1")
                  .Value({}, RuleContext(workload, 31)),
              value)
        << name;
  }
}

}  // namespace trials::rules_test
