#include "harness/registry.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/json.h"
#include "common/toml_table.h"
#include "harness/manifest/method_text.h"
#include "harness/spec.h"
#include "tests/fakes/decoders.h"
#include "tests/fakes/fake_predictions.h"

namespace harness::registry_test {

using testing::HasSubstr;

TEST(MethodsMarkdown, ListsEveryMethodAndOption) {
  const std::string page = MethodsMarkdown();
  for (const MethodEntry& method : Methods()) {
    EXPECT_THAT(page, HasSubstr("\n## " + method.name + "\n"));
    if (method.variant_of.empty()) {
      for (const methods::OptionText& option : method.options) {
        EXPECT_THAT(page,
                    HasSubstr(fmt::format("| `{}` | {} | {} |", option.key,
                                          option.value, option.range)));
      }
    }
  }
}

TEST(Registry, EveryDescribedDefaultIsAValidManifest) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>(1));
  const trials::Workload workload = fakes::Decoder{}.Workload();
  const methods::Problem problem{
      .space = &space,
      .machine = trials::GpuType{.memory_bytes = 1e9},
      .workload = &workload,
      .q_max = 10,
      .predict = fakes::PredictionsOf(space)};
  for (const MethodEntry& method : Methods()) {
    std::string text;
    for (const methods::OptionText& option : method.options) {
      text += option.key + " = " + option.value + "\n";
    }
    MethodSpec spec;
    spec.name = spec.base = method.name;
    spec.options = common::TomlTable::ParseString(text, "m.toml");
    EXPECT_NO_THROW((void)MakeMethod(spec, problem, 1)) << method.name;
  }
}

// The value of an option of a method, in TOML.
std::string Default(const std::string& method, const std::string& key) {
  for (const methods::OptionText& option : FindMethod(method)->options) {
    if (option.key == key) {
      return option.value;
    }
  }
  return "no option " + key;
}

// App. H.2: a constant mean, Matern-5/2 and cUCB.
TEST(Registry, VanillaBoHasNothingThatOppaAdds) {
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"throughput_prior", "\"none\""},
           {"memory_prior", "\"none\""},
           {"early_termination", "false"},
           {"draw", "\"uniform\""},
           {"failures_before_random", "0"},
           {"neutral_inactive_parameters", "false"},
           {"integrate_coefficients", "false"},
           {"encoding", "\"linear\""},
           {"learn_nugget", "false"}}) {
    EXPECT_EQ(Default("vanilla-bo", key), value) << key;
  }
}

// The ablations that remove one mechanism of the paper, and what they remove.
TEST(Registry, AnAblationRemovesOneThing) {
  using Keys = std::set<std::string>;
  const std::map<std::string, Keys> removed = {
      {"oppa-no-throughput-prior", {"throughput_prior"}},
      {"oppa-no-memory-prior", {"memory_prior"}},
      {"oppa-no-prior", {"throughput_prior", "memory_prior"}},
      {"oppa-no-early-termination", {"early_termination"}},
      {"oppa-no-prior-no-early-termination",
       {"throughput_prior", "memory_prior", "early_termination"}},
      {"oppa-paper-no-prior", {"throughput_prior", "memory_prior"}},
      {"oppa-paper-no-early-termination", {"early_termination"}},
      {"oppa-paper-neither",
       {"throughput_prior", "memory_prior", "early_termination"}}};
  for (const auto& [name, keys] : removed) {
    const std::string whole =
        name.starts_with("oppa-paper") ? "oppa-paper" : "oppa";
    ASSERT_NE(FindMethod(name), nullptr) << name;
    Keys different;
    for (const methods::OptionText& option : FindMethod(name)->options) {
      if (option.value != Default(whole, option.key)) {
        different.insert(option.key);
      }
    }
    EXPECT_EQ(different, keys) << name;
  }
}

TEST(Registry, TheCostModelIsThePrintedOneAndThePhysicalOneHasItsOwnName) {
  EXPECT_EQ(Default("cost-model", "form"), "\"printed\"");
  EXPECT_EQ(Default("cost-model-physical", "form"), "\"physical\"");
}

TEST(Registry, ATrialMustHaveAStepAfterTheWarmUp) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>(1));
  methods::Problem problem{.space = &space,
                           .machine = trials::GpuType{.memory_bytes = 1e9},
                           .q_max = 1};
  const MethodSpec random{.name = "random", .base = "random"};
  EXPECT_THAT(
      [&] { (void)MakeMethod(random, problem, 1); },
      testing::ThrowsMessage<common::InputError>(HasSubstr("raise q_max")));
  problem.q_max = 2;
  EXPECT_NO_THROW((void)MakeMethod(random, problem, 1));
}

TEST(Registry, PlansAreRefusedWhereTrialsCannotRunThem) {
  const trials::Workload workload = fakes::Decoder{}.Workload();
  const trials::SearchSpace space({{.dp = 8}, {.dp = 4, .tp = 2}});
  methods::Problem problem{
      .space = &space,
      .machine =
          trials::GpuType{.gpus = 8, .gpus_per_node = 8, .memory_bytes = 80e9},
      .workload = &workload,
      .q_max = 10};
  const MethodSpec plans{.name = "plans",
                         .base = "aceso",
                         .options = common::TomlTable::ParseString(
                             "judge = \"plan\"\nbudget = 20", "m.toml")};
  EXPECT_THAT([&] { (void)MakeMethod(plans, problem, 1); },
              testing::ThrowsMessage<common::InputError>(
                  testing::AllOf(HasSubstr("1:"), HasSubstr("cannot run plans"),
                                 HasSubstr("use \"nearest\""))));
  problem.runs_plans = true;
  EXPECT_TRUE(MakeMethod(plans, problem, 1)->Suggest()->outside);
}

TEST(MethodsText, ShowsKeyDefaultRangeAndMeaning) {
  EXPECT_THAT(MethodsText("oppa"),
              HasSubstr("q_min = 5  (an integer >= 1)\n    Steps before"));
  EXPECT_THAT(MethodsText("oppa-paper"),
              HasSubstr("throughput_prior = \"printed\""));
  const auto json = common::ParseJson(MethodsJson("oppa"), "text");
  EXPECT_TRUE(std::ranges::any_of(json["options"], [](const auto& option) {
    return option["key"] == "throughput_prior";
  }));
  EXPECT_THAT([] { (void)MethodsText("opa"); },
              testing::ThrowsMessage<common::InputError>(
                  HasSubstr("unknown method 'opa' (did you mean 'oppa'?)")));
}

}  // namespace harness::registry_test
