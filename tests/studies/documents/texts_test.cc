#include "studies/documents/texts.h"

#include <gtest/gtest.h>

namespace studies {
namespace {

class TextsTest : public testing::Test {
 protected:
  const Record first_ = {{"method", "oppa"}, {"x", "0.1234"}, {"x_low", "0.1"},
                         {"x_high", "0.2"},  {"rows", "8"},   {"others", "9"}};
  const Record second_ = {{"method", "random"}, {"x", "0.5"}, {"note", ""}};
  const Records records_ = {&first_, &second_};
};

TEST_F(TextsTest, AValueIsThatOfTheFirstRecordThatMeetsTheConditions) {
  EXPECT_EQ(Fill({"{method}: {x:1%}, {x:2?method=random}"}, records_).text,
            "oppa: 12.3, 0.50");
  EXPECT_EQ(Fill({"{method?x=max} {method?x=min}"}, records_).text,
            "random oppa");
}

TEST_F(TextsTest, AnIntervalHasNoLimitsThatAreUnknown) {
  EXPECT_EQ(Fill({"{x:i1%}; {x:i2?method=random}"}, records_).text,
            "12.3 [10.0, 20.0]; 0.50");
}

TEST_F(TextsTest, SeveralRecordsHaveACountAListAndAMean) {
  EXPECT_EQ(Fill({"{method:#}: {method:,}, {x:m2}"}, records_).text,
            "2: oppa, random, 0.31");
  EXPECT_EQ(Fill({"{method:#?method=other}"}, records_).text, "0");
}

TEST_F(TextsTest, TheFirstTextIsTakenWhoseValuesAreAllKnown) {
  EXPECT_EQ(Fill({"{note}; {x:1}", "{method}"}, records_).text, "oppa");
  EXPECT_EQ(Fill({"{note}", "{x:1}; {note}"}, records_).text, "0.1; ");
  EXPECT_EQ(Fill({"only {note}"}, records_).text, "");
  EXPECT_EQ(Fill({"{note:~}{x:1}"}, records_).unknown, 0);
}

TEST_F(TextsTest, AConditionHoldsOfNoRecordWithoutTheColumn) {
  EXPECT_TRUE(Meets(first_, "method=random|oppa&rows>=8"));
  EXPECT_FALSE(Meets(first_, "rows>=others"));
  EXPECT_TRUE(Meets(first_, "others>=rows&method!=random"));
  EXPECT_TRUE(Meets(second_, "note=&method~^rand"));
  EXPECT_FALSE(Meets(first_, "note="));
  EXPECT_FALSE(Meets(first_, "note!=something"));
}

}  // namespace
}  // namespace studies
