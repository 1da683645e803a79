#include "trials/tables/facts.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::facts_test {

using fakes::ErrorOf;
using ::testing::HasSubstr;

Facts Of(std::string_view value) {
  Facts facts("t.csv:7");
  facts.Add("x", value);
  return facts;
}

TEST(Facts, HaveOneNameForThoseOfTablesAndHuggingFace) {
  EXPECT_EQ(FactName("num_hidden_layers"), "layers");
  EXPECT_EQ(FactName("n_layers"), "layers");
  EXPECT_EQ(FactName("num_gpus"), "gpus");
  EXPECT_EQ(FactName("gbs"), "global_batch_size");
  EXPECT_EQ(FactName("mb"), "microbatches");  // a parameter's alias
  EXPECT_EQ(FactName("anything"), "anything");
}

TEST(Facts, TheFirstValueCountsUntilItIsReplaced) {
  Facts facts("place");
  facts.Add("layers", "");
  EXPECT_FALSE(facts.Has("layers"));
  facts.Add("num_layers", "2");
  facts.Add("layers", "3");
  EXPECT_EQ(facts.RequireInt("layers"), 2);
  facts.Replace("n_layers", "4");
  EXPECT_EQ(facts.RequireInt("layers"), 4);
  EXPECT_EQ(facts.Text("none", "other"), "other");
}

TEST(Facts, NumbersAreAboveZero) {
  EXPECT_EQ(Of("0.05").Number("x"), 0.05);
  EXPECT_TRUE(std::isnan(Of("1").Number("y")));
  for (const char* text : {"0", "-1", "inf", "nan", "one"}) {
    EXPECT_THAT(ErrorOf([&] { return Of(text).Number("x"); }),
                HasSubstr("t.csv:7: x must be a number above 0"))
        << text;
  }
}

TEST(Facts, IntegersFitIntoAnInt) {
  EXPECT_EQ(Of("7").RequireInt("x"), 7);
  EXPECT_EQ(Of("2147483647").RequireInt("x"), 2147483647);
  EXPECT_EQ(Of("7").Int("x", 3), 7);
  EXPECT_EQ(Of("7").Int("y", 3), 3);
  for (const char* text : {"7.5", "2147483648"}) {
    EXPECT_THAT(ErrorOf([&] { return Of(text).RequireInt("x"); }),
                HasSubstr("x must be an integer"));
  }
}

TEST(Facts, NonNegativeNumbersMayBeZero) {
  EXPECT_EQ(Of("0").NonNegative("x"), 0.0);
  EXPECT_EQ(Of("0.5").NonNegative("x"), 0.5);
  for (const char* text : {"-0.05", "inf"}) {
    EXPECT_THAT(ErrorOf([&] { return Of(text).NonNegative("x"); }),
                HasSubstr("must be a number, 0 or more"));
  }
  EXPECT_THAT(ErrorOf([] { return Of("one").NonNegative("x"); }),
              HasSubstr("must be a number, 0 or more"));
}

TEST(Facts, FlagsAreWords) {
  for (const char* text : {"1", "true", "True"}) {
    EXPECT_TRUE(Of(text).Flag("x", false));
  }
  for (const char* text : {"0", "false", "False"}) {
    EXPECT_FALSE(Of(text).Flag("x", true));
  }
  EXPECT_TRUE(Of("1").Flag("y", true));
  EXPECT_FALSE(Of("1").Flag("y", false));
  EXPECT_THAT(ErrorOf([] { return Of("yes").Flag("x", true); }),
              HasSubstr("must be true or false"));
}

TEST(Facts, AMissingOneIsNamedWithItsScenarioAndTheRemedy) {
  Facts facts("t.csv:7");
  EXPECT_THAT(ErrorOf([&] { return facts.RequireText("layers"); }),
              HasSubstr("t.csv:7: 'layers' is not known; add a column"));
  facts.Add("scenario", "a");
  EXPECT_THAT(ErrorOf([&] { return facts.RequireInt("layers"); }),
              HasSubstr("'layers' is not known of scenario 'a'"));
}

TEST(Facts, ARowHasThoseOfItsColumns) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "t.csv",
                   "num_layers,dp,note\n4,2,\n6,x,n\n");
  const common::CsvTable table =
      common::CsvTable::Read(folder.path() / "t.csv");
  const TableRow first{table, table.rows()[0]};
  const TableRow second{table, table.rows()[1]};
  EXPECT_EQ(first.Number("dp"), 2.0);
  EXPECT_EQ(first.Cell("none"), "");
  EXPECT_THAT(ErrorOf([&] { return second.Number("dp"); }),
              HasSubstr("t.csv:3: dp"));
  Facts facts(second);
  facts.Add(second);
  EXPECT_EQ(facts.all().size(), 3u);
  EXPECT_EQ(facts.Text("layers"), "6");
  EXPECT_THAT(ErrorOf([&] {
                facts.Fail("bad");
                return 0;
              }),
              HasSubstr("t.csv:3: bad"));
  Facts some(first);
  some.Add(first, {"dp", "note"});
  EXPECT_EQ(some.all().size(), 1u);
}

}  // namespace trials::facts_test
