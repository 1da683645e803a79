#include "harness/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/files.h"
#include "common/json.h"
#include "harness/method_text.h"
#include "tests/fakes/fake_predictions.h"
#include "tests/fakes/paths.h"

namespace harness {
namespace {

using testing::HasSubstr;

// `oppa methods --markdown > docs/methods.md` updates the page.
TEST(MethodsMarkdown, IsThePageOfTheDocumentation) {
  EXPECT_EQ(MethodsMarkdown(),
            common::ReadFile(fakes::SourceFolder() / "docs/methods.md"));
}

TEST(Registry, EveryDescribedDefaultIsAValidManifest) {
  const trials::SearchSpace space(std::vector<trials::ParallelConfig>(1));
  const methods::Problem problem{.space = &space,
                                 .memory_capacity_bytes = 1e9,
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

TEST(Registry, AVariantHasTheOptionsOfItsMethod) {
  for (const MethodEntry& method : Methods()) {
    if (!method.variant_of.empty()) {
      const MethodEntry* base = FindMethod(method.variant_of);
      ASSERT_NE(base, nullptr);
      EXPECT_EQ(method.options.size(), base->options.size());
    }
  }
}

TEST(MethodsText, ShowsKeyDefaultRangeAndMeaning) {
  EXPECT_THAT(MethodsText("oppa"),
              HasSubstr("q_min = 5  (an integer >= 1)\n    Steps before"));
  EXPECT_THAT(MethodsText("oppa-paper"),
              HasSubstr("throughput_prior = \"printed\""));
  const auto json = common::ParseJson(MethodsJson("oppa"), "text");
  EXPECT_EQ(json["options"][0]["key"], "throughput_prior");
  EXPECT_THAT([] { (void)MethodsText("opa"); },
              testing::ThrowsMessage<common::InputError>(
                  HasSubstr("unknown method 'opa' (did you mean 'oppa'?)")));
}

}  // namespace
}  // namespace harness
