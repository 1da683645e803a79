#include "common/text.h"

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/csv_table.h"
#include "common/hash.h"
#include "common/output.h"

namespace common::text_test {

using ::testing::ElementsAre;

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_THAT(Split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(Split("", ','), ElementsAre(""));
}

TEST(Text, EditDistanceCountsTheFourEdits) {
  EXPECT_EQ(EditDistance("oppa", "oppa"), 0);
  EXPECT_EQ(EditDistance("opa", "oppa"), 1);    // insertion
  EXPECT_EQ(EditDistance("oppaa", "oppa"), 1);  // deletion
  EXPECT_EQ(EditDistance("opqa", "oppa"), 1);   // substitution
  EXPECT_EQ(EditDistance("opap", "oppa"), 1);   // swap of neighbors
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(Text, DidYouMeanNamesTheNearestOrNothing) {
  const std::vector<std::string> known = {"random", "oppa", "xgboost"};
  EXPECT_EQ(DidYouMean("opa", known), " (did you mean 'oppa'?)");
  EXPECT_EQ(DidYouMean("xgbost", known), " (did you mean 'xgboost'?)");
  EXPECT_EQ(DidYouMean("bayes", known), "");
  EXPECT_EQ(DidYouMean("opa", {}), "");
}

TEST(CsvCell, FormulasOfASpreadsheetBecomeText) {
  for (const std::string text :
       {"=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"}) {
    const std::string cell = CsvCell(text);
    EXPECT_EQ(cell.find_first_not_of("\""), cell.find('\'')) << text;
  }
  for (const std::string text : {"-0.5", "1e-6", "-", "a=b", "oppa"}) {
    EXPECT_EQ(CsvCell(text), text);
  }
}

TEST(Text, ExactTextReadsBackAsTheSameDouble) {
  std::mt19937_64 engine(1);
  std::vector<double> values = {0.0,
                                -0.0,
                                0.1,
                                1e300,
                                std::numeric_limits<double>::denorm_min(),
                                std::numeric_limits<double>::max(),
                                std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 1000; ++i) {
    values.push_back(std::ldexp(static_cast<double>(engine()),
                                static_cast<int>(engine() % 200) - 100));
  }
  for (const double value : values) {
    EXPECT_EQ(ParseDouble(ExactText(value)), value) << ExactText(value);
  }
  EXPECT_EQ(ExactText(0.1), "0.1");
  EXPECT_EQ(ExactText(std::nan("")), "");
  EXPECT_TRUE(std::isnan(ParseDouble("")));
}

TEST(Text, ParseDoubleRefusesWhatIsNoNumber) {
  EXPECT_EQ(ParseDouble(" 2.5 "), 2.5);
  EXPECT_THROW((void)ParseDouble("2.5s"), std::invalid_argument);
  EXPECT_THROW((void)ParseDouble("two"), std::invalid_argument);
  EXPECT_THROW((void)ParseDouble("1 2"), std::invalid_argument);
}

TEST(Text, ParseIntTakesAWholeTextInItsRange) {
  EXPECT_EQ(ParseInt("-7"), -7);
  EXPECT_EQ(ParseInt("7", 1, 7), 7);
  EXPECT_EQ(ParseInt64("1099511627776"), std::int64_t{1} << 40);
  for (const char* text : {"", "8", "0", " 7", "+7", "7.0", "7x", "x", "1e1",
                           "99999999999999999999"}) {
    EXPECT_EQ(ParseInt(text, 1, 7), std::nullopt) << text;
  }
  EXPECT_EQ(ParseInt("2147483648"), std::nullopt);
  EXPECT_EQ(Lower("H100-SXM \xc3\x84"), "h100-sxm \xc3\x84");
}

// The value is fixed: records of one version must be those of another.
TEST(Text, SeedsDifferByTextAndIndexAndNeverChange) {
  std::set<std::uint64_t> seeds;
  for (const auto* text : {"", "a", "b", "ab", "qwen/oppa/1"}) {
    for (std::uint64_t index = 0; index < 100; ++index) {
      seeds.insert(DeriveSeed(text, index));
    }
  }
  EXPECT_EQ(seeds.size(), 500U);
  // splitmix64 of the FNV-1a offset basis: an independent computation.
  EXPECT_EQ(DeriveSeed(""), 0xc3817c016ba4ff30U);
  EXPECT_EQ(DeriveSeed("oppa", 3), 0xc00f7db81d793b9fU);
}

TEST(Printable, KeepsTextAndReplacesControlCharacters) {
  EXPECT_EQ(Printable("a\tb\n\xc3\xa9"), "a\tb\n\xc3\xa9");
  EXPECT_EQ(Printable("\x1b[31mred\x07\x7f\r"), "?[31mred???");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J \x9d \xc2\xa0 \xe2\x80\x93 \xf0\x9f\x98\x80"),
            "?2J ? \xc2\xa0 \xe2\x80\x93 \xf0\x9f\x98\x80");
}

TEST(Printable, DoesNotDependOnHowTextArrives) {
  const std::string text = "a\xc2\x9b \xe2\x80\x93\xc2\xa0\x1b";
  PrintableText pieces;
  std::string whole;
  for (const char c : text) {
    whole += pieces.Take({&c, 1});
  }
  EXPECT_EQ(whole, Printable(text));
}

TEST(IsTooDeep, CountsBracketsOutsideOfQuotesOnly) {
  const std::string open(kDeepestNesting, '[');
  const std::string close(kDeepestNesting, ']');
  EXPECT_FALSE(IsTooDeep(open + close + open));
  EXPECT_TRUE(IsTooDeep(open + "{"));
  EXPECT_FALSE(IsTooDeep(open + "\"\\\"[[\""));
}

}  // namespace common::text_test
