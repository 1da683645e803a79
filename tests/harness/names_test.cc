#include "harness/names.h"

#include <string>

#include <gtest/gtest.h>

namespace harness::names_test {

TEST(IsSafeName, KeepsToTheResultsFolder) {
  for (const char* name : {"a", "qwen2-1.5b_b64", "0", "My Job", "A"}) {
    EXPECT_TRUE(IsSafeName(name)) << name;
  }
  for (const std::string& name :
       {std::string("."), std::string(".."), std::string("-x"),
        std::string("a/b"), std::string(" a"), std::string("figures"),
        std::string("summary.csv"), std::string("experiment.json"),
        std::string("a "), std::string("a\nb"), std::string("$x"),
        std::string(), std::string(65, 'a')}) {
    EXPECT_FALSE(IsSafeName(name)) << name;
  }
}

TEST(NamePart, IsAPathsStemInSafeLetters) {
  EXPECT_EQ(NamePart("workloads/Qwen 2.json"), "qwen-2");
  EXPECT_EQ(NamePart("BF16"), "bf16");
  EXPECT_EQ(NamePart("0.5"), "0.5");
}

}  // namespace harness::names_test
