#include "plots/table.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plots::table_test {

TEST(Wrap, FillsALineWithPartsOfAWordThatIsTooLong) {
  using testing::ElementsAre;
  EXPECT_THAT(Wrap("fastest: dp=32,tp=2,pp=1,sp=2,cp=1", 20),
              ElementsAre("fastest: dp=32,tp=2,", "pp=1,sp=2,cp=1"));
  EXPECT_THAT(Wrap("a configuration: dp=32,tp=2,pp=1", 14),
              ElementsAre("a", "configuration:", "dp=32,tp=2,", "pp=1"));
  EXPECT_THAT(Wrap("", 10), ElementsAre(""));
}

// A terminal of less than 60 columns breaks by itself.
TEST(WrapLines, IndentsWhatFollowsLikeTheFirstLine) {
  const std::string text = "  " + std::string(50, 'a') + " " + "tail\nnext";
  EXPECT_EQ(
      WrapLines(text + " " + std::string(60, 'b'), 60),
      "  " + std::string(50, 'a') + " tail\nnext\n" + std::string(60, 'b'));
  EXPECT_EQ(WrapLines("  " + std::string(55, 'a') + " tail", 60),
            "  " + std::string(55, 'a') + "\n  tail");
  EXPECT_EQ(WrapLines(text, 59), text);
}

}  // namespace plots::table_test
