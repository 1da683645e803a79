#include "trials/adapters/placeholders.h"

#include <map>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"

namespace trials::placeholders_test {

using testing::HasSubstr;

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

TEST(Placeholders, ALiteralIsWhatExpandMakesOfIt) {
  for (const char* text : {"", "a", "{tp}", "a{tp}/{none}b", "{{tp}}", "{a-b}",
                           "{", "}{tp", "{ tp }{tp}{tp}"}) {
    EXPECT_EQ(Expand(Literal(text), kValues), text);
  }
}

TEST(Placeholders, AnUnknownNameIsAnErrorWithARemedy) {
  for (const char* word : {"{tpp}", "{z}", "{0}", "{9}", "{_}"}) {
    EXPECT_THROW((void)Expand(word, kValues), std::invalid_argument) << word;
  }
  EXPECT_THAT(fakes::ErrorOf([&] {
                return Expand("{tpp}", {{"tp", "4"}});
              }),
              testing::AllOf(HasSubstr("unknown placeholder '{tpp}'"),
                             HasSubstr("write {{tpp}} for the text itself")));
}

}  // namespace trials::placeholders_test
