#include "trials/constraints.h"

#include <random>
#include <regex>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/files.h"
#include "tests/fakes/paths.h"
#include "trials/rules.h"

namespace trials::constraints_test {

using ::testing::HasSubstr;

Workload SmallWorkload() {
  Workload workload;
  workload.model.layers = 6;
  workload.model.attention_heads = 12;
  workload.model.kv_heads = 4;
  workload.model.experts = 6;
  workload.batch_size = 24;
  workload.sequence_length = 10;
  return workload;
}

TEST(Constraints, RulesInWordsAreThePredicates) {
  std::mt19937 random(1);
  const auto number = [&](int most) {
    return std::uniform_int_distribution<int>(1, most)(random);
  };
  for (const Constraint& constraint : Constraints()) {
    const Rule rule =
        Rule::Parse(std::regex_replace(std::string(constraint.rule),
                                       std::regex("[a-z_]+"), "$$$&"),
                    "test", "here");
    int broken = 0;
    for (int i = 0; i < 2000; ++i) {
      Workload workload = SmallWorkload();
      workload.model.experts = number(2) == 1 ? 0 : 6;
      const ParallelConfig config{.dp = number(4),
                                  .tp = number(6),
                                  .pp = number(4),
                                  .microbatches = number(6),
                                  .model_chunks = number(3),
                                  .micro_batch_size = number(4),
                                  .ep = number(4),
                                  .cp = number(3),
                                  .sp = number(4),
                                  .dp_replicate = number(3),
                                  .etp = number(2)};
      const bool is_broken = constraint.broken(config, {workload, 8});
      if (constraint.rule == "dp % ep != 0" && config.etp == 1) {
        continue;  // relaxed
      }
      ASSERT_EQ(rule.Matches(config, RuleContext(workload, 8)), is_broken)
          << constraint.rule << " for " << ToString(config);
      broken += is_broken ? 1 : 0;
    }
    EXPECT_GT(broken, 0) << constraint.rule;
    EXPECT_LT(broken, 2000) << constraint.rule;
  }
}

TEST(Constraints, AProblemNamesTheRequirementAndTheValues) {
  const Workload workload = SmallWorkload();
  EXPECT_EQ(ConfigProblem({.dp = 2, .tp = 4}, {workload, 8}), "");
  EXPECT_EQ(ConfigProblem({.tp = 8}, {workload, 8}),
            "tp must divide the number of attention heads (heads = 12, tp = "
            "8)");
  EXPECT_EQ(ConfigProblem({.dp = 0}, {workload, 8}),
            "invalid value '0' for dp: an integer from 1");
  EXPECT_THAT(ConfigProblem({.dp = 8, .micro_batch_size = 2}, {workload, 8}),
              HasSubstr("must be the batch size (batch_size = 24, dp = 8, "
                        "micro_batch_size = 2, microbatches = 1)"));
}

TEST(Constraints, ARelaxationLiftsOneConstraint) {
  const Workload workload = SmallWorkload();
  const ParallelConfig replicated{.tp = 6};
  EXPECT_THAT(ConfigProblem(replicated, {workload, 6}),
              HasSubstr("key-value heads"));
  EXPECT_EQ(ConfigProblem(
                replicated,
                {.workload = workload, .gpus = 6, .replicated_kv_heads = true}),
            "");
  const ParallelConfig unfilled{.pp = 4, .microbatches = 2};
  for (const int stages : {0, 1, 2}) {
    EXPECT_EQ(ConfigProblem(
                  unfilled,
                  {.workload = workload, .gpus = 4, .unfilled_stages = stages})
                  .empty(),
              stages == 2);
  }
  const ParallelConfig empty{.pp = 8, .microbatches = 8};
  EXPECT_EQ(ConfigProblem(
                empty,
                {.workload = workload, .any_gpus = true, .empty_stages = true}),
            "");
  EXPECT_THAT(ConfigProblem(empty, {workload, 8}), HasSubstr("(layers = 6"));
}

TEST(Constraints, TheDocumentationHasTheTable) {
  EXPECT_THAT(common::ReadFile(fakes::SourceFolder() / "docs/search_space.md"),
              HasSubstr(ConstraintTable()));
}

}  // namespace trials::constraints_test
