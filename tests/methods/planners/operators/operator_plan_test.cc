#include "methods/planners/operators/operator_plan.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace methods::operator_plan_test {

using testing::HasSubstr;

// Two stages of two and three operators.
OperatorPlan Plan() {
  OperatorPlan plan;
  plan.micro_batch = 4;
  plan.first = {0, 2, 5};
  plan.choices = {
      {1, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 0, 1}, {0, 1, 0, 1}, {0, 1, 0, 0}};
  return plan;
}

TEST(OperatorPlan, TextHasTheSizesAndWhatIsRecomputed) {
  OperatorPlan plan = Plan();
  EXPECT_EQ(ToString(plan),
            "2 stages, microbatch 4: 2 x tp2 dp4 | 3 x tp1 dp2 (2 recomputed)");
  plan.choices[1].tp_log2 = 0;
  EXPECT_THAT(ToString(plan), HasSubstr("2 x tp2 dp4 mixed |"));
  plan = Plan();
  plan.choices[4].variant = 1;
  EXPECT_THAT(ToString(plan), HasSubstr("3 x tp1 dp2 mixed (2"));
}

TEST(OperatorPlan, TheFileHasTheSizesOfEveryOperator) {
  const std::string text = ToJsonText({Plan(), 64});
  EXPECT_EQ(ParsePlan(text, "text").plan, Plan());
  std::string compact;
  for (const char c : text) {
    compact += c == ' ' || c == '\n' ? "" : std::string(1, c);
  }
  for (const char* part : {"\"global_batch_size\":64", "\"micro_batch_size\":4",
                           "\"num_stages\":2", "\"num_gpus\":[8,2]",
                           "\"num_ops_in_each_stage\":[2,3]",
                           "\"model_parallel_size_of_each_op\":[[2,2],[1,1,1]]",
                           "\"data_parallel_size_of_each_op\":[[4,4],[2,2,2]]",
                           "\"recompute_ops\":[[0,0],[1,1,0]]",
                           "\"algo_of_each_op\":[[0,0],[0,0,0]]"}) {
    EXPECT_THAT(compact, HasSubstr(part));
  }
}

// One stage of one operator, with one value replaced.
std::string Error(const std::string& key, const std::string& value) {
  const auto list = [&](const std::string& name, const std::string& usual) {
    return "\"" + name + "\": " + (name == key ? value : usual);
  };
  try {
    const PlanFile file =
        ParsePlan("{" + list("global_batch_size", "8") + "," +
                      list("micro_batch_size", "1") + "," +
                      list("num_ops_in_each_stage", "[1]") + "," +
                      list("model_parallel_size_of_each_op", "[[1]]") + "," +
                      list("data_parallel_size_of_each_op", "[[1]]") + "," +
                      list("recompute_ops", "[[0]]") + "," +
                      list("algo_of_each_op", "[[0]]") + "}",
                  "plan.json");
    return "none, batch " + std::to_string(file.batch);
  } catch (const common::InputError& e) {
    return e.what();
  }
}

TEST(OperatorPlan, MistakesNameTheKeyAndTheRule) {
  EXPECT_EQ(Error("", ""), "none, batch 8");
  for (const char* key : {"global_batch_size", "micro_batch_size"}) {
    EXPECT_THAT(Error(key, "0"), HasSubstr("must be positive")) << key;
    EXPECT_THAT(Error(key, "1"), HasSubstr("none")) << key;
  }
  EXPECT_THAT(Error("num_ops_in_each_stage", "[]"),
              HasSubstr("must be positive"));
  EXPECT_THAT(Error("num_ops_in_each_stage", "[0]"),
              HasSubstr("each must be at least 1, together at most 1000000"));
  EXPECT_THAT(Error("num_ops_in_each_stage", "[600000, 400001]"),
              HasSubstr("together at most 1000000"));
  EXPECT_THAT(Error("num_ops_in_each_stage", "[600000, 400000]"),
              HasSubstr("stage 1 must have 600000 values"));
  EXPECT_THAT(Error("num_ops_in_each_stage", "[1, 2]"),
              HasSubstr("stage 2 must have 2 values"));
  for (const char* value : {"0", "-1", "3"}) {
    EXPECT_THAT(Error("data_parallel_size_of_each_op",
                      "[[" + std::string(value) + "]]"),
                HasSubstr(std::string("data_parallel_size_of_each_op: ") +
                          value + ": must be a power of two"));
  }
  EXPECT_THAT(Error("recompute_ops", "[[8]]"),
              HasSubstr("8: must be from 0 to 7"));
  EXPECT_THAT(Error("recompute_ops", "[[-1]]"),
              HasSubstr("-1: must be from 0 to 7"));
  EXPECT_THAT(Error("recompute_ops", "[[7]]"), HasSubstr("none"));
}

}  // namespace methods::operator_plan_test
